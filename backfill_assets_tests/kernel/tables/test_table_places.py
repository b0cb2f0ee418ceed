"""Where a lake's tables lie by the names in its folder, and of whom a candidate's folder speaks.
Not here: adopting a table in a bucket (`foreign.test_adopting`), and candidates (`candidates`)."""

import json
from pathlib import Path

import pytest

from backfill_assets.assets.declared import record_table_place
from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.core.digests import with_digest
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.tables.table_places import (
    CANDIDATE_FILE,
    UNFINISHED,
    base_lake_folder,
    candidate_facts,
    table_at,
)
from backfill_assets_tests.logs import place_of


@pytest.mark.whole_house
def test_a_table_lies_below_its_lake_until_it_is_placed_at_an_address(tmp_path: Path) -> None:
    lake = place_of(tmp_path)
    assert table_at(lake, "orders").local() == tmp_path / "tables" / "orders"
    record_table_place(lake, "orders", "s3://bucket/some/orders")
    assert table_at(lake, "orders").uri() == "s3://bucket/some/orders"
    assert table_at(lake, "clicks").local() == tmp_path / "tables" / "clicks"


def test_a_candidate_is_at_home_in_its_base_lake_and_counts_once_it_is_finished(
    tmp_path: Path,
) -> None:
    folder = tmp_path / CANDIDATES / "next"
    folder.mkdir(parents=True)
    assert (candidate_facts(tmp_path), base_lake_folder(tmp_path)) == ({}, tmp_path)
    facts = {"tables": ["sums"]}
    (folder / CANDIDATE_FILE).write_text(json.dumps(facts))
    assert (candidate_facts(folder), base_lake_folder(folder)) == (facts, tmp_path)
    whole = with_digest(facts)
    (folder / CANDIDATE_FILE).write_text(json.dumps(whole))
    assert candidate_facts(folder) == whole
    (folder / CANDIDATE_FILE).write_text(json.dumps({**whole, "tables": ["sumo"]}))
    with pytest.raises(BackfillError, match=r"candidate\.json: it is not what was written"):
        candidate_facts(folder)
    (folder / CANDIDATE_FILE).write_text(json.dumps({UNFINISHED: "being made"}))
    with pytest.raises(SettingsError, match="the candidate next: it is being made"):
        candidate_facts(folder)
