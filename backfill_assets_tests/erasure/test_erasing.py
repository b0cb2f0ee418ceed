"""Deleting what held a forgotten entity: which data files go, and which stay.

Tested here: `erasure.erasing`. Not tested here: the record of erasures (`intake/test_forgotten.py`).
"""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from backfill_assets.erasure.erasing import erase_files
from backfill_assets.erasure.traces import Search, Trace
from backfill_assets.intake.forgotten import (
    begin_erasure,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import publish_by_hand


@pytest.mark.usefixtures("storages")
def test_data_files_that_are_not_live_go_and_no_byte_of_a_log_is_changed(lake: Lake) -> None:
    for entity, n in (("ann-77", 0), ("ann-77", 1), ("bob-78", 1)):
        publish_by_hand(
            lake, STAGING, [{"entity": entity, "value": 1, "event_date": day(n)}], digest="d"
        )
    search, table = Search(lake, Trace({"entity": "ann-77"})), lake.table_place("staging").local()
    log = {p: p.read_bytes() for p in (table / "_delta_log").iterdir()}
    (aside := lake.root / ".plans" / "a.json").parent.mkdir()
    aside.write_text('{"note": "for ann-77"}')
    (elsewhere := lake.root / "mine").mkdir()
    (elsewhere / "ann.txt").write_text("ann-77")
    (lake.root / ".reconciled").symlink_to(elsewhere)
    erase_files(search, erasure := begin_erasure(lake, search.trace.values, ""))
    assert len([*table.rglob(f"*={day(1)}/*.parquet")]) == 1
    held = [p for p, f in search.below([lake.root]).items() if f.held]
    assert sorted(p.suffix for p in held) == [".parquet", ".txt"], (
        "a live file and one of the user's stay"
    )
    assert {p: p.read_bytes() for p in log} == log
    assert erasure.done["deleted"] == {"staging": 1, ".plans": 1}


def test_a_live_file_whose_name_the_log_quotes_stays(lake: Lake) -> None:
    """As a writer of others may name one; its rows hold the entity until its day is made anew."""
    publish_by_hand(
        lake, STAGING, [{"entity": "ann-77", "value": 1, "event_date": day(0)}], digest="d"
    )
    table = lake.table_place("staging").local()
    (file,) = table.rglob("*.parquet")
    odd = file.rename(file.with_name("part 1 é.parquet"))
    commit = max((table / "_delta_log").glob("*.json"))
    commit.write_text(commit.read_text().replace(file.name, quote(odd.name)))
    search = Search(lake, Trace({"entity": "ann-77"}))
    erase_files(search, begin_erasure(lake, search.trace.values, ""))
    assert odd.exists()


@pytest.mark.usefixtures("storages")
def test_files_of_before_go_from_days_written_since_whatever_they_hold_and_from_no_others(
    lake: Lake,
) -> None:
    for n in (0, 1):
        publish_by_hand(
            lake, STAGING, [{"entity": "bob", "value": 1, "event_date": day(n)}], digest="old"
        )
    publish_by_hand(
        lake, STAGING, [{"entity": "bob", "value": 2, "event_date": day(0)}], digest="newer"
    )
    search = Search(lake, Trace({"entity": "ann-77"}))
    erasure = begin_erasure(lake, search.trace.values, "")
    assert erasure.done["began_versions"] == {"staging": 3}
    # As if the clock had been ahead: versions are compared.
    erasure.done["began_at"] = "2099-01-01T00:00:00+00:00"
    publish_by_hand(
        lake, STAGING, [{"entity": "bob", "value": 3, "event_date": day(1)}], digest="newest"
    )
    erase_files(search, erasure)
    left = [
        len(list(lake.table_place("staging").local().rglob(f"*={day(n)}/*.parquet")))
        for n in (0, 1)
    ]
    assert left == [2, 1], "a day that the erasure did not touch can be put back"


def adopt_by_hand(table: Path) -> Path:
    """Give the one file of day 1 of a table a second name, as `adopt` does; returns the first."""
    (second,) = table.rglob(f"*={day(1)}/*.parquet")
    first = table / "first.parquet"
    first.hardlink_to(second)
    named = second.rename(second.with_name(first.name)).relative_to(table).as_posix()
    column, value = second.parent.name.split("=")
    before = second.relative_to(table).as_posix()
    partition = {column: value}
    moves = [
        {
            "remove": {"path": before, "partitionValues": partition, "dataChange": False},
            "commitInfo": {"timestamp": 1},
        },
        {"remove": {"path": first.name, "partitionValues": {}, "dataChange": False}},
        {
            "add": {
                "path": named,
                "partitionValues": partition,
                "size": first.stat().st_size,
                "dataChange": False,
                "modificationTime": 0,
            }
        },
    ]
    commit = table / "_delta_log" / f"{2:020d}.json"
    commit.write_text("\n".join(map(json.dumps, moves)))
    return first


def test_the_first_name_of_a_file_goes_with_the_second_that_adopt_gave_it_in_a_day_written_since(
    lake: Lake,
) -> None:
    """Both are names of the same bytes, and the first lies in no folder of a day."""
    publish_by_hand(
        lake, STAGING, [{"entity": "bob", "value": 1, "event_date": day(1)}], digest="old"
    )
    table = lake.table_place("staging").local()
    first = adopt_by_hand(table)
    search = Search(lake, Trace({"entity": "ann-77"}))
    erasure = begin_erasure(lake, search.trace.values, "")
    publish_by_hand(
        lake, STAGING, [{"entity": "bob", "value": 2, "event_date": day(1)}], digest="new"
    )
    erase_files(search, erasure)
    assert not first.exists()
    assert len([*table.rglob(f"*={day(1)}/*.parquet")]) == 1
