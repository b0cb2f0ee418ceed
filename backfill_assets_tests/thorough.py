"""Runs the big variants of tests, which `.ci/run` leaves out: `python -m backfill_assets_tests.thorough`, for hours.

Here: which variable makes which file big, and how big. Not here: the tests. With names of variants only these run, as
in `python -m backfill_assets_tests.thorough races plan-kills`; `--list` shows the names.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from backfill_assets_tests.processes import CHECKOUT

FOLDER = "backfill_assets_tests/end_to_end"


@dataclass(frozen=True)
class Variant:
    """A file of tests, and the variable that makes it big."""

    name: str
    file: str
    variable: str
    value: str
    what: str

    @property
    def command(self) -> list[str]:
        """The call of pytest, in one process: its hypothesis statistics tell how many stories ran."""
        return [
            sys.executable, "-m", "pytest", "-n0", "-q", "--hypothesis-show-statistics", f"{FOLDER}/{self.file}",
        ]  # fmt: skip


VARIANTS = (
    Variant("fault-stories", "test_fault_stories.py", "BACKFILL_ASSETS_STORIES", "1000", "stories of exceptions"),
    Variant("plan-stories", "test_plan_stories.py", "BACKFILL_ASSETS_STORIES", "300", "stories of plans and kills"),
    Variant("plan-kills", "test_plan_killed.py", "BACKFILL_ASSETS_PLAN_KILLS", "10", "kills per plan, of 12 days"),
    Variant("chunks-at-once", "test_plan_at_once.py", "BACKFILL_ASSETS_AT_ONCE", "all", "one, two and three at a time"),
    Variant("races", "test_races.py", "BACKFILL_ASSETS_RACE_COMMITS", "300", "commits per process"),
    Variant("late-data", "test_late_data.py", "BACKFILL_ASSETS_REPLAYS", "5", "random orders of landing"),
    Variant("wrong-select", "test_plan_wrong_select.py", "BACKFILL_ASSETS_WRONG_DAYS", "45", "days in chunks of seven"),
)


def main(names: list[str]) -> int:
    """Run the named variants (none: all), each to its end, and print a line of each; 1 if any failed."""
    known = {v.name: v for v in VARIANTS}
    if names == ["--list"] or not known.keys() >= set(names):
        print(*(f"{v.name:15} {v.variable}={v.value:5} {v.what}" for v in VARIANTS), sep="\n")
        return int(names != ["--list"])
    summary, failed = [], 0
    for variant in [known[n] for n in names or known]:
        print(f"\n=== {variant.name}: {variant.variable}={variant.value} {' '.join(variant.command[1:])}", flush=True)
        began = time.monotonic()
        environment = {**os.environ, variant.variable: variant.value}
        code = subprocess.run(variant.command, cwd=CHECKOUT, env=environment, check=False).returncode
        failed = failed or code
        verdict = f"{time.monotonic() - began:6.0f} s  {f'FAILED (exit code {code})' if code else 'ok'}"
        summary.append(f"{variant.name:15} {variant.value:>5} {variant.what:28} {verdict}")
    print("\n=== summary", *summary, sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
