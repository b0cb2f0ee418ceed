"""What a late batch costs that looks for its keys among all loaded days, and one whose keys name
their event days.

Lives here: a lake of made-up raw days without an engine, and late batches, each with CPU, bytes
read and the peak of memory. Does not live here: any assertion on figures, and whether the ledger is
right (`intake.test_arrivals`).

usage: python -m backfill_assets_tests.benchmarks.late_keys [KEYS [ROWS_PER_DAY]]
"""

import resource
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.arrivals import commit_arrivals
from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.tables.columns import duckdb_name
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.query_files import stage_query
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.pipeline.built_in import contracts

FIRST, BATCH = date(2024, 3, 1), 700
AT_ONCE = 5_000_000  # rows that are written at once
CONTRACTS = tuple(contracts().values())
RAW = next(c for c in CONTRACTS if c.is_landed)
# By name of the batch: which key its row i has, and its event day, for `corrected` rows of the day
# `on`.
BATCHES = {
    "new keys only": ("n", "arrived"),
    "350 of them corrections": ("CASE WHEN i % 2 = 0 THEN (i * 7919) % {keys} ELSE n END", "NULL"),
    "and 10 move to another event day": (
        "CASE WHEN i % 2 = 0 THEN (i * 7919) % {keys} ELSE n END",
        "CASE WHEN i < 20 THEN arrived END",
    ),
}


def rows_of(first: int, rows: int, per_day: int, key: str = "n", event: str = "NULL") -> str:
    """SQL of raw's rows from number `first` on, `per_day` each day, events of the day that their
    key names."""
    own = f"DATE '{FIRST}' + CAST(floor(key / {per_day}) AS INT)"
    known = {
        "event_key": f"md5(CAST(key AS VARCHAR)) || ({own})",
        "op": "'upsert'",
        "arrival_date": "arrived",
        "event_ts": f"CAST(coalesce({event}, {own}) AS TIMESTAMP) + INTERVAL 1 HOUR",
        "arrival_ts": "CAST(arrived AS TIMESTAMP) + INTERVAL 2 HOUR",
        "seq": "n",
        "row_number": "n",
    }
    cells = ", ".join(
        f"CAST({known.get(c.name, _any(c.type))} AS {duckdb_name(c.kind)}) AS {quoted_name(c.name)}"
        for c in RAW.columns
    )
    return (
        f"SELECT {cells} FROM (SELECT *, {key} AS key FROM (SELECT i, {first} + i AS n, "
        f"DATE '{FIRST}' + CAST(floor(({first} + i) / {per_day}) AS INT) AS arrived FROM "
        f"range({rows}) r(i)))"
    )


def _any(kind: str) -> str:
    text = {
        "STRING": "CAST(n % 1000 AS VARCHAR)",
        "TIMESTAMP": "CAST(arrived AS TIMESTAMP)",
        "DATE": "arrived",
    }
    return text.get(kind, "CAST(n % 1000 AS INT)")


def publish(lake: Lake, contract: Contract, staged: Staged, days: Iterable[date | None]) -> None:
    """Commit what is staged, with receipts that say nothing of the rows but that each day has
    one."""
    version = lake.store.view(RAW.name, RAW.day_column).version
    entries = {d: DayEntry(1, staged.write_id, staged.write_id) for d in days if d}
    base = lake.store.view(contract.name, contract.day_column).version
    write = Write(
        contract, staged, entries, base, Provenance("benchmark", inputs={RAW.name: version})
    )
    replace_days(lake, write, lambda of: {d: entries[d].input_digest for d in of})
    staged.drop()


def land(lake: Lake, rows: str) -> None:
    """Bring rows into raw."""
    staged = stage_query(lake, RAW, rows)
    publish(lake, RAW, staged, {f.day for f in staged.files})


def ledger_by_hand(lake: Lake, days: int, per_day: int) -> None:
    """The ledger of these days as loads would give it, but for fingerprints, without their cost."""
    rows = (
        f"SELECT day AS arrival_date, day AS event_date, {per_day} AS deliveries, {per_day} AS "
        "keys, 0 AS moved_keys, "
        "3600 AS greatest_lateness_s, 'x' AS fingerprint, strftime(day, '%Y-%m') AS arrival_month "
        f"FROM (SELECT DATE '{FIRST}' + CAST(i AS INT) AS day FROM range({days}) r(i))"
    )
    publish(
        lake,
        ARRIVALS,
        stage_query(lake, ARRIVALS, rows),
        [FIRST + timedelta(n) for n in range(days)],
    )


def spent() -> tuple[float, float]:
    """CPU seconds and MB read of this process so far. The peak of its memory counts anew from
    here."""
    Path("/proc/self/clear_refs").write_text("5")
    used = resource.getrusage(resource.RUSAGE_SELF)
    read = next(
        line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")
    )
    return used.ru_utime + used.ru_stime, int(read.split()[1]) / 1e6


def load(lake: Lake, name: str, rows: str) -> None:
    """Load rows and tell what bringing the ledger up to them costs."""
    land(lake, rows)
    view, (cpu, read) = read_view(lake, CONTRACTS), spent()
    commit_arrivals(LakeSession(lake), CONTRACTS, view, Provenance("benchmark"))
    peak = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    after, mib = spent(), int(peak.split()[1]) / 1024
    figures = f"{after[0] - cpu:8.2f} CPU s {after[1] - read:10.1f} MB read {mib:8.0f} MiB at most"
    print(f"{name:42} {figures}", flush=True)


def main(keys: int, per_day: int) -> None:
    """A lake of so many keys, then one late batch after the other."""
    with tempfile.TemporaryDirectory() as folder:
        lake, days = bare_lake(Path(folder)), keys // per_day
        at_once = max(AT_ONCE // per_day, 1) * per_day
        for first in range(0, keys, at_once):
            land(lake, rows_of(first, min(at_once, keys - first), per_day))
        ledger_by_hand(lake, days, per_day)
        print(f"{keys:,} keys in {days} days", flush=True)
        for number, (name, (key, event)) in enumerate(BATCHES.items()):
            rows = rows_of(keys + number * per_day, BATCH, per_day, key.format(keys=keys), event)
            load(lake, f"{BATCH} rows: {name}", rows)
        source = lake.settings.source.model_copy(update={"key_day": "." * 32 + "YYYY-MM-DD"})
        lake = replace(lake, settings=lake.settings.model_copy(update={"single": source}))
        key, _ = BATCHES["350 of them corrections"]
        for number, name in enumerate(
            ("the first with key_day: all days", "350 of them corrections, key_day")
        ):
            first = keys + (len(BATCHES) + number) * per_day
            load(
                lake, f"{BATCH} rows: {name}", rows_of(first, BATCH, per_day, key.format(keys=keys))
            )


if __name__ == "__main__":
    asked = [int(argument) for argument in sys.argv[1:]]
    main(asked[0] if asked else 1_000_000, asked[1] if len(asked) > 1 else 20_000)
