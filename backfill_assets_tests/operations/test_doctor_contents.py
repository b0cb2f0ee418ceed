"""`doctor --deep`: contents against receipts, told per table.

Tested here: `operations.doctor_tables` on tables committed by hand. Not tested here: the command line around it.
"""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.home import Lake
from backfill_assets.lake.replace import Provenance, Write, replace_days
from backfill_assets.operations.doctor_tables import Diagnosis, Level, examine_rows
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand

pytestmark = pytest.mark.usefixtures("storages")

ROWS = [{"entity": "A", "value": n, "event_date": day(n)} for n in range(3)]


def looked_at(lake: Lake) -> Diagnosis:
    return examine_rows(lake, STAGING, lake.store.view("staging", "event_date"))


def told(lake: Lake, entries: Mapping[date, DayEntry]) -> None:
    """Publish the rows with whatever entries their receipt shall hold."""
    write = Write(STAGING, stage_by_hand(lake, STAGING, ROWS), entries, -1, Provenance("test"))
    replace_days(lake, write, lambda days: dict.fromkeys(days, "digest"))


def test_contents_that_equal_their_receipts_are_fine(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, ROWS)
    found = looked_at(lake)
    assert (found.level, found.what) == (Level.OK, "3 day(s), 3 rows equal their receipts")


def test_other_contents_than_receipts_say_are_broken(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    told(lake, {day(n): DayEntry(1, "F", "digest") for n in range(3)})
    assert looked_at(lake).level is Level.ERROR


def test_receipts_that_fingerprint_in_another_way_are_no_alarm_but_for_their_count_of_rows(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    told(lake, {day(n): DayEntry(1, "F", "digest", scheme=1) for n in range(3)})
    found = looked_at(lake)
    assert found.level is Level.OK
    assert "of 3 only the count of rows" in found.what
    told(lake, {day(n): DayEntry(2 if n else 1, "G", "digest", scheme=1) for n in range(3)})
    assert looked_at(lake).level is Level.ERROR
