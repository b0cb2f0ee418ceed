"""What is told of a day: documented states, news before identities, every fact once.

Tested here: `orchestration.metadata` and the words of the standing fact, in plain values. Not tested here: what Dagster
stores of it (`test_runs`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.plans import PLAN_TAG
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import State
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import read_view
from backfill_assets.load.candidate import Candidate, RebuildRequest
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.checks import judged
from backfill_assets.orchestration.metadata import day_metadata, entry_metadata, news_first, table_metadata
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake
from backfill_assets_tests.operations.test_compare import PIPELINE, TABLE, rows
from backfill_assets_tests.pipeline.test_tables import lake_settings

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize("built", list(Built))
def test_the_state_that_is_told_is_one_of_the_documented_ones(built: Built) -> None:
    state = entry_metadata(DayEntry(3, "F", "d", built), 7)["backfill_assets/state"]
    assert state in {s.value for s in State}
    assert state == {Built.COMPLETE: "fresh", Built.MERGED: "outdated"}.get(built, built.value)


def test_rows_and_what_happened_come_before_digests() -> None:
    said = {
        **entry_metadata(DayEntry(3, "F", "d"), 7), "backfill_assets/write_id": "w", "backfill_assets/bytes": 4,
        "backfill_assets/quarantine_rows": 2, "backfill_assets/unchanged": False, "backfill_assets/summary": "…",
    }  # fmt: skip
    assert [name.rsplit("/")[-1] for name in news_first(said)] == [
        "partition_row_count", "state", "summary", "unchanged", "quarantine_rows", "bytes", "version", "write_id",
        "fingerprint", "input_digest",
    ]  # fmt: skip
    assert news_first(said) == said


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
    passed, told = judged(pipeline.states(read_view(lake, pipeline.contracts)), "staging")
    assert not passed
    assert (told["stale days"], told["fresh days"]) == (1, 3)
    assert "days stale" not in told


@pytest.mark.parametrize(("days", "tags", "compared"), [(2, {}, True), (1, {PLAN_TAG: "P"}, True), (1, {}, False)])
def test_range_runs_and_chunks_carry_a_short_compare_of_what_they_changed(
    tmp_path: Path, days: int, tags: dict[str, str], compared: bool
) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, TABLE, rows({(1, "a"): (1, "x")}))
    before = lake.store.view("t", "day")
    done = publish_by_hand(lake, TABLE, rows({(1, "a"): (2, "x")}), digest="two")
    after = lake.store.view("t", "day").stamps[day(1)].entry
    span = DayRange(day(1), day(1 + days))
    entries = dict.fromkeys(span, after)
    profiles: dict[date | None, DayProfile] = {d: DayProfile(1) for d in span}
    candidate = Candidate(TABLE, span, frozenset(), profiles, entries, before, None, None, lambda: done, lambda: None)
    said = Provenance("plan", tags=tags)
    asked = RebuildRequest(LakeSession(lake), PIPELINE, PIPELINE.tables[0], span, said)
    told = day_metadata(Rebuild(asked, candidate), done, {})[str(span.last)]
    assert ("backfill_assets/compare" in told) is compared
    if compared:
        assert "| 0 | 0 | 1 | n 1 |" in told["backfill_assets/compare"].value
