"""Plays stories: `python -m backfill_assets_tests.simulation --seeds N --minutes M`.

Here: seeds that failed before, then new ones, and a line of each that fails. Not here: one story
(`story`). `--seed S` plays one and prints all of it, `--shrink` the smallest one found that fails
as well; `--planted NAME` by a package with that fault. Minutes are of processor time, so that beside
other work as many stories are played as alone; SIGTERM ends it after the story that is played.
"""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from backfill_assets_tests.simulation.planted import PLANTED
from backfill_assets_tests.simulation.shrinking import shrunk
from backfill_assets_tests.simulation.story import Beginning, play

FAILED = Path(__file__).with_name("seeds.txt")


def failed_seeds() -> list[int]:
    """The seeds that failed before, which are played first."""
    lines = FAILED.read_text("utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def find_planted(beginning: Beginning, names: Sequence[str], asked: argparse.Namespace) -> int:
    """Play stories by a package with each of these faults until one shows it; a line of each."""
    missed = 0
    for name in names:
        began, seed, played = time.process_time(), asked.first, None
        while time.process_time() - began < asked.minutes * 60 and not (played and played.wrong):
            played = play(beginning, seed, planted=name)
            seed += 1
        seconds = time.process_time() - began
        is_found = played is not None and played.wrong
        missed += not is_found
        found = (
            f"found by seed {seed - 1}: {played.wrong[:150]}" if played and is_found else "MISSED"
        )
        print(f"{name:45} {seed - asked.first:4} stories {seconds:5.0f} s  {found}", flush=True)
    return int(missed > 0)


def fast_folder() -> str:
    """A folder in memory, where the system has one: stories write thousands of small files."""
    return next(folder for folder in ("/dev/shm", tempfile.gettempdir()) if Path(folder).is_dir())


def main() -> int:
    """1 if anything was wrong."""
    words = argparse.ArgumentParser()
    words.add_argument("--seeds", type=int, default=100)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--minutes", type=float, default=10.0)
    words.add_argument("--seed", type=int)
    words.add_argument("--shrink", action="store_true")
    words.add_argument("--planted", nargs="*", metavar="NAME")
    asked = words.parse_args()
    with Beginning.made() as beginning:
        if asked.seed is not None:
            planted = "".join(asked.planted or ())
            played = play(beginning, asked.seed, planted=planted)
            if played.wrong and asked.shrink:
                played = shrunk(beginning, played, planted)
            print(*played.trace, played.cause, *played.actors, played, sep="\n")
            return int(bool(played.wrong))
        if asked.planted is not None:
            return find_planted(beginning, asked.planted or [*PLANTED], asked)
        return play_many(beginning, asked)


def play_many(beginning: Beginning, asked: argparse.Namespace) -> int:
    """Play the seeds that failed, then others, and print what was wrong and what happened."""
    told_to_stop = list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: told_to_stop.append(number))
    began, since = time.process_time(), time.perf_counter()
    wrong, count, requests = 0, 0, 0
    ends, met = Counter[str](), Counter[str]()
    seeds = range(asked.first, asked.first + asked.seeds)
    for seed in itertools.chain(failed_seeds(), seeds):
        if told_to_stop or time.process_time() - began > asked.minutes * 60:
            break
        played = play(beginning, seed)
        count, requests = count + 1, requests + played.requests
        ends.update(played.ends)
        met.update(played.met)
        if played.wrong:
            wrong += 1
            print(played, flush=True)
    for name, times in sorted([*ends.items(), *met.items()]):
        print(f"{times:8} {name}")
    seconds, passed = time.process_time() - began, time.perf_counter() - since
    print(
        f"{count} stories, {requests} requests, {seconds:.0f} s of a processor in {passed:.0f} s: "
        f"{wrong} wrong"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of the story
        os.execve(  # noqa: S606
            sys.executable,
            [sys.executable, "-m", "backfill_assets_tests.simulation", *sys.argv[1:]],
            # Few: the package looks through all of them at each request.
            {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "TMPDIR": fast_folder()},
        )
    sys.exit(main())
