"""Known answers: six deliveries by hand, and the shared data sets, judged by a checker that knows no line of ours.

Lives here: data whose answers a person, or DuckDB and pandas, gave long before. Does not live here: data by chance
(`test_other_data`). The shared lake is described by the shared tool, the engine alone is ours.
"""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.days import from_inclusive, parse_day
from backfill_assets_tests import by_hand
from backfill_assets_tests.end_to_end.worlds import CLASSIC, World, land, make_world, span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def backfilled(shared: Path, name: str, root: Path, at: str) -> None:
    made = subprocess.run(
        [sys.executable, shared / "tools" / "make_lake.py", name, root, at], capture_output=True, text=True, check=True
    )
    with (root / "lake.toml").open("a", encoding="utf-8") as settings:
        settings.write(CLASSIC)
    first, last = made.stdout.split()
    World(root).backfill(from_inclusive(parse_day(first), parse_day(last)))


def differences(shared: Path, name: str, root: Path, at: str) -> str:
    """The checker's last word, or all of it where it is not content."""
    golden = shared / "data" / name / "golden.json"
    command: list[str | Path] = [sys.executable, shared / "tools" / "check_golden.py", root, golden, "--at", at]
    told: str = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return told.splitlines()[-1] if told.endswith("\n0 differ\n") else told


def test_six_deliveries_give_the_answers_reasoned_by_hand(spark: "SparkSession", tmp_path: Path) -> None:
    world = make_world(tmp_path / "lake", by_hand.RULES)
    land(world, "all.jsonl", by_hand.DELIVERIES)
    world.backfill(span(by_hand.RULES))
    assert {t: world.content(t) for t in by_hand.ANSWERS} == by_hand.ANSWERS


@pytest.mark.parametrize("name", ["trap_fixture", "openstack_changes_q1"])
def test_a_data_set_loaded_at_once_gives_its_known_answers(
    spark: "SparkSession", shared: Path, tmp_path: Path, name: str
) -> None:
    backfilled(shared, name, tmp_path, "T")
    assert differences(shared, name, tmp_path, "T") == "0 differ"


def test_the_traps_give_their_known_answers_at_an_earlier_time_and_then_in_the_same_lake_at_a_later_one(
    spark: "SparkSession", shared: Path, tmp_path: Path
) -> None:
    for at in ("T1", "T"):
        backfilled(shared, "trap_fixture", tmp_path, at)
        assert differences(shared, "trap_fixture", tmp_path, at) == "0 differ"
