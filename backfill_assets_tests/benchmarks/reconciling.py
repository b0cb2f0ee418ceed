"""What `reconcile` costs, and that it finds each of 12 planted differences in both directions among
many rows.

    python -m backfill_assets_tests.benchmarks.reconciling [FOLDER] [ROWS] [thin]

Lives here: two Parquet files that DuckDB makes, and seconds, CPU seconds, peak memory and spilled
bytes of each direction. Does not live here: each difference on its own
(`reconcile.test_reconcile`). `thin`: three columns and two differences, for 10^8 rows.
"""

import resource
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import duckdb

from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.matching import KINDS
from backfill_assets.reconcile.reconcile import ReconcileReport, ReconcileRequest, reconcile
from backfill_assets_tests.files import bare_lake

ROWS = 1_000_000
DAYS = 365
THIN = (
    f"SELECT range AS id, DATE '2024-01-01' + CAST(range % {DAYS} AS INTEGER) AS day, range % "
    "1000 / 8.0 AS score "
    "FROM range({})"
)
WIDE = (
    "SELECT id, day, score, CAST(id % 7919 AS DECIMAL(18, 2)) + 0.26 AS total, 'Name ' || id AS "
    "name, id % 100 AS n, "
    "TIMESTAMPTZ '2024-01-01 12:00:00+00' + INTERVAL '1 minute' * (id % 500000) AS seen FROM ({})"
)
CHANGES = {
    "name": {3: "'other'", 4: "upper(name)", 5: "name || ' '"},
    "total": {6: "round(total, 0)", 7: "round(total, 1)"},
    "day": {8: "day + 1"},
    "score": {1000: "CAST('-0.0' AS DOUBLE)"},
    "seen": {10: "seen + INTERVAL '2 hours'"},
    "id": {11: "NULL"},
}
FOUND = {
    "missing left": 2,
    "missing right": 2,
    "doubled left": 0,
    "doubled right": 1,
    "differs": 6,
    "within tolerance": 2,
}
LOOKS = {"case": 1, "blanks": 1, "rounding": 2, "a day apart": 1, "sign of zero": 1, "time zone": 1}


def plant(folder: Path, rows: int, thin: bool) -> None:
    """Write both sides: the right one lacks 1, has 2 twice, one more, and what `CHANGES` say; `n`
    is text there."""
    base = THIN.format(rows) if thin else WIDE.format(THIN.format(rows))
    changes = {"score": {3: "score + 1"}} if thin else CHANGES
    cells = [
        f"CASE {' '.join(f'WHEN id = {n} THEN {to}' for n, to in of.items())} ELSE {column} END "
        f"AS {column}"
        for column, of in changes.items()
    ]
    right = f"SELECT * REPLACE ({', '.join(cells)}) FROM ({base}) WHERE id <> 1"
    if not thin:
        right = (
            f"SELECT * REPLACE (CAST(n AS VARCHAR) AS n) FROM ({right} UNION ALL FROM ({base}) "
            "WHERE id = 2 "
        )
        right += f"UNION ALL SELECT * REPLACE ({rows} AS id) FROM ({base}) WHERE id = 12)"
    with duckdb.connect(
        config={"memory_limit": "1GB", "preserve_insertion_order": "false"}
    ) as engine:
        for name, query in (("left", base), ("right", right)):
            engine.execute(f"COPY ({query}) TO '{folder / name}.parquet'")


def measured(folder: Path, left: str, right: str, tolerance: dict[str, str]) -> ReconcileReport:
    """Reconcile two files and print what it cost."""
    lake = bare_lake(Path(tempfile.mkdtemp(dir=folder)))
    asked = ReconcileRequest(
        str(folder / f"{left}.parquet"), str(folder / f"{right}.parquet"), ("id",)
    )
    spilled, done = [0], threading.Event()

    def sample() -> None:
        while not done.wait(1):
            sizes = [f.stat().st_size for f in (lake.root / ".staging").rglob("*") if f.is_file()]
            spilled[0] = max(spilled[0], sum(sizes))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    began, used = time.monotonic(), time.process_time()
    report = reconcile(
        lake, Pipeline((), {}), replace(asked, tolerance=tolerance, day_column="day", sha256=True)
    )
    wall, cpu = time.monotonic() - began, time.process_time() - used
    done.set()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {k: report.total(k) for k in KINDS if report.total(k)}
    print(
        f"{left} against {right}: {wall:.1f} s, {cpu:.1f} CPU s, peak {peak:.0f} MiB, "
        f"{spilled[0] / 2**20:.0f} MiB "
        f"spilled, {report.mismatches} mismatches, {found}",
        flush=True,
    )
    return report


def main(folder: Path, rows: int, thin: bool) -> None:
    """Both directions and two equal sides; raises AssertionError where a difference is not found or
    not named."""
    plant(folder, rows, thin)
    tolerance = {} if thin else {"total": "0.05"}
    assert measured(folder, "left", "left", tolerance).mismatches == 0
    for left, right in (("left", "right"), ("right", "left")):
        report = measured(folder, left, right, tolerance)
        if thin:
            continue
        swap = {"left": left, "right": right}
        for kind, rows_of_kind in FOUND.items():
            what, _, side = kind.partition(" ")
            assert report.total(f"{what} {swap[side]}" if side in swap else kind) == rows_of_kind, (
                kind
            )
        looks = {look: n for c in report.columns for look, n in c.how.items()}
        assert (looks, sum(not c.same_kind for c in report.columns)) == (LOOKS, 1)


if __name__ == "__main__":
    given = sys.argv[1:]
    place = Path(given[0]) if given else Path(tempfile.mkdtemp())
    place.mkdir(parents=True, exist_ok=True)
    main(place, int(float(given[1])) if len(given) > 1 else ROWS, "thin" in given)
