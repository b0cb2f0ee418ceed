"""What is told of a day: documented states, news before identities, every fact once.

Tested here: `orchestration.metadata` and the words of the standing fact, in plain values. Not tested here: what Dagster
stores of it (`test_runs`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import State
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.view import read_view
from backfill_assets.orchestration.checks import judge_standing
from backfill_assets.orchestration.metadata import entry_metadata, identities_last, origin, table_metadata
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake
from backfill_assets_tests.pipeline.built_in import lake_settings

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize("built", list(Built))
def test_the_state_that_is_told_is_one_of_the_documented_ones(built: Built) -> None:
    state = entry_metadata(DayEntry(3, "F", "d", built), 7)["backfill_assets/state"]
    assert state in {s.value for s in State}
    assert state == {Built.COMPLETE: "fresh", Built.MERGED: "outdated"}.get(built, built.value)


def test_rows_and_what_happened_come_before_digests() -> None:
    said = {**entry_metadata(DayEntry(3, "F", "d"), 7), "backfill_assets/write_id": "w", "backfill_assets/summary": "…"}
    assert [name.rsplit("/")[-1] for name in identities_last(said)] == [
        "partition_row_count", "state", "summary", "version", "write_id", "fingerprint", "input_digest",
    ]  # fmt: skip
    assert identities_last(said) == said


def test_a_day_says_why_it_was_written_and_links_to_the_days_it_is_made_from_and_to_its_plans_runs(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 4)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    features, last = states.contracts["features"], START + ONE_DAY * 3
    tags = {"plan": "20240301-a", "chunk": "2", "by": "ann@host"}
    told = origin(features, last, states, {"staging": 7}, Provenance("plan", note="the bug of May", tags=tags))
    assert told["backfill_assets/why"] == "plan 20240301-a, chunk 2, by ann@host: the bug of May"
    assert told["backfill_assets/inputs"] == f"staging {START + ONE_DAY}..{last} at version 7"
    assert told["backfill_assets/plan_runs"].value == "../runs?q[]=tag:plan=20240301-a"
    days = f"view=partitions&partition={last}&default_range=[{START + ONE_DAY}...{last}]"
    assert told["backfill_assets/from_staging"].value == f"../assets/staging?{days}"
    by_hand = origin(states.contracts["raw"], START, states, {}, Provenance("manual", tags={"by": "ann@host"}))
    assert by_hand == {"backfill_assets/why": "manual, by ann@host"}, "the files of a day of raw are listed one by one"


def test_dagster_is_told_of_which_columns_a_declared_one_is_made_and_of_what(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 1)
    column = {"name": "spent", "agg": "sum", "of": "value * 2", "where": "flag = 1", "days": 28}
    made = {t.name: t for t in tables(lake_settings(features={"columns": [column]}))}
    said = {name: table_metadata(lake, table.contract) for name, table in made.items()}
    found = said["features"]["dagster/column_lineage"].deps_by_column["spent"]
    origins = {(dep.asset_key.to_user_string(), dep.column_name) for dep in found}
    assert origins == {("staging", "value"), ("staging", "flag")}
    (spent,) = [c for c in said["features"]["dagster/column_schema"].columns if c.name == "spent"]
    assert (spent.tags["aggregation"], spent.tags["filter"], spent.tags["window"]) == ("sum", "flag = 1", "28 days")
    assert "dagster/column_lineage" not in said["raw"]


def test_the_standing_fact_counts_stale_days_under_one_name(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 4)
    build(lake, pipeline, "staging", {START: 3}, digests={START: "older"})
    passed, told = judge_standing(pipeline.states(read_view(lake, pipeline.contracts)), "staging")
    assert not passed
    assert (told["stale days"], told["fresh days"]) == (1, 3)
    assert "days stale" not in told
