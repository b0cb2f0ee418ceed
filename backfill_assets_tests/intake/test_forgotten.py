"""The record of forgotten entities names none of them, and an erasure that was stopped is found
again. Not here: rows that stay out (`end_to_end.test_forget`)."""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.intake.forgotten import (
    all_erasures,
    begin_erasure,
    erasure_doubts,
    forgotten_condition,
    is_erasing,
    may_hold_erased,
    rename_column,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.folder import FORGOTTEN
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.lakes import SELECT, configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANN = {"entity": "ann@example.org"}


def test_the_record_holds_no_value_and_its_key_is_for_the_owner_alone(lake: Lake) -> None:
    made = begin_erasure(lake, ANN, "asked for")
    folder = lake.root / FORGOTTEN
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert not [p for p in folder.iterdir() if b"ann" in p.read_bytes()]
    assert begin_erasure(lake, ANN, "asked for").name == made.name, "it is not finished"
    made.done["finished_at"] = "now"
    made.keep()
    assert begin_erasure(lake, ANN, "asked for").name != made.name, "more of it has landed since"
    assert len({e.done["hash"] for e in all_erasures(lake)}) == 1


def test_the_same_value_of_another_column_is_another_entity(lake: Lake) -> None:
    """As where `[features] entity` changes while an erasure is not finished."""
    made = begin_erasure(lake, ANN, "")
    other = begin_erasure(lake, {"event_key": ANN["entity"]}, "")
    assert other.name != made.name
    assert other.done["columns"] == ["event_key"]
    assert begin_erasure(lake, ANN, "").name == made.name


def test_rows_made_from_the_versions_at_which_an_erasure_ended_may_be_of_the_entity(
    lake: Lake,
) -> None:
    made = begin_erasure(lake, ANN, "")
    assert may_hold_erased(lake, {"staging": 9}), "it is not finished"
    made.done.update(finished_at="now", ended_versions={"staging": 3})
    made.keep()
    assert [may_hold_erased(lake, {"staging": version}) for version in (2, 3, 4)] == [
        True,
        True,
        False,
    ]
    assert not may_hold_erased(lake, {"labels": 2})
    for name in ("made_from", "ended_versions"):
        made.done.pop(name)
    made.keep()
    assert forgotten_condition(lake)
    assert not may_hold_erased(lake, {"raw": 0}), "an earlier version recorded it"


def test_other_spellings_are_kept_for_the_owner_alone_until_it_is_finished(lake: Lake) -> None:
    made = begin_erasure(lake, ANN, "asked for")
    for found in (
        {"entity": {"Ann@example.org"}},
        {"entity": ["ANN@example.org", "Ann@example.org"]},
        {},
    ):
        made.add_spellings(found)
    (kept,) = (lake.root / FORGOTTEN).glob("*.spellings")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert begin_erasure(lake, ANN, "").spellings() == {
        "entity": ["ANN@example.org", "Ann@example.org"]
    }
    assert (is_erasing(lake), len(all_erasures(lake))) == (True, 1)
    made.finish(lake)
    assert (is_erasing(lake), made.spellings(), kept.exists()) == (False, {}, False)


def source(payload: dict[str, str], select: str = SELECT) -> dict[str, object]:
    return {"files": "*", "format": "jsonl", "select": select, "payload": payload}


def test_loads_are_refused_while_nothing_says_which_column_names_the_entity(tmp_path: Path) -> None:
    def lake_with(select: str, **payload: str) -> Lake:
        return configure(
            tmp_path,
            "2024-03-01",
            source=source(payload, select),
            features={"entity": [*payload][:1]},
        )

    lake = lake_with("id AS event_key, at AS event_ts, who, cents", who="STRING", cents="BIGINT")
    begin_erasure(lake, {"who": "ann"}, "")
    known = forgotten_condition(lake)
    renamed = lake_with(
        "id AS event_key, at AS event_ts, who AS customer, cents", customer="STRING", cents="BIGINT"
    )
    with pytest.raises(SettingsError, match=r"names who, which no source has.*--renamed OLD=NEW"):
        forgotten_condition(renamed)
    assert len(rename_column(renamed, "who", "customer", "it was renamed")) == 1
    assert forgotten_condition(renamed) == known.replace("CAST(who ", "CAST(customer ")
    assert forgotten_condition(lake) == known, (
        "so a candidate beside, or the way back, need nothing"
    )
    other = lake_with(
        "id AS event_key, at AS event_ts, lower(who) AS customer, 1 AS cents",
        customer="STRING",
        cents="BIGINT",
    )
    assert "customer is made another way: now by `LOWER(who) STRING`" in next(erasure_doubts(other))
    rename_column(other, "customer", "customer", "looked at")
    assert list(erasure_doubts(other)) == []
    gone = lake_with("id AS event_key, at AS event_ts, cents", cents="BIGINT")
    rename_column(gone, "customer", "", "no person is named any more")
    assert forgotten_condition(gone) == ""
    assert forgotten_condition(other) == known.replace("CAST(who ", "CAST(customer ")


def test_a_row_is_forgotten_if_the_engine_finds_its_keyed_hash_in_the_record(
    spark: "SparkSession", lake: Lake
) -> None:
    for values in (ANN, {"entity": "J\u00f6"}, {"entity": "cy", "value": "-42"}):
        begin_erasure(lake, values, "")
    told = {
        ("ann@example.org", 1): True,
        ("bob", 1): False,
        ("J\u00f6", None): True,
        (None, 1): False,
    }
    told |= {("cy", -42): True, ("cy", 42): False, ("cy", None): False, ("bob", -42): False}
    rows = spark.createDataFrame([*told], "entity STRING, value BIGINT")
    found = {
        (r["entity"], r["value"]): r["gone"]
        for r in rows.selectExpr("*", f"{forgotten_condition(lake)} AS gone").collect()
    }
    assert found == told


def test_an_entity_that_is_the_whole_payload_is_told_by_it(tmp_path: Path) -> None:
    only = source({"who": "STRING"}, "id AS event_key, at AS event_ts, who")
    lake = configure(tmp_path, "2024-03-01", source=only, features={"entity": ["who"]})
    begin_erasure(lake, {"who": "ann"}, "")
    assert list(erasure_doubts(lake)) == []
