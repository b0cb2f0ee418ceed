"""Taking in landed text files of 10 columns: rows per CPU second and peak memory, in turns with an older checkout.

Lives here: made-up CSV and JSON lines, plain and gzip, each taken in by its own process. Does not live here: Spark,
which reads the copies, and the equality of the two ways to read CSV (`landing/test_csv_records.py`).

usage: python -m backfill_assets_tests.benchmarks.intake DIR [ROWS [OLDER_CHECKOUT]]
"""

import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TAKE = """
import sys
from pathlib import Path
from backfill_assets.landing.{0} import {1}
from backfill_assets.landing.files import LandedFile
path, stat = Path(sys.argv[1]), Path(sys.argv[1]).stat()
taken = {1}(LandedFile(path.name, path, stat.st_size, stat.st_mtime_ns), sys.argv[2], Path(sys.argv[3]))
assert not taken.bad_rows
"""
NAMES = ("event_key", "op", "event_ts", "arrival_ts", "customer_id", "amount", "currency", "note", "is_return", "page")
TURNS = 3


def rows(count: int) -> Iterator[tuple[str, ...]]:
    """Rows of texts; one in twenty needs quotes."""
    for i in range(count):
        moment, note = (
            f"2024-01-{1 + i % 28:02d}T{i % 24:02d}:00:00Z",
            f'say ""{i}"", he said' if i % 20 == 0 else "none",
        )
        yield (
            f"key-{i}", "upsert", moment, moment, str(i * 7919 % 100_000), f"{i % 1000}.25", "EUR", note,
            "false", f"/page/{i % 97}",
        )  # fmt: skip


def landed(folder: Path, count: int) -> dict[str, tuple[Path, str]]:
    """The files by name, with their format."""
    csv, jsonl = folder / "a.csv", folder / "a.jsonl"
    with csv.open("w") as text, jsonl.open("w") as lines:
        text.write(",".join(NAMES) + "\n")
        for row in rows(count):
            text.write(",".join(f'"{v}"' if '"' in v else v for v in row) + "\n")
            lines.write(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n")
    packed = folder / "b.csv.gz"
    packed.write_bytes(gzip.compress(csv.read_bytes(), 6))
    return {"CSV": (csv, "csv"), "CSV gzip": (packed, "csv"), "JSON lines": (jsonl, "jsonl")}


def cost(checkout: Path, path: Path, format: str) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and peak MiB of taking a file in."""
    names = ("ingest", "ingest") if (checkout / "backfill_assets/landing/ingest.py").exists() else ("intake", "take")
    with tempfile.TemporaryDirectory(dir=path.parent) as stock:
        began = time.monotonic()
        command = [sys.executable, "-c", TAKE.format(*names), str(path), format, stock]
        process = subprocess.Popen(command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def main(folder: Path, count: int, checkouts: list[Path]) -> None:
    """A line per file and checkout: the best of TURNS turns, which another program on the machine disturbs least."""
    folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, (path, format) in landed(folder, count).items():
        found: dict[Path, list[tuple[float, float, int]]] = {c: [] for c in checkouts}
        for _ in range(TURNS):
            for checkout in checkouts:
                found[checkout].append(cost(checkout, path, format))
        for checkout, costs in found.items():
            wall, cpu, peak = (min(column) for column in zip(*costs, strict=True))
            speed = f"{cpu:7.1f} CPU s {count / cpu:9,.0f} rows/CPU s"
            print(f"{name:12} {checkout.name:12} {wall:7.1f} s {speed} {peak} MiB", flush=True)


if __name__ == "__main__":
    here = Path(__file__).parents[2]
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000,
        [*map(Path, sys.argv[3:]), here],
    )
