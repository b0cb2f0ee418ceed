"""The record of forgotten entities names none of them, and an erasure that was stopped is found again.

Tested here: `lake.forgotten`, and that its SQL is HMAC as Python has it, on an engine.
Not tested here: rows that stay out (`end_to_end.test_forget`).
"""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.lake.forgotten import begin_erasure, erasures, is_forgotten, rewritten_commits, with_heirs
from backfill_assets.lake.home import Lake
from backfill_assets_tests.files import bare_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANN = {"entity": "ann@example.org"}


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
    for values in (ANN, {"entity": "J\u00f6"}, {"no_column_of_the_payload": "bob"}):
        begin_erasure(lake, values, "")
    rows = spark.sql("SELECT * FROM VALUES ('ann@example.org'), ('bob'), ('J\u00f6'), (NULL) AS t(entity)")
    found = {r["entity"]: r["gone"] for r in rows.selectExpr("entity", f"{is_forgotten(lake)} AS gone").collect()}
    assert found == {"ann@example.org": True, "bob": False, "J\u00f6": True, None: False}
