"""Two machines, as network namespaces without a shared folder, on one lake in a bucket: late data
on one, a plan that makes everything again on the other, both killed at random; at the end the lake
is what one machine makes of the same deliveries.

Lives here: the namespaces, the rounds, the comparison. Does not live here: kills at each step of
one write (`end_to_end.test_bucket_stops`). Needed: root, `ip`, and versitygw on PATH.

usage: python -m backfill_assets_tests.benchmarks.two_machines [ROUNDS [SEED]]
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.end_to_end.test_invariance import ROWS, RULES, made
from backfill_assets_tests.end_to_end.worlds import encoded, span
from backfill_assets_tests.engine_choice import OF_LAKES
from backfill_assets_tests.oracle import Row
from backfill_assets_tests.stores import KEY, SECRET, StoreServer

STORE, MACHINES, PORT, BUCKET = "bfa-store", ("bfa-1", "bfa-2"), 7070, "bucket"
SHARE_KILLED, MOST_SECONDS = 0.7, 60.0
DAYS = ("--from", str(RULES.start), "--to", str(span(RULES).end - ONE_DAY))
AGAIN = ("backfill", *DAYS)
PLAN = (
    "plan",
    *DAYS,
    "--force",
    "--chunk",
    "3d",
    "--max-row-change",
    "1000",
    "--max-null-jump",
    "1",
    "--json",
)
OWN = "backfill_assets_tests.benchmarks.two_machines"


def ip(words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words.split()], check=True)


@contextmanager
def namespaces() -> Iterator[None]:
    """One of the store, and one of each machine, which reaches the store alone."""
    for name in (STORE, *MACHINES):
        subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)
        ip(f"netns add {name}")
        ip(f"-n {name} link set lo up")
    try:
        for n, name in enumerate(MACHINES):
            ip(f"link add bfa{n} netns {STORE} type veth peer name eth0 netns {name}")
            ip(f"-n {STORE} addr add 10.99.{n}.1/24 dev bfa{n}")
            ip(f"-n {STORE} link set bfa{n} up")
            ip(f"-n {name} addr add 10.99.{n}.2/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
        yield
    finally:
        for name in (STORE, *MACHINES):
            ip(f"netns delete {name}")


def environment(number: int, folder: Path) -> dict[str, str]:
    """What a machine's processes know: the way to the store, and a state folder of their own."""
    reached = StoreServer(f"http://10.99.{number}.1:{PORT}", None).environment
    return {
        **os.environ,
        **reached,
        STATE_VARIABLE: str(folder / f"state {number}"),
        OF_LAKES: "sail",
    }


def started(number: int, folder: Path, *words: str) -> "subprocess.Popen[str]":
    """A command on a machine."""
    inside = ["ip", "netns", "exec", MACHINES[number], sys.executable, "-m"]
    log = (folder / f"machine {number}.log").open("a")
    return subprocess.Popen(
        [*inside, *words],
        env=environment(number, folder),
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )


def command(number: int, folder: Path, lake: str, *words: str) -> "subprocess.Popen[str]":
    """A command of the product on a machine."""
    return started(number, folder, "backfill_assets", *words, "--lake", lake)


def planned(lake: str) -> int:
    """Go on with the plan that is not finished, else plan all days and run that; returns how `run`
    ended."""
    product = [sys.executable, "-m", "backfill_assets"]

    def asked(*words: str) -> Any:
        done = subprocess.run(
            [*product, *words, "--lake", lake], stdout=subprocess.PIPE, check=False
        )
        return json.loads(done.stdout)

    known = [
        p["id"]
        for p in asked("plan", "list", "--json")
        if p["state"] not in ("finished", "cancelled")
    ]
    plan = known[-1] if known else asked(*PLAN)["id"]
    run = subprocess.run([*product, "run", plan, "--lake", lake], stdout=sys.stderr, check=False)
    print(plan, asked("plan", "show", plan, "--json")["state"], flush=True)
    return run.returncode


def fingerprints(lake: str) -> Mapping[str, Mapping[str, tuple[int, str]]]:
    """Rows and fingerprint of each day with rows, by table."""
    opened = open_lake(local_root(lake))
    found = {
        c.name: opened.store.view(c.name, c.day_column).latest
        for c in chosen_pipeline(opened).contracts
    }
    return {
        name: {
            str(d): (r.entry.rows, r.entry.fingerprint)
            for d, r in sorted(latest.items())
            if r.entry.rows
        }
        for name, latest in found.items()
    }


