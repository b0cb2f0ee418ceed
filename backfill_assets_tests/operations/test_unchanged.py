"""Which backfills change nothing, by receipts, ledgers and the landing folder alone.

Tested here: `operations.unchanged` on a lake of receipts. Not tested here: what a run does instead (`end_to_end`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.unchanged import foreseen
from backfill_assets_tests.load.test_landing_status import DAYS, count
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake

SPAN = DayRange(START, START + ONE_DAY * DAYS)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Lake, Pipeline]:
    """Every day is fresh, every file is counted."""
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    count(lake)
    return lake, pipeline


def names(pipeline: Pipeline) -> list[str]:
    return [t.name for t in pipeline.tables]


def test_where_every_day_is_as_its_inputs_say_the_rows_of_each_table_are_told(made: tuple[Lake, Pipeline]) -> None:
    lake, pipeline = made
    assert foreseen(lake, pipeline, names(pipeline), SPAN).rows == dict.fromkeys(names(pipeline), 3 * DAYS)


def test_a_day_that_was_never_made_or_is_stale_needs_a_run(made: tuple[Lake, Pipeline]) -> None:
    lake, pipeline = made
    longer = DayRange(SPAN.start, SPAN.end + ONE_DAY)
    assert foreseen(lake, pipeline, ["staging"], longer).rows is None
    build(lake, pipeline, "staging", {START: 4})
    assert foreseen(lake, pipeline, ["staging"], SPAN).rows is not None
    assert foreseen(lake, pipeline, ["staging", "features"], SPAN).rows is None


def test_what_landed_needs_a_run_of_the_table_that_loads_it_and_of_no_other(made: tuple[Lake, Pipeline]) -> None:
    lake, pipeline = made
    (lake.root / "landing" / "new.jsonl").write_text("{}\n")
    assert foreseen(lake, pipeline, ["raw"], SPAN).rows is None
    assert foreseen(lake, pipeline, ["staging"], SPAN).rows == {"staging": 3 * DAYS}


@pytest.mark.parametrize(("least", "is_known"), [(3, True), (4, False)])
def test_a_day_that_a_gate_of_today_refuses_needs_a_run_which_tells_it(
    made: tuple[Lake, Pipeline], least: int, is_known: bool
) -> None:
    lake, pipeline = made
    with (lake.root / "lake.toml").open("a") as settings:
        settings.write(f"[gates.tables.staging]\nmin_rows = {least}\n")
    found = foreseen(open_lake(lake.root), pipeline, ["staging"], SPAN).rows
    assert (found is not None) == is_known


def test_the_engine_is_started_for_days_to_make_and_not_for_what_will_be_refused(made: tuple[Lake, Pipeline]) -> None:
    lake, pipeline = made
    longer = DayRange(SPAN.start, SPAN.end + ONE_DAY)
    assert foreseen(lake, pipeline, ["staging"], longer).needs_engine
    assert not foreseen(lake, pipeline, ["staging"], SPAN).needs_engine
    assert foreseen(lake, pipeline, ["staging"], SPAN, force=True).needs_engine
    assert not foreseen(lake, pipeline, ["features"], longer).needs_engine, "its inputs were never made"
    assert not foreseen(lake, pipeline, ["raw"], SPAN).needs_engine
    (lake.root / "landing" / "new.jsonl").write_text("{}\n")
    assert foreseen(lake, pipeline, ["raw"], SPAN).needs_engine
    (lake.root / "landing" / f"{START}.jsonl").unlink()
    assert not foreseen(lake, pipeline, ["raw"], SPAN).needs_engine, "a file that a day was made from is gone"
