"""A request signs what it writes with code, settings and the parameters it was made with, and logs
give them back. Not here: what follows from parameters (`kernel.core.test_readings`)."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.engines import ENGINE
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.readings import PARAMETERS, parse_parameters, todays_parameters
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.candidate import LIBRARIES_TAG, RebuildRequest, day_facts
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Table
from backfill_assets_tests.builders import STAGING, Story, day, loaded
from backfill_assets_tests.compare.test_compare import PIPELINE, TABLE, rows
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.synthetic import START, synthetic_lake

ROWS: list[dict[str, Any]] = [
    {"entity": "a", "value": 2, "event_date": day(0)},
    {"entity": "b", "value": 3, "event_date": day(0)},
    {"entity": "a", "value": None, "event_date": day(1)},
    {"entity": "a", "value": 7, "event_date": None},
]


def test_receipts_carry_the_parameters_and_keep_their_other_tags(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    span = DayRange(START, START + ONE_DAY)
    for name in ("features", "labels"):
        said = Provenance("manual", tags={"plan": "p"})
        asked = RebuildRequest(
            LakeSession(lake), KnownStates(lake, pipeline), pipeline.table(name), span, said
        )
        states = asked.known.states
        tags = asked.signed(states, {}).tags
        assert parse_parameters(tags[PARAMETERS]) == todays_parameters(
            pipeline.table(name).contract, states.view
        )
        assert tags["plan"] == "p"
        assert f"duckdb {version('duckdb')}" in tags[LIBRARIES_TAG].split(", ")
    landed = RebuildRequest(
        LakeSession(lake),
        KnownStates(lake, pipeline),
        pipeline.table("raw"),
        span,
        Provenance("manual"),
    )
    assert set(landed.signed(landed.known.states, {}).tags) == {ENGINE, LIBRARIES_TAG}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path)


def summed(rows: str) -> str:
    return (
        f"SELECT event_date, count(*) AS rows, sum(value) AS total FROM ({rows}) GROUP BY "
        "event_date"
    )


def test_facts_are_counted_per_day_without_nulls_and_without_rows_that_have_no_day(
    lake: Lake,
) -> None:
    staged = stage_by_hand(lake, STAGING, ROWS)
    found = day_facts(LakeSession(lake), Story().states(), Table(STAGING, facts=summed), staged, {})
    assert found == {day(0): {"rows": 2, "total": 5}, day(1): {"rows": 1}}


def test_days_that_are_new_or_hold_the_same_rows_have_no_revisions_and_are_not_read(
    lake: Lake,
) -> None:
    def never(*_: object) -> Any:
        pytest.fail("rows were compared")

    story = loaded(1).build("staging", day(0), content="A")
    same = DayProfile(1, "A")
    assert story.states().view.table("staging").latest[day(0)].entry.content == same.content
    told = day_facts(
        LakeSession(lake),
        story.states(),
        Table(STAGING, revisions=never),
        stage_by_hand(lake, STAGING, ROWS),
        {day(0): same, day(1): DayProfile(1, "B"), None: DayProfile(1, "C")},
    )
    assert told == {}


@pytest.mark.parametrize("at_once", [1, 512])
def test_rows_before_and_after_are_those_of_the_days_that_differ(lake: Lake, at_once: int) -> None:
    def compared(before: str, after: str) -> str:
        return (
            f"SELECT day, b.n AS was, a.n AS is_now FROM ({before}) b FULL JOIN ({after}) a USING "
            "(day, key)"
        )

    publish_by_hand(lake, TABLE, rows({(1, "a"): (1, "x"), (2, "a"): (2, "x"), (3, "a"): (3, "x")}))
    staged = stage_by_hand(
        lake, TABLE, rows({(1, "a"): (10, "x"), (2, "a"): (2, "x"), (3, "b"): (3, "x")})
    )
    states = PIPELINE.states(read_view(lake, [TABLE]))
    found = audit_files(lake, staged.paths, TABLE)
    table = Table(TABLE, revisions=compared)
    told = day_facts(LakeSession(lake), states, table, staged, found, at_once=at_once)
    assert told.keys() == {day(1), day(3)}
    assert told[day(1)] == {"was": 1, "is_now": 10}
