"""Known answers: six deliveries by hand, and the shared data sets, judged by a checker that knows
no line of ours, and computed again by the other engine.

Lives here: data whose answers a person, or DuckDB and pandas, gave long before. Does not live here:
data by chance (`test_other_data`), and the other way round: what Sail made, judged by the checker
(`test_sail`). The shared lake is described by the shared tool, the engine alone is ours.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.compare.prove import check_engine
from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.kernel.core.days import inclusive_range, parse_day
from backfill_assets.kernel.core.engines import SAIL
from backfill_assets_tests import by_hand
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land, make_world, span

pytestmark = [
    pytest.mark.on_spark(
        "the known answers are what Spark, the reference, is held to; Sail is held to it"
    ),
    pytest.mark.usefixtures("spark"),
]


def backfilled(shared: Path, name: str, root: Path, at: str) -> None:
    made = subprocess.run(
        [sys.executable, shared / "tools" / "make_lake.py", name, root, at],
        capture_output=True,
        text=True,
        check=True,
    )
    with (root / "lake.toml").open("a", encoding="utf-8") as settings:
        settings.write(SHARED)
    first, last = made.stdout.split()
    World(root).backfill(inclusive_range(parse_day(first), parse_day(last)))


def differences(shared: Path, name: str, root: Path, at: str) -> str:
    """The checker's last word, or all of it where it is not content."""
    golden = shared / "data" / name / "golden.json"
    command: list[str | Path] = [
        sys.executable,
        shared / "tools" / "check_golden.py",
        root,
        golden,
        "--at",
        at,
    ]
    told: str = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return told.splitlines()[-1] if told.endswith("\n0 differ\n") else told


def assert_sail_agrees(root: Path) -> None:
    """Every day of every table comes to the same on Sail, from the inputs that it was made from."""
    if why := no_isolation_reason():
        pytest.skip(f"the answers are right, but Sail was not asked: {why}")
    on, pipeline = World(root).open()
    report = check_engine(on.lake, pipeline, None, None, SAIL)
    assert (report.differing, report.refused) == (0, ()), report.to_dict()
    assert {v.table for v in report.verdicts} == {t.name for t in pipeline.tables}
    assert report.compared


def test_six_deliveries_give_the_answers_reasoned_by_hand(tmp_path: Path) -> None:
    world = make_world(tmp_path / "lake", by_hand.RULES)
    land(world, "all.jsonl", by_hand.DELIVERIES)
    world.backfill(span(by_hand.RULES))
    assert {t: world.content(t) for t in by_hand.ANSWERS} == by_hand.ANSWERS
    assert_sail_agrees(world.root)


@pytest.mark.parametrize(
    ("name", "times"), [("trap_fixture", ("T1", "T")), ("openstack_changes_q1", ("T",))]
)
def test_a_data_set_loaded_at_once_or_in_two_parts_gives_its_answers_at_each_time_on_either_engine(
    shared: Path, tmp_path: Path, name: str, times: tuple[str, ...]
) -> None:
    for at in times:
        backfilled(shared, name, tmp_path, at)
        assert differences(shared, name, tmp_path, at) == "0 differ"
    assert_sail_agrees(tmp_path)
