"""What one late row costs a table whose windows are 730 days: read from all rows of these days, and
from sums by day and customer that a table of the lake keeps.

Lives here: a lake with both tables by the same query, a late row, and what it costs each, on a
server that was started before. Does not live here: any assertion but that both have the same rows,
and what a windowed table is (guide `own-tables`).

usage: python -m backfill_assets_tests.benchmarks.long_windows [ROWS_PER_DAY [CUSTOMERS [ENGINE]]]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa

from backfill_assets.reading.opening import open_lake

WINDOW, KEPT = 730, 30  # days of a window, days of the windowed tables
FIRST = date(2022, 1, 1)
FIRST_KEPT = FIRST + timedelta(WINDOW)
LAST = FIRST_KEPT + timedelta(KEPT - 1)
EVERY = ("--from", str(FIRST), "--to", str(LAST))
RANGE_KEPT = ("--from", str(FIRST_KEPT), "--to", str(LAST))
LATE = FIRST_KEPT - timedelta(300)  # within the window of each kept day
SETTINGS = """start_date = {first}
as_of = {now}T23:00:00Z
[source]
files = "landing/*.parquet"
format = "parquet"
select = "id AS event_key, at AS event_ts, arrived AS arrival_ts, customer, cents"
payload = {{ customer = "STRING", cents = "BIGINT" }}
[features]
entity = ["customer"]
[pipeline]
tables = "backfill_assets.pipeline.tables:delivered"
sql = "sql/*.sql"
[spark]
engine = "{engine}"
"""
DAILY = (
    "SELECT customer, event_date AS day, try_sum(cents) AS spent FROM staging "
    "WHERE known_until IS NULL GROUP BY customer, event_date"
)
WINDOWED = f"""SELECT customer, wanted AS day, try_sum(spent) AS spent
FROM (SELECT explode(sequence(:first_day, :last_day)) AS wanted)
JOIN ({{daily}}) ON day BETWEEN date_sub(wanted, {WINDOW - 1}) AND wanted
GROUP BY customer, wanted"""
HEADER = """/*
description = "Money per customer."
day = "day"
key = ["customer"]
columns = {{ customer = "STRING", day = "DATE", spent = "BIGINT NULL" }}
inputs = {{ {inputs} }}
*/
"""
QUERIES = {
    "daily_sums": ("staging = {}", DAILY),
    "by_rows": (f"staging = {{ before = {WINDOW - 1} }}", WINDOWED.format(daily=DAILY)),
    "by_sums": (f"daily_sums = {{ before = {WINDOW - 1} }}", WINDOWED.format(daily="daily_sums")),
}


def lay_out(lake: Path, per_day: int, customers: int, engine: str) -> None:
    """Settings, queries and a file of so many rows a day."""
    (lake / "sql").mkdir(parents=True)
    (lake / "landing").mkdir()
    write_settings(lake, LAST, engine)
    for name, (inputs, query) in QUERIES.items():
        text = HEADER.format(inputs=inputs) + query
        (lake / "sql" / f"{name}.sql").write_text(text, encoding="utf-8")
    days = (LAST - FIRST).days + 1
    land(
        lake / "landing" / "all.parquet",
        f"SELECT 'o' || i AS id, DATE '{FIRST}' + CAST(i // {per_day} AS INT) AS day, "
        f"'c' || (i * 7919 % {customers}) AS customer, i % 1000 AS cents "
        f"FROM range({days * per_day}) r(i)",
        arrived="day",
    )


def write_settings(lake: Path, now: date, engine: str) -> None:
    """Settings of a lake whose clock stands in the evening of that day."""
    text = SETTINGS.format(first=FIRST, now=now, engine=engine)
    (lake / "lake.toml").write_text(text, encoding="utf-8")


def land(path: Path, rows: str, arrived: str) -> None:
    """Write a file that the source takes, of rows with a day that arrived on another."""
    duckdb.sql(
        f"COPY (SELECT id, customer, cents, CAST(day AS TIMESTAMP) + INTERVAL 1 HOUR AS at, "
        f"CAST({arrived} AS TIMESTAMP) + INTERVAL 2 HOUR AS arrived FROM ({rows})) "
        f"TO '{path}' (FORMAT parquet)"
    )


def processor_seconds(lake: Path) -> float:
    """What commands that ended and the servers of the lake have used."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = ended.ru_utime + ended.ru_stime
    for process in psutil.process_iter(["cwd", "cpu_times"]):
        if str(process.info["cwd"] or "").startswith(str(lake)):
            used += process.info["cpu_times"].user + process.info["cpu_times"].system
    return used


@contextmanager
def timed(lake: Path, name: str) -> Iterator[None]:
    """Tell what happens within costs."""
    began, used = time.monotonic(), processor_seconds(lake)
    yield
    wall, cpu = time.monotonic() - began, processor_seconds(lake) - used
    print(f"{name:24} {wall:8.1f} s {cpu:8.1f} CPU s", flush=True)


def run(lake: Path, *words: str) -> None:
    """Run a command on the lake; what it prints is shown where it fails."""
    command = [sys.executable, "-m", "backfill_assets", "--lake", str(lake), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")


def rows_of(lake: Path, table: str) -> pa.Table:
    """All rows of a windowed table, in order."""
    rows: pa.Table = open_lake(lake, newest=True).table(table).arrow()
    in_order = rows.sort_by([("day", "ascending"), ("customer", "ascending")])
    return in_order.select(["day", "customer", "spent"])


def main(per_day: int, customers: int, engine: str) -> None:
    """Load a lake, then let one row come late, twice: the first finds a server that has not yet
    made such a table again."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        lay_out(lake, per_day, customers, engine)
        print(f"{per_day:,} rows of {customers:,} customers a day, windows of {WINDOW} days")
        try:
            with timed(lake, "raw, staging"):
                run(lake, "backfill", *EVERY, "--tables", "raw,staging")
            with timed(lake, "daily_sums, all days"):
                run(lake, "backfill", *EVERY, "--tables", "daily_sums")
            for table in ("by_rows", "by_sums"):
                with timed(lake, f"{table}, {KEPT} days"):
                    run(lake, "backfill", *RANGE_KEPT, "--tables", table)
            for again in (1, 2):
                arrived = LAST + timedelta(again)
                row = f"SELECT 'late{again}' AS id, DATE '{LATE}' AS day, 'c1' AS customer, 7 AS cents"
                land(lake / "landing" / f"late{again}.parquet", row, f"DATE '{arrived}'")
                write_settings(lake, arrived, engine)
                print(f"a late row, {again}", flush=True)
                for tables, days in (
                    ("raw,staging", (*EVERY[:3], str(arrived))),
                    ("by_rows", RANGE_KEPT),
                    ("daily_sums", EVERY),
                    ("by_sums", RANGE_KEPT),
                ):
                    with timed(lake, f"  {tables}"):
                        run(lake, "backfill", *days, "--tables", tables)
                assert rows_of(lake, "by_rows").equals(rows_of(lake, "by_sums"))
        finally:
            run(lake, "server", "stop")


if __name__ == "__main__":
    rows, buyers, on = [*sys.argv[1:], *("5000", "500", "embedded")[len(sys.argv) - 1 :]]
    os.environ.pop("DAGSTER_HOME", None)
    main(int(rows), int(buyers), on)
