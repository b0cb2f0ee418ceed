"""What is told of a day: documented states, news before identities, every fact once.

Tested here: `orchestration.metadata` and the words of the standing fact, in plain values. Not tested here: what Dagster
stores of it (`test_runs`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import State
from backfill_assets.lake.view import read_view
from backfill_assets.orchestration.metadata import entry_metadata, news_first
from backfill_assets.orchestration.standing import judged
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake


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


def test_the_standing_fact_counts_stale_days_under_one_name(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 4)
    build(lake, pipeline, "staging", {START: 3}, digests={START: "older"})
    passed, told = judged(pipeline.states(read_view(lake, pipeline.contracts)), "staging")
    assert not passed
    assert (told["stale days"], told["fresh days"]) == (1, 3)
    assert "days stale" not in told
