"""What importing an append-only log costs: a million rows, 15 % of them duplicates, killed twice, then held against it.

    python -m backfill_assets_tests.benchmarks.importing DIR [ROWS]

Lives here: the log, the two kills, and the seconds, CPU seconds and memory of the whole. Does not live here: small logs
(`operations.test_import_log`).
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb

ROWS, DAYS, SHARE = 1_000_000, 120, 0.15
KILLED_AT = (20, 80)  # files of arrival days


def make_log(file: Path, rows: int) -> None:
    """Write a log whose last 15 % of rows are later versions of keys that it has already."""
    keys = int(rows * (1 - SHARE))
    at = f"TIMESTAMP '2024-01-01' + INTERVAL (hash(i % {keys}) % {DAYS * 86400}) SECOND"
    cells = f"i % {keys} AS id, {at} AS happened, {at} + INTERVAL (i // {keys} * 86400) SECOND AS came"
    rest = "'c' || i % 9973 AS customer, CAST(i * 1.25 AS DECIMAL(18, 2)) AS amount"
    duckdb.connect().execute(f"COPY (SELECT {cells}, {rest} FROM range({rows}) t(i)) TO '{file}' (FORMAT parquet)")


def main(folder: Path, rows: int) -> None:
    """Make the log, import it with two kills, load it, and print one line of JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    log, lake = folder / "log.parquet", folder / "lake"
    make_log(log, rows)
    given = f"import-log {log} --into {lake} --key id --event-ts happened --arrival-ts came".split()
    command = [str(Path(sys.executable).with_name("backfill-assets")), *given]
    began, kills = time.monotonic(), []
    for files in KILLED_AT:
        started = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while started.poll() is None and len(list(lake.glob("landing/*.parquet"))) < files:
            time.sleep(0.005)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        kills.append(len(list(lake.glob("landing/*.parquet"))))
    done = subprocess.run([*command, "--load", "--json"], stdout=subprocess.PIPE, check=False, text=True)
    found, used = json.loads(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN)
    told = {name: found[name] for name in ("rows", "keys", "duplicates", "written", "duplicates_left", "mismatches")}
    figures = {"seconds": time.monotonic() - began, "cpu_seconds": used.ru_utime + used.ru_stime}
    memory = {"files_at_kills": kills, "greatest_mib": used.ru_maxrss >> 10, "exit_code": done.returncode}
    print(json.dumps({**told, **{name: round(value, 1) for name, value in figures.items()}, **memory}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROWS)
