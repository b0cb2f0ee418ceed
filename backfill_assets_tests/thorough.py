"""Runs what `.ci/run` leaves out for its time: `python -m backfill_assets_tests.thorough`, for
hours.

Here: everything on the engine that `.ci/run` does not run it on, the big variants of tests, and the
simulations. Not here: the tests. With names only these run, as in `python -m
backfill_assets_tests.thorough races plan-kills`; `--list` shows the names.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

from backfill_assets.kernel.core.engines import SAIL
from backfill_assets_tests.engine_choice import SPARK, TESTS_ENGINE, USERS_DO
from backfill_assets_tests.processes import CHECKOUT
from backfill_assets_tests.sources import CAN_BE_LEFT_OUT
from backfill_assets_tests.strategies import CHANCE

TESTS = "backfill_assets_tests"
PYTEST = (sys.executable, "-m", "pytest", "-q")


@dataclass(frozen=True)
class Variant:
    """A program that takes long, and the environment that makes it big."""

    name: str
    command: tuple[str, ...]
    what: str
    environment: dict[str, str] = field(default_factory=dict)


def stories(name: str, file: str, variable: str, value: str, what: str) -> Variant:
    """A file of tests that a variable makes big, in one process: hypothesis tells how many examples
    ran."""
    command = (*PYTEST, "-n0", "--hypothesis-show-statistics", f"{TESTS}/end_to_end/{file}")
    return Variant(name, command, f"{value} {what}", {variable: value})


def without_room(room: str) -> Variant:
    """A copy of the checkout that lacks a room."""
    return Variant(
        f"without-{room}", (sys.executable, ".ci/without.py", room), "types, quick tests"
    )


def benchmark(name: str, module: str, what: str, *words: str) -> Variant:
    """A program of `benchmarks` that judges what it finds."""
    return Variant(name, (sys.executable, "-m", f"{TESTS}.benchmarks.{module}", *words), what)


VARIANTS = (
    *map(without_room, sorted(CAN_BE_LEFT_OUT)),
    Variant(
        "without-all",
        (sys.executable, ".ci/without.py", "--all", "--use"),
        "types, quick tests, a sample lake with a late file",
    ),
    stories(
        "fault-stories",
        "test_fault_stories.py",
        "BACKFILL_ASSETS_STORIES",
        "1000",
        "stories of exceptions",
    ),
    stories(
        "plan-stories",
        "test_plan_stories.py",
        "BACKFILL_ASSETS_STORIES",
        "300",
        "stories of plans and kills",
    ),
    stories(
        "delta-histories",
        "test_delta_features.py",
        "BACKFILL_ASSETS_DELTA_HISTORIES",
        "200",
        "histories of tables of Spark's",
    ),
    stories(
        "plan-kills",
        "test_plan_killed.py",
        "BACKFILL_ASSETS_PLAN_KILLS",
        "10",
        "kills per plan, of 12 days",
    ),
    stories(
        "chunks-at-once",
        "test_plan_at_once.py",
        "BACKFILL_ASSETS_AT_ONCE",
        "all",
        "of one, two and three at a time",
    ),
    stories(
        "bucket-stops",
        "test_bucket_stops.py",
        "BACKFILL_ASSETS_STOPS",
        "all",
        "moments at which a machine stands still",
    ),
    stories("races", "test_races.py", "BACKFILL_ASSETS_RACE_COMMITS", "300", "commits per process"),
    stories(
        "late-data", "test_late_data.py", "BACKFILL_ASSETS_REPLAYS", "5", "random orders of landing"
    ),
    stories(
        "lakes-before",
        "test_lakes_before.py",
        "BACKFILL_ASSETS_LAKES_BEFORE",
        "1000",
        "days made by 6f78c832, too",
    ),
    stories(
        "cluster-deaths",
        "test_cluster_deaths.py",
        "BACKFILL_ASSETS_CLUSTER_DEATHS",
        "all",
        "parts of a cluster killed amid their work",
    ),
    stories(
        "elsewhere",
        "test_every_command_elsewhere.py",
        "BACKFILL_ASSETS_ELSEWHERE",
        "all",
        "commands with an engine elsewhere",
    ),
    stories(
        "wrong-select",
        "test_plan_wrong_select.py",
        "BACKFILL_ASSETS_WRONG_DAYS",
        "45",
        "days in chunks of seven",
    ),
    Variant(
        "write-states",
        (*PYTEST, "-n0", f"{TESTS}/kernel/write/test_write_states.py"),
        "100,000 histories of writers and sweepers of a store",
        {"BACKFILL_ASSETS_HISTORIES": "100000"},
    ),
    stories(
        "histories",
        "test_histories.py",
        "BACKFILL_ASSETS_SEEDS",
        "100",
        "random histories, each against a new lake",
    ),
    stories(
        "site",
        "test_processes_apart.py",
        "BACKFILL_ASSETS_SITE",
        "big",
        "site: 100 days in a bucket, 14 runs wait",
    ),
    stories(
        "site-cluster",
        "test_processes_apart.py",
        "BACKFILL_ASSETS_SITE",
        "cluster",
        "site: 16 days in a bucket that a standalone cluster computes",
    ),
    Variant(
        "simulation",
        (sys.executable, "-m", f"{TESTS}.simulation", "--seeds", "1000000", "--minutes", "120"),
        "stories of several machines on one lake, two hours",
    ),
    Variant(
        "fuzz",
        (sys.executable, "-m", f"{TESTS}.fuzz", "--seeds", "1000000", "--minutes", "120"),
        "lakes with a file of other bytes, two hours",
    ),
    Variant(
        "fuzz-bucket",
        (
            sys.executable,
            "-m",
            f"{TESTS}.fuzz",
            "--bucket",
            "--seeds",
            "1000000",
            "--minutes",
            "60",
        ),
        "lakes in a bucket with such a file, an hour",
    ),
    Variant(
        "damaged-leases",
        (*PYTEST, "-n0", f"{TESTS}/fuzz/test_leases.py"),
        "5,000 leases of other bytes",
        {"BACKFILL_ASSETS_DAMAGED_LEASES": "5000"},
    ),
    benchmark("years", "years", "400 simulated days of use, within bounds", "400"),
    benchmark(
        "session-matrix",
        "session_matrix",
        "clocks, accounts, locales, zones on both engines",
        "sail",
        "embedded",
    ),
    benchmark("reconciling", "reconciling", "12 planted differences among 10⁷ rows"),
    Variant(
        "spark",
        (*PYTEST, "-m", "spark and not on_spark"),
        "every test that Sail runs otherwise",
        {TESTS_ENGINE: SPARK},
    ),
    Variant(
        "sail",
        (*PYTEST, "-m", f"{USERS_DO} and not on_spark"),
        "what users do, on Sail",
        {TESTS_ENGINE: SAIL},
    ),
)


def main(names: list[str]) -> int:
    """Run the named variants (none: all), each to its end, and print a line of each; 1 if any
    failed."""
    known = {v.name: v for v in VARIANTS}
    if names == ["--list"] or not known.keys() >= set(names):
        print(*(f"{v.name:15} {v.what}" for v in VARIANTS), sep="\n")
        return int(names != ["--list"])
    summary, failed = [], 0
    for variant in [known[n] for n in names or known]:
        set_first = [f"{name}={value}" for name, value in variant.environment.items()]
        print(f"\n=== {variant.name}: {' '.join([*set_first, *variant.command[1:]])}", flush=True)
        began = time.monotonic()
        environment = {**os.environ, CHANCE: "1", **variant.environment}
        code = subprocess.run(
            variant.command, cwd=CHECKOUT, env=environment, check=False
        ).returncode
        failed = failed or code
        verdict = (
            f"{time.monotonic() - began:6.0f} s  {f'FAILED (exit code {code})' if code else 'ok'}"
        )
        summary.append(f"{variant.name:15} {variant.what:44} {verdict}")
    print("\n=== summary", *summary, sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
