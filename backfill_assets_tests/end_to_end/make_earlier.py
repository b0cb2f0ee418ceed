"""Makes an archive of a lake by the code of an earlier commit, for `test_earlier_lakes`: run in a checkout of it.

usage: python -P make_earlier.py OUT.tar.xz, with PYTHONPATH=CHECKOUT. Corrections, tables in SQL, a column widened in
place, a finished plan, a held day, a snapshot, and commits that left the log of staging. Not here: tests.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path

LAKE_TOML = """start_date = 2024-03-01
[source]
files = "landing/*.jsonl"
format = "jsonl"
select = "seq, cast(arrival_ts as timestamp) AS arrival_ts, cast(arrival_ts as timestamp) AS version_ts, \
cast(event_ts as timestamp) AS event_ts, event_key, 'upsert' AS op, entity, value, 0 AS flag"
[features]
windows_days = [2, 3]
[labels]
horizon_days = 1
maturity_days = 1
[spark]
engine = "sail"
[pipeline]
sql = "sql/*.sql"
"""
DAILY = """/*
description = "Money and orders per customer and day."
day = "day"
key = ["customer"]
columns = { customer = "STRING", day = "DATE", cents = "BIGINT", orders = "INT" }
inputs = { staging = {} }
*/
SELECT entity AS customer, event_date AS day, coalesce(try_sum(value), 0) AS cents, cast(count(*) AS INT) AS orders
FROM staging WHERE known_until IS NULL GROUP BY entity, event_date
"""
WEEKLY = """/*
description = "Money of seven days."
day = "day"
key = ["customer"]
columns = { customer = "STRING", day = "DATE", total = "BIGINT", orders = "BIGINT" }
inputs = { daily = { before = 6 } }
*/
SELECT customer, d AS day, coalesce(try_sum(cents), 0) AS total, coalesce(try_sum(orders), 0) AS orders
FROM (SELECT *, explode(sequence(day, date_add(day, 6))) AS d FROM daily) GROUP BY customer, d
"""
LAST = 5


def landed(day: int) -> str:
    """Two events of the day, and from the second day on a correction of the first event of the day before."""
    rows = [(f"e{day}{n}", f"2024-03-{day:02}T0{n}:00:00Z", f"A{n}", day) for n in (1, 2)]
    rows += [(f"e{day - 1}1", f"2024-03-{day - 1:02}T01:00:00Z", "A1", 10 * day)] if day > 1 else []
    columns = ("event_key", "event_ts", "entity", "value")
    return "".join(
        json.dumps({"seq": n, "arrival_ts": f"2024-03-{day:02}T1{n}:00:00Z", **dict(zip(columns, row, strict=True))})
        + "\n"
        for n, row in enumerate(rows, 1)
    )


def run(root: Path, *args: str) -> str:
    """The output of one command on the lake."""
    command = [sys.executable, "-P", "-m", "backfill_assets", *args, "--lake", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


def make(root: Path) -> None:
    """Make the lake in an empty folder."""
    (root / "sql").mkdir()
    (root / "landing").mkdir()
    (root / "lake.toml").write_text(LAKE_TOML, encoding="utf-8")
    (root / "sql" / "daily.sql").write_text(DAILY, encoding="utf-8")
    (root / "sql" / "weekly.sql").write_text(WEEKLY, encoding="utf-8")
    for day in range(1, LAST + 1):
        file = root / "landing" / f"2024-03-{day:02}.jsonl"
        file.write_text(landed(day), encoding="utf-8")
        os.utime(file, (0, 0))
        run(root, "catch-up")
    (root / "sql" / "daily.sql").write_text(
        DAILY.replace('"INT"', '"BIGINT"').replace("cast(count(*) AS INT)", "count(*)")
    )
    run(root, "backfill", "--from", "2024-03-04", "--to", f"2024-03-{LAST:02}")
    run(root, "plan", "--from", "2024-03-01", "--to", "2024-03-02", "--tables", "daily,weekly", "--force")
    plan = json.loads(run(root, "plan", "list", "--json"))[0]["id"]
    run(root, "run", plan)
    run(root, "snapshot", "create", "kept", "--tables", "training", "--from", "2024-03-01", "--to", "2024-03-02")
    first = ("--days", "2024-03-01..2024-03-01")
    run(root, "rollback", "--table", "weekly", *first, "--to-version", "1", "--over-newer", "--yes")
    _archive_commits(root / "tables" / "staging")


def _archive_commits(table: Path) -> None:
    import_module("backfill_assets.lake.checkpoints").move_commits(table, 2)


def main(target: str) -> None:
    """Make a lake and pack what it keeps of itself."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "lake"
        root.mkdir()
        make(root)
        with tarfile.open(target, "w:xz") as archive:
            for path in sorted(root.iterdir()):
                if path.name not in (".dagster", ".locks", ".server"):
                    archive.add(path, path.name)


if __name__ == "__main__":
    main(sys.argv[1])
