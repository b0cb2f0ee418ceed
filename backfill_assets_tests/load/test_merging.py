"""The write mode merge in the load path: what a correction removed is refused unless told, and a merged day says so.

Tested here: `load.derived`, by itself and once through Spark. Not tested here: copying rows
(`lake.test_writing_upsert`), plans that merge (`backfill.test_plan`).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import WriteMode
from backfill_assets.core.receipts import KEPT, Built, DayEntry
from backfill_assets.core.states import State
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view
from backfill_assets.load.derived import as_merged, refuse_merge
from backfill_assets_tests.lakes import ECHO, backfill, content, delivery, make_lake, prepared, request
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do

DAY = date(2024, 3, 1)


def test_what_landed_and_files_of_several_days_are_never_merged() -> None:
    with pytest.raises(BackfillError, match="the table raw: its days cannot be merged: it holds every delivery"):
        refuse_merge(contract("raw"))
    with pytest.raises(BackfillError, match="its files hold several days each"):
        refuse_merge(replace(ECHO, partition_by="event_key"))
    refuse_merge(ECHO)


def test_a_day_that_keeps_nothing_says_what_an_overwrite_says() -> None:
    entry = DayEntry(3, "F", "digest")
    assert as_merged(entry, 0) is entry
    assert as_merged(entry, 2).built is Built.MERGED
    assert as_merged(entry, 2).counts == {KEPT: 2}


def below(most: int, settings: LakeSettings) -> tuple[Table, ...]:
    """raw, and those of its rows whose value is below."""

    def transform(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
        rows = frames["raw"].selectExpr("event_key", "value", "to_date(event_ts) event_date")
        return rows.where(rows.event_date.between(chunk.days.start, chunk.days.last) & (rows.value < most))

    return Table(contract("raw")), Table(ECHO, transform, {"most": most}, (__name__,))


def test_rows_that_a_correction_removed_are_refused_or_kept_and_an_overwrite_is_never_skipped(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rows = [delivery(n, f"{DAY} 10:00:00", None, f"k{n}", value=n) for n in (1, 2, 3)]
    lake = make_lake(tmp_path, rows, DAY)

    def loose(settings: LakeSettings) -> tuple[Table, ...]:
        """All three."""
        return below(9, settings)

    def strict(settings: LakeSettings) -> tuple[Table, ...]:
        """Two of them."""
        return below(3, settings)

    backfill(lake, DAY, DAY, None, loose)
    before, asked = content(lake, "echo"), request(lake, "echo", DAY, DAY, strict)
    told = r"1 row\(s\) that stand on 2024-03-01 .*k3.*--keep-removed"
    with pytest.raises(BackfillError, match=told), prepared(replace(asked, mode=WriteMode.MERGE)):
        pass
    assert content(lake, "echo") == before
    with prepared(replace(asked, mode=WriteMode.MERGE_KEEPING)) as rebuild:
        rebuild.publish()
    assert content(lake, "echo") == before
    states = asked.pipeline.states(read_view(lake, asked.pipeline.contracts))
    assert states.of("echo", DAY) is State.OUTDATED
    with prepared(replace(asked, mode=WriteMode.MERGE_KEEPING)) as again:
        assert again.ready.settled == {DAY}
    backfill(lake, DAY, DAY, ["echo"], strict)
    assert len(content(lake, "echo")) == 2
    states = asked.pipeline.states(read_view(lake, asked.pipeline.contracts))
    assert states.of("echo", DAY) is State.FRESH
