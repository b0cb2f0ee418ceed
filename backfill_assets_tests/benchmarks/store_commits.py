"""Many processes that commit to one table in a store: each write once or not at all, none lost; and
at which rate.

Lives here: writers of five days, a checker of the log and its files. Does not live here: kills at
each step (`end_to_end.test_bucket_stops`). The store is versitygw's where that is on PATH, else
moto's. HOW: `locked`, as users have it; `racing`, without the lock, so that nearly all commits
meet; `disturbed`, racing, and answers are lost, wrong, old or slow; `paused`, racing, and a process
that chance draws is stopped for longer than its leases last, or killed.

usage: python -m backfill_assets_tests.benchmarks.store_commits [PROCESSES [COMMITS [HOW]]]
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path

from deltalake import DeltaTable

from backfill_assets.buckets import leases
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.core.receipts import parse_receipt
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, content, machine
from backfill_assets_tests.faulty_store import faulty
from backfill_assets_tests.files import publish_by_hand
from backfill_assets_tests.stores import StoreServer, moto, versitygw

DAYS, LEASE_SECONDS, PAUSE_SECONDS, SHARE_KILLED = 5, 1.0, (0.0, 8.0), 0.05


def writer(root: str, number: str, commits: str, how: str) -> None:
    """Write a day so often; prints `did ID` of what was acknowledged, `not KIND` of what was
    refused."""
    if how != "locked":
        vars(leases)["lease"] = lambda *_: nullcontext()
    if how == "paused":
        vars(leases)["WRITE_LEASE_SECONDS"] = LEASE_SECONDS
    lake = open_lake(Path(root))
    for n in range(int(commits)):
        row = {"entity": f"w{number}", "value": n, "event_date": day(n % DAYS)}
        try:
            print(
                "did", publish_by_hand(lake, STAGING, [row], f"{number}-{n}").write_id, flush=True
            )
        except TransientError as error:
            print("not", type(error).__name__, flush=True)


def _paused(started: list["subprocess.Popen[str]"], chance: random.Random) -> None:
    """Stop processes for a while, or kill one, until all have ended."""
    while any(process.poll() is None for process in started):
        number = chance.randrange(len(started))
        with suppress(ProcessLookupError):
            if chance.random() < SHARE_KILLED and number:
                started[number].kill()
            else:
                os.kill(started[number].pid, signal.SIGSTOP)
                time.sleep(chance.uniform(*PAUSE_SECONDS))
                os.kill(started[number].pid, signal.SIGCONT)
        threading.Event().wait(chance.random())


def checked(lake: Lake, said: list[str]) -> None:
    """Hold the log against what the writers were told; raises AssertionError."""
    table = lake.table_place("staging")
    done = [line.split()[1] for line in said if line.startswith("did")]
    history = DeltaTable(table.uri()).history()
    kept = Counter(r.write_id for c in history if (r := parse_receipt(c.get("userMetadata"))))
    print(
        f"acknowledged {len(done)}, in the log {len(kept)}, refused "
        f"{Counter(s for s in said if s[:3] == 'not')}"
    )
    assert set(kept.values()) <= {1}, "a write is in the log twice"
    assert {*done} <= {*kept}, f"{len({*done} - {*kept})} acknowledged writes are lost"
    assert len(done) == len({*done})
    lost = [f.path for f in files_of_version(lake, STAGING) if not table.exists(f.path)]
    assert not lost, f"{lost} are named by the log and were swept"
    assert len(content(lake)) == DAYS, "each day holds one writer's row"


def raced(server: StoreServer, folder: Path, processes: int, commits: int, how: str) -> None:
    """Let the processes commit, then check and print."""
    os.environ |= server.environment
    with (
        faulty(server.endpoint, share=0.02, is_slow=True)
        if how == "disturbed"
        else nullcontext("") as way
    ):
        lake, said = _raced(server, folder, processes, commits, how, way)
    checked(lake, said)


def _raced(
    server: StoreServer, folder: Path, processes: int, commits: int, how: str, way: str
) -> tuple[Lake, list[str]]:
    address, chance = f"{server.new_bucket()}/lake", random.Random(commits)
    lake = bare_bucket(address, folder / "checker")
    publish_by_hand(
        lake, STAGING, [{"entity": "A", "value": 0, "event_date": day(n)} for n in range(DAYS)]
    )
    words = [sys.executable, "-m", __spec__.name, "writer"]
    roots = [str(machine(address, folder / str(n))) for n in range(processes)]
    logs = [(folder / f"{n}.said").open("a") for n in range(processes)]
    reached, began = {**os.environ, **({"AWS_ENDPOINT_URL": way} if way else {})}, time.monotonic()
    started = [
        subprocess.Popen(
            [*words, root, str(n), str(commits), how], stdout=log, text=True, env=reached
        )
        for n, (root, log) in enumerate(zip(roots, logs, strict=True))
    ]
    if how == "paused":
        _paused(started, chance)
    codes = [process.wait() for process in started]
    seconds = time.monotonic() - began
    said = [
        line for n in range(processes) for line in (folder / f"{n}.said").read_text().splitlines()
    ]
    print(
        f"{processes} x {commits} {how}: {seconds:.0f} s, {len(said) / seconds:.2f} writes a "
        f"second, codes {codes}"
    )
    return lake, said


def main(processes: str = "4", commits: str = "300", how: str = "locked") -> None:
    """Race on one store."""
    with (
        (versitygw if shutil.which("versitygw") else moto)() as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        raced(server, Path(folder), int(processes), int(commits), how)


if __name__ == "__main__":
    writer(*sys.argv[2:]) if sys.argv[1:2] == ["writer"] else main(*sys.argv[1:])
