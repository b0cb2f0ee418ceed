"""Plays stories: `python -m backfill_assets_tests.simulation --seeds N --minutes M`.

Here: seeds that failed before, then new ones, and a line of each that fails. Not here: one story
(`story`). `--seed S` plays one and prints all of it, `--shrink` the smallest one found that fails
as well; `--planted NAME` by a package with that fault; `--cast NAME…` those alone in which these
actors take part, these faults are met, and these moments are awaited. Minutes are of processor
time, so that beside other work as many stories are played as alone; SIGTERM ends it after the story
that is played.
"""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from backfill_assets_tests.simulation.casts import drawn_cast
from backfill_assets_tests.simulation.planted import PLANTED
from backfill_assets_tests.simulation.shrinking import shrunk
from backfill_assets_tests.simulation.story import Beginning, play
from backfill_assets_tests.simulation.tally import Tally

FAILED = Path(__file__).with_name("seeds.txt")


def failed_seeds() -> list[int]:
    """The seeds that failed before, which are played first."""
    lines = FAILED.read_text("utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def find_planted(beginning: Beginning, names: Sequence[str], asked: argparse.Namespace) -> int:
    """Play stories by a package with each of these faults until one shows it; a line of each."""
    missed = 0
    for name in names:
        began, count, found = time.process_time(), 0, ""
        for seed in seeds_with(asked.first, asked.cast):
            played = play(beginning, seed, planted=name)
            count += 1
            found = played.wrong and f"found by seed {seed}: {played.wrong[:150]}"
            if found or time.process_time() - began > asked.minutes * 60:
                break
        seconds = time.process_time() - began
        missed += not found
        print(f"{name:45} {count:4} stories {seconds:5.0f} s  {found or 'MISSED'}", flush=True)
    return int(missed > 0)


def seeds_with(first: int, names: Sequence[str]) -> Iterator[int]:
    """Yield seeds from `first` on: all, or those in whose stories these actors take part, these
    faults are met and these moments are awaited, each as often as it is named."""
    for seed in itertools.count(first):
        cast = drawn_cast(seed)
        actors = [name for actor in cast.actors for name in (actor.what, actor.upon)]
        if Counter(names) <= Counter((*actors, *(cast.kinds if cast.share else ()))):
            yield seed


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
    words.add_argument("--cast", nargs="*", metavar="NAME", default=())
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
    wrong, tally = 0, Tally()
    seeds = itertools.islice(seeds_with(asked.first, asked.cast), asked.seeds)
    for seed in itertools.chain(failed_seeds(), seeds):
        if told_to_stop or time.process_time() - began > asked.minutes * 60:
            break
        played = play(beginning, seed)
        tally.add(played)
        if played.wrong:
            wrong += 1
            print(played, flush=True)
    print(*tally.lines(), sep="\n")
    seconds, passed = time.process_time() - began, time.perf_counter() - since
    print(
        f"{tally.stories} stories, {tally.requests} requests, {seconds:.0f} s of a processor in "
        f"{passed:.0f} s: {wrong} wrong"
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
