"""How far a plan is, read from a lake or from receipts: its marks in a word, its chunks with price
and truth.

Tested here: `plans.progress`. Not tested here: whole runs (`plans/test_run.py`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import set_mark
from backfill_assets.plans.model import PLAN_REASON, Pins, Plan
from backfill_assets.plans.plan import cut_chunks
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.progress import (
    ChunkWrites,
    PlanWrites,
    Progress,
    Took,
    plan_writes,
    read_progress,
    writes_of_plan,
)
from backfill_assets_tests.builders import day, loaded
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.planning import planned
from backfill_assets_tests.synthetic import synthetic_lake


def test_a_plan_that_is_forced_waits_and_one_of_right_days_is_done(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    forced, right = planned(lake, pipeline), planned(lake, pipeline, force=False)
    now = read_progress(lake, pipeline, forced)
    assert now.state == "new"
    assert {c.state.value for c in now.chunks} == {"pending"}
    assert [c.todo for c in now.chunks][:2] == [{"staging": 1}, {"staging": 3}]
    assert read_progress(lake, pipeline, right).is_done
    set_mark(lake, right.id, "ended", "cancelled: changed our minds")
    assert read_progress(lake, pipeline, right).state == "cancelled"


def test_a_plan_of_a_table_that_is_gone_says_so_and_how_it_ends(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    plan = planned(lake, pipeline)
    without = Pipeline(
        tuple(t for t in pipeline.tables if t.name not in plan.tables), pipeline.codes
    )
    with pytest.raises(
        BackfillError, match=rf"no table .*staging.* any more.*plan cancel {plan.id}"
    ):
        read_progress(lake, without, plan)


START = date(2024, 3, 1)
DAYS = DayRange(START, START + ONE_DAY * 6)


def plan(most: int = 1) -> Plan:
    """Six days, one by one."""
    policy = Policy(chunk="1d", canary=1, max_parallel=most)
    return Plan(
        "P",
        datetime(2024, 4, 1, tzinfo=UTC),
        "me@here",
        DAYS,
        ("staging",),
        cut_chunks(DAYS, Policy(chunk="1d")),
        policy,
        Pins({}, {}, {}, {}),
    )


def wrote(
    version: int, number: int, fingerprint: str, chunk: int = 0, reason: str = PLAN_REASON
) -> tuple[int, Receipt]:
    """A receipt of the day of that number, of a chunk of the plan (0: somebody else's)."""
    tags = {PLAN_TAG: "P", CHUNK_TAG: str(chunk)} if chunk else {}
    entry = DayEntry(1, fingerprint, "digest")
    day = START + ONE_DAY * number
    return version, Receipt(
        f"w{version}",
        "staging",
        reason if chunk else "manual",
        {day: entry},
        tags=tags,
        seconds=2.0,
    )


def test_what_a_day_held_before_is_what_the_first_write_of_the_plan_found() -> None:
    log = [
        wrote(1, 0, "old"),
        wrote(2, 0, "new", chunk=1),
        wrote(3, 0, "again", chunk=1),
        wrote(4, 1, "other"),
    ]
    found = plan_writes("P", [*log, wrote(5, 0, "last", chunk=4), wrote(6, 1, "its own", chunk=4)])
    chunk = found.chunks[1]
    assert chunk.ids == {"w2", "w3"}
    assert chunk.after[START].fingerprint == "again"
    took = Took.of([chunk])
    assert took is not None
    assert (found.base, chunk.last, took.seconds, set(found.chunks)) == (1, 3, 4.0, {1, 4})
    assert plan_writes("another", log).chunks == {}


@pytest.mark.slow
def test_writes_of_a_plan_are_found_in_a_table_that_was_moved_away_and_made_anew(
    tmp_path: Path,
) -> None:
    made = Planned(tmp_path / "lake")
    pins = Pins({}, {}, {}, {"staging": made.view("staging").version})
    since = replace(plan(), pins=pins, created=utc_now())
    assert not writes_of_plan(made.lake, since, "staging").chunks
    made.lake.table_place("staging").local().rename(tmp_path / "away")
    for number in (1, 2):
        made.write("staging", {number: 5}, plan=since.id, chunk=str(number))
    assert {*writes_of_plan(made.lake, since, "staging").chunks} == {1, 2}


def test_a_rollback_is_no_write_of_the_plan_and_reopens_its_chunk_until_it_is_made_again() -> None:
    log = [wrote(1, 0, "new", chunk=1), wrote(2, 0, "old", chunk=1, reason="rollback")]
    assert plan_writes("P", log).is_put_back(1)
    again = plan_writes("P", [*log, wrote(3, 0, "new", chunk=1)])
    assert not again.is_put_back(1)
    assert again.ids() == again.ids(1) == {"w1", "w3"}


@pytest.mark.parametrize(
    ("log", "most", "passed"),
    [
        ([wrote(1, 1, "a", chunk=2)], 1, False),
        ([wrote(1, 1, "a", chunk=2), wrote(2, 2, "a", chunk=3)], 1, True),
        (
            [wrote(1, 1, "a", chunk=2), wrote(2, 2, "a", chunk=3)],
            3,
            False,
        ),  # of one wave: it ran beside it
        ([wrote(1, 1, "a", chunk=2), wrote(2, 4, "a", chunk=5)], 3, True),
        (
            [wrote(1, 1, "a", chunk=2), wrote(2, 2, "a", chunk=3), wrote(3, 1, "b", chunk=2)],
            1,
            False,
        ),
    ],
)
def test_a_gate_is_proven_by_a_later_wave(
    log: list[tuple[int, Receipt]], most: int, passed: bool
) -> None:
    made = plan(most)
    now = Progress(made, "active", loaded(1).states(), {"staging": plan_writes("P", log)})
    assert now.gate_is_passed(made.chunk(2)) is passed


@pytest.mark.parametrize("force", [True, False])
def test_a_raw_day_that_its_ledger_does_not_name_yet_is_still_to_be_made(force: bool) -> None:
    """A run that was killed between raw and its ledger: what is made from the ledger would lack the
    day."""
    story = loaded(3).land(day(3), "new").load(day(3), finish=False)
    days = DayRange(day(3), day(4))
    asked = replace(plan(), days=days, tables=("raw",), chunks=cut_chunks(days, Policy(chunk="1d")))
    asked = replace(asked, policy=asked.policy.model_copy(update={"force": force}))
    receipt = story.states().latest("raw", day(3))
    assert receipt
    own = Receipt(receipt.write_id, "raw", PLAN_REASON, {day(3): receipt.entry})
    writes = {"raw": PlanWrites({1: ChunkWrites({receipt.version: own})})}
    now = Progress(asked, "active", story.states(), writes)
    left = now.undone(asked.chunk(1))
    assert left == {"raw": [day(3)]}
    assert now.written(left) == {"raw"}, "its rows would be written again"
    assert replace(now, writes={"raw": PlanWrites()}).written(left) == frozenset()
    assert replace(now, states=story.finish().states()).undone(asked.chunk(1)) == {}
