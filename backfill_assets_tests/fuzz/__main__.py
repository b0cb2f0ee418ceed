"""Damages lakes: `python -m backfill_assets_tests.fuzz --seeds N --minutes M`.

Here: seeds one by one, and a line of each that shows a fault. `--seed S` prints all that is wrong
after one, `--paths PATTERN` damages only files whose paths match, `--bucket` damages lakes in a
bucket of moto's, `--make` makes the lake anew. Not here: one damage and its judge (`damage`,
`judge`).
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from backfill_assets_tests.fuzz.judge import story
from backfill_assets_tests.fuzz.lake import BUCKET, make_archive
from backfill_assets_tests.stores import moto


@contextmanager
def in_bucket() -> Iterator[None]:
    """Lakes lie in a bucket of a store of this process meanwhile."""
    with moto() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in {**server.environment, BUCKET: server.new_bucket()}.items():
            patch.setenv(name, value)
        yield


def main() -> int:
    """1 if anything was wrong."""
    words = argparse.ArgumentParser()
    words.add_argument("--seeds", type=int, default=100)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--minutes", type=float, default=10.0)
    words.add_argument("--looks", type=int, default=4)
    words.add_argument("--paths", default="")
    words.add_argument("--seed", type=int)
    words.add_argument("--make", action="store_true")
    words.add_argument("--bucket", action="store_true")
    asked = words.parse_args()
    if asked.make:
        make_archive()
        return 0
    with in_bucket() if asked.bucket else nullcontext():
        return damage_lakes(asked)


def damage_lakes(asked: argparse.Namespace) -> int:
    """Damage a lake by each seed that is asked for; 1 if anything was wrong."""
    seeds = range(asked.first, asked.first + asked.seeds) if asked.seed is None else [asked.seed]
    began, count, wrong = time.monotonic(), 0, 0
    for seed in seeds:
        if time.monotonic() - began > asked.minutes * 60:
            break
        damage, faults = story(seed, asked.paths, asked.looks)
        count, wrong = count + 1, wrong + bool(faults)
        if faults:
            print(f"seed {seed}: {damage}", *faults, sep="\n    ", flush=True)
    print(f"{count} damages, {time.monotonic() - began:.0f} s: {wrong} with a fault")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
