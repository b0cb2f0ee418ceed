"""The checklist holds only what the lake shows: an empty lake shows nothing, and each fault turns
its own item. Not here: drawing (`upkeep.test_doctor_command`), and the figures behind the items
(the tests of their modules)."""

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.compare.prove import ProofRequest, keep_proof, prove_written_days
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.view import Source
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline, make_pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.account import repeats_of
from backfill_assets.reports.checklist import LOAD, Item, judge_checklist
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.foreign.test_observing import Others
from backfill_assets_tests.lakes import backfill, delivery, make_lake
from backfill_assets_tests.late_lake import delivery_of, late_lake, write
from backfill_assets_tests.planning import good_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

WHOLE, NEWEST = "a load is seen whole or not at all", "one row per key, the latest wins"
DAYS = [f"2024-03-0{n}" for n in (1, 2, 3)]
ROWS = [delivery(n, f"{d}T10:00:00Z", f"{d}T09:00:00Z", f"e{n}") for n, d in enumerate(DAYS)]


def loads(lake: Lake, pipeline: Pipeline) -> dict[str, Item]:
    return {i.name: i for i in judge_checklist(lake, pipeline) if i.about == LOAD}


def test_a_lake_that_never_loaded_shows_nothing_and_says_how_to_begin(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", (), DAYS[0], spark={"engine": "sail"})
    found = judge_checklist(lake, make_pipeline(tables(lake.settings)))
    assert len(found) == 12
    assert [i.name for i in found if i.holds] == []
    assert [i.name for i in found if not i.fix] == []


def test_days_of_a_table_of_others_are_by_no_code_of_today(tmp_path: Path) -> None:
    others = Others(tmp_path, ["order_date"])
    others.look()
    path = loads(others.lake, chosen_pipeline(others.lake))["one load path"]
    assert (path.holds, "every day's newest one is by today's code" in path.evidence) == (
        True,
        True,
    )


def test_a_damaged_data_file_is_told_by_its_table_and_the_way_back(tmp_path: Path) -> None:
    lake, pipeline = late_lake(tmp_path / "lake")
    for file in lake.table_place("staging").local().rglob("*.parquet"):
        file.write_bytes(b"torn")
    with pytest.raises(
        BackfillError,
        match=r"the table staging: it is unreadable \(.*`backfill-assets verify` names",
    ):
        judge_checklist(lake, pipeline)


def source(lake: Lake, pipeline: Pipeline) -> Source:
    return read_view(lake, pipeline.contracts).source("raw")


@pytest.mark.slow
def test_repeats_are_told_by_what_they_repeat_and_a_key_that_is_current_twice_unticks(
    tmp_path: Path,
) -> None:
    lake, pipeline = late_lake(tmp_path / "lake")
    day = sorted(read_view(lake, pipeline.contracts).table("raw").latest)[-1]
    row, other = ({**delivery_of(day, n, timedelta(0)), "event_key": f"new{n}"} for n in (1, 2))
    before = repeats_of(
        lake, pipeline.states(read_view(lake, pipeline.contracts)), source(lake, pipeline), newest=1
    )
    rows = [row, {**row, "seq": 91, "source_file": "again"}, {**row, "seq": 92, "value": 7}, other]
    write(lake, "raw", pipeline, rows, [day])
    found = repeats_of(
        lake, pipeline.states(read_view(lake, pipeline.contracts)), source(lake, pipeline), newest=1
    )
    assert (found.exact - before.exact, found.keys - before.keys) == (1, 2)
    assert found.per_1000 == {
        "exact": 1000 * found.exact / found.rows,
        "key": 1000 * found.keys / found.rows,
    }
    once = loads(lake, pipeline)[NEWEST]
    assert "repeat another one but for its delivery" in once.evidence
    contract = pipeline.table("staging").contract
    for at in (day, day + timedelta(days=1)):
        twice = [{**one, "event_key": "k"} for one in good_rows(at)]
        write_rows(lake.table_place("staging").local(), contract, twice)
    again = loads(lake, pipeline)[NEWEST]
    assert (again.holds, "row(s) of staging repeat a key that is current" in again.evidence) == (
        False,
        True,
    )
    assert "--tables staging" in again.fix


@pytest.mark.slow
def test_a_lake_that_was_proven_and_bounded_holds_all_until_another_program_writes(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake = make_lake(
        tmp_path / "lake", ROWS, DAYS[0], gates={"tables": {"staging": {"max_key_share": 1.0}}}
    )
    backfill(lake, DAYS[0], DAYS[-1])
    pipeline = make_pipeline(tables(lake.settings))
    keep_proof(lake, pipeline, prove_written_days(lake, pipeline, ProofRequest(random=1)))
    found = loads(lake, pipeline)
    assert {n: i.evidence for n, i in found.items() if not i.holds} == {}
    contract = pipeline.table("staging").contract
    write_rows(
        lake.table_place("staging").local(), contract, good_rows(date.fromisoformat(DAYS[1]))
    )
    assert not loads(lake, pipeline)[WHOLE].holds