def deliveries(rounds: int) -> list[list[Row]]:
    """The rows of each file, one for each round."""
    return [ROWS[n::rounds] for n in range(rounds)]


def raced(folder: Path, rounds: int, chance: random.Random) -> Counter[str]:
    """Land, load and make again, with kills; returns how the commands ended."""
    lake, ended = f"s3://{BUCKET}/lake", Counter[str]()
    for number, rows in enumerate(deliveries(rounds)):
        landed = folder / "store" / BUCKET / "landing" / f"{number:03d}.jsonl"
        landed.parent.mkdir(parents=True, exist_ok=True)
        landed.write_bytes(encoded("jsonl", rows))
        running = {
            "load": command(0, folder, lake, "catch-up"),
            "plan": started(1, folder, OWN, "plan", lake),
        }
        for name, process in running.items():
            with suppress(subprocess.TimeoutExpired):
                process.communicate(
                    timeout=chance.uniform(5, MOST_SECONDS)
                    if chance.random() < SHARE_KILLED
                    else 900
                )
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            ended[f"{name} {process.wait()}"] += 1
        plans = command(1, folder, lake, "plan", "list", "--json").communicate()[0]
        print(f"round {number}:", {p["id"]: p["state"] for p in json.loads(plans)}, flush=True)
    return ended


def main(rounds: str = "6", seed: str = "1") -> None:
    """Race, finish, and compare with one machine."""
    with tempfile.TemporaryDirectory() as name, namespaces():
        folder = Path(name)
        one = made(folder / "one", deliveries(int(rounds)))
        text = (one.root / FILE_NAME).read_text()
        there = folder / "store" / BUCKET / "lake"
        there.mkdir(parents=True)
        (there / FILE_NAME).write_text(text.replace('"landing/**"', f'"s3://{BUCKET}/landing/**"'))
        with _serving(folder / "store"):
            found = _race_and_finish(folder, int(rounds), random.Random(seed))
        wanted = _fingerprints_of_one_machine(one.root)
        differ = {}
        for table, days in wanted.items():
            if found[table] != days:
                differ[table] = [day for day in days if found[table].get(day) != days[day]]
        assert not differ, differ
        print("equal:", {table: len(days) for table, days in wanted.items()})


@contextmanager
def _serving(store: Path) -> Iterator[None]:
    """Serve the folder as a bucket's store in a network namespace of its own."""
    serving = ["ip", "netns", "exec", STORE, "versitygw", "--port", f":{PORT}", "posix", str(store)]
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    server = subprocess.Popen(serving, env={**os.environ, **keys}, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.terminate()


def _race_and_finish(folder: Path, rounds: int, chance: random.Random) -> dict[str, dict[str, Any]]:
    """Race on two machines, let both catch up, and give the fingerprints by table and day."""
    lake = f"s3://{BUCKET}/lake"
    began = time.monotonic()
    ended = raced(folder, rounds, chance)
    print(f"{rounds} rounds: {time.monotonic() - began:.0f} s, ended {dict(ended)}", flush=True)
    print("the last plan:", started(1, folder, OWN, "plan", lake).communicate()[0].strip())
    for number in (1, 0):  # the second run finds what only time tells
        said, _ = command(number, folder, lake, "catch-up", "--json").communicate()
        state = json.loads(said).get("state", "ended") if said else "ended"
        print(f"catch-up on machine {number}: {state}")
    command(1, folder, lake, *AGAIN).communicate()
    text = started(1, folder, OWN, "fingerprints", lake).communicate()[0]
    checked = command(0, folder, lake, "verify", "--deep")
    print(checked.communicate()[0].splitlines()[-1:], checked.returncode)
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def _fingerprints_of_one_machine(root: Path) -> dict[str, dict[str, Any]]:
    """Make the same lake on this machine, and give the fingerprints by table and day."""
    os.environ[OF_LAKES] = "sail"
    for words in (["catch-up"], [*AGAIN]):
        command_line = [sys.executable, "-m", "backfill_assets", *words, "--lake", str(root)]
        subprocess.run(command_line, check=True)
    found: dict[str, dict[str, Any]] = json.loads(json.dumps(fingerprints(str(root))))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["fingerprints"]:
        print(json.dumps(fingerprints(sys.argv[2])))
    elif sys.argv[1:2] == ["plan"]:
        sys.exit(planned(sys.argv[2]))
    else:
        main(*sys.argv[1:])
