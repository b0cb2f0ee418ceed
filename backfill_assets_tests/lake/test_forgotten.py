"""The record of forgotten entities names none of them, and an erasure that was stopped is found again.

Tested here: `lake.forgotten`, on the logs of real tables, and that its SQL is HMAC as Python has it, on an engine.
Not tested here: rows that stay out (`end_to_end.test_forget`).
"""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.lake.forgotten import (
    begin_erasure,
    erase,
    erasures,
    is_forgotten,
    rewritten_commits,
    with_heirs,
)
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.log import open_delta
from backfill_assets.lake.traces import Trace, traced
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANN = {"entity": "ann@example.org"}
ANN_77 = Trace({"entity": "ann-77"})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path)


def test_nothing_is_forgotten_in_a_lake_without_a_record(lake: Lake) -> None:
    assert (is_forgotten(lake), erasures(lake), rewritten_commits(lake, "staging")) == ("", [], {})


def test_the_record_holds_no_value_and_its_key_is_for_the_owner_alone(lake: Lake) -> None:
    made = begin_erasure(lake, ANN, "asked for")
    folder = made.path.parent
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert not [p for p in folder.iterdir() if b"ann" in p.read_bytes()]
    assert begin_erasure(lake, ANN, "asked for").path == made.path, "it is not finished"
    made.done["finished_at"] = "now"
    made.keep()
    assert begin_erasure(lake, ANN, "asked for").path != made.path, "more of it has landed since"
    assert len({e.done["hash"] for e in erasures(lake)}) == 1


def test_the_digests_of_a_commit_that_two_erasures_rewrote_are_both_known_whichever_ended_last(lake: Lake) -> None:
    for values, digest in ((ANN, "one"), ({"entity": "bob"}, "two")):
        made = begin_erasure(lake, values, "")
        made.done["commits"] = {"staging": {"3": digest}}
        made.keep()
    assert rewritten_commits(lake, "staging") == {3: {"one", "two"}}


def test_what_erasures_made_of_a_content_one_after_the_other_is_known(lake: Lake) -> None:
    for values, before, after in ((ANN, "a", "b"), ({"entity": "bob"}, "b", "c")):
        made = begin_erasure(lake, values, "")
        made.done["landed"] = [{"before": before, "after": after}, {"before": "x"}]
        made.keep()
    assert [sorted(with_heirs(lake, found)) for found in (["a", "x"], ["c"])] == [["a", "b", "c", "x"], ["c"]]


def test_a_row_is_forgotten_if_the_engine_finds_its_keyed_hash_in_the_record(spark: "SparkSession", lake: Lake) -> None:
    for values in (ANN, {"entity": "J\u00f6"}, {"no_column_of_the_payload": "bob"}, {"entity": "cy", "value": "-42"}):
        begin_erasure(lake, values, "")
    told = {("ann@example.org", 1): True, ("bob", 1): False, ("J\u00f6", None): True, (None, 1): False}
    told |= {("cy", -42): True, ("cy", 42): False, ("cy", None): False, ("bob", -42): False}
    rows = spark.createDataFrame([*told], "entity STRING, value BIGINT")
    found = {
        (r["entity"], r["value"]): r["gone"] for r in rows.selectExpr("*", f"{is_forgotten(lake)} AS gone").collect()
    }
    assert found == told


@pytest.mark.usefixtures("storages")
def test_a_log_is_written_over_where_no_file_is_live_and_the_chain_allows_these_commits_alone(lake: Lake) -> None:
    for entity, n in (("ann-77", 0), ("ann-77", 1), ("bob-78", 1)):
        publish_by_hand(lake, STAGING, [{"entity": entity, "value": 1, "event_date": day(n)}], digest=entity)
    table = lake.table_path("staging")
    erasure = begin_erasure(lake, ANN_77.values, "")
    erase(lake, ANN_77, erasure)
    left = {p.name for p in traced(lake, [lake.root], ANN_77)}
    assert len(list((table).rglob(f"*={day(1)}/*.parquet"))) == 1
    assert len([n for n in left if n.endswith(".parquet")]) == 1, "a live file stays, and is found"
    assert left - {n for n in left if n.endswith(".parquet")} == {"00000000000000000001.json"}, "and so do its bounds"
    assert "2" in erasure.done["commits"]["staging"]
    assert inspect(lake, STAGING).edited == ()
    commit = table / "_delta_log" / "00000000000000000002.json"
    commit.write_bytes(commit.read_bytes().replace(b"#", b"?"))
    assert inspect(lake, STAGING).edited == (2,)


@pytest.mark.usefixtures("storages")
def test_files_of_before_go_from_days_written_since_whatever_they_hold_and_from_no_others(lake: Lake) -> None:
    for n in (0, 1):
        publish_by_hand(lake, STAGING, [{"entity": "bob", "value": 1, "event_date": day(n)}], digest="old")
    publish_by_hand(lake, STAGING, [{"entity": "bob", "value": 2, "event_date": day(0)}], digest="newer")
    erasure = begin_erasure(lake, ANN_77.values, "")
    publish_by_hand(lake, STAGING, [{"entity": "bob", "value": 3, "event_date": day(1)}], digest="newest")
    erase(lake, ANN_77, erasure)
    left = [len(list(lake.table_path("staging").rglob(f"*={day(n)}/*.parquet"))) for n in (0, 1)]
    assert left == [2, 1], "a day that the erasure did not touch can be put back"


@pytest.mark.usefixtures("storages")
def test_bounds_of_live_files_are_of_others_and_those_of_files_of_before_go_whatever_their_column_is_called(
    lake: Lake,
) -> None:
    """Of an entity of two columns both values stand in one line where two others have one of them each."""
    north = Trace({"entity": "north", "value": "7000123"})
    others = [{"entity": e, "value": v, "event_date": day(0)} for e, v in (("north", 5), ("south", 7000123))]
    publish_by_hand(lake, STAGING, [*others, {"entity": "north", "value": 7000123, "event_date": day(0)}], digest="1")
    open_delta(table := lake.table_path("staging")).create_checkpoint()
    erasure = begin_erasure(lake, north.values, "")
    publish_by_hand(lake, STAGING, others, digest="2")
    renamed = Trace({"who": "north", "value": "7000123"})  # finds nothing: the value is a short one elsewhere
    erase(lake, renamed, erasure)
    first, second = ((table / "_delta_log" / f"{n:020d}.json").read_text() for n in (1, 2))
    assert ("minValues" in first, "numRecords" in first) == (False, True)
    assert '\\"minValues\\":{\\"entity\\":\\"north\\"' in second
    assert traced(lake, [lake.root], north) == []
    found = inspect(lake, STAGING, read=True, deep=True)
    assert (found.edited, found.torn, found.altered, found.lost) == ((), (), (), 0)
