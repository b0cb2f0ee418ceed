"""Stories of several machines on one lake, and what they must find.

Tested here: stories by seeds, and that a seed tells the same story twice. Not tested here: engines
and Dagster. The big run, for hours: `python -m backfill_assets_tests.thorough simulation`.
"""

import os
import subprocess
import sys

import pytest

from backfill_assets_tests.processes import CHECKOUT
from backfill_assets_tests.simulation.shrinking import shrunk
from backfill_assets_tests.simulation.story import Beginning, play

SEEDS = 12  # of stories in a run of all tests, half a minute: always the same ones


@pytest.mark.usefixtures("processes")
def test_stories_of_several_machines_end_as_a_lake_that_was_made_at_once() -> None:
    words = ("--seeds", str(SEEDS), "--minutes", "10")
    command = (sys.executable, "-m", "backfill_assets_tests.simulation", *words)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_seed_tells_the_same_story_twice() -> None:
    with Beginning.made() as beginning:
        one, other = (play(beginning, seed=3) for _ in range(2))
    assert one.trace == other.trace
    assert one.digest == other.digest
    assert one.choices == other.choices
    assert len(one.trace) > 100


@pytest.mark.slow
def test_a_fault_that_was_planted_is_found_and_its_story_is_made_smaller() -> None:
    name = "receipts without versions"
    with Beginning.made() as beginning:
        played = (play(beginning, seed, planted=name) for seed in range(20))
        found = next(story for story in played if story.wrong)
        smaller = shrunk(beginning, found, name, tries=12)
    assert "does not say from which" in found.wrong
    assert smaller.wrong
    assert len(smaller.actors) <= len(found.actors)
