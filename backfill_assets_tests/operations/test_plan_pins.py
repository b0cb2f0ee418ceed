"""Pins: what moved since a plan was made is named with both values.

Tested here: `operations.plan_pins`. Not tested here: a run that is refused by them (`test_plan_run.py`).
"""

from dataclasses import replace

from backfill_assets.core.plans import Pins
from backfill_assets.operations.plan_pins import moved_pins

PINNED = Pins({"staging": "c1"}, {"staging": "s1"}, {"pyspark": "4"}, {"staging": 3})


def test_what_moved_is_named_with_both_values() -> None:
    now = replace(PINNED, codes={"staging": "c2"}, packages={"pyspark": "5"})
    assert list(moved_pins(PINNED, now, ("staging",))) == ["the code of staging was c1, is c2", "pyspark was 4, is 5"]


def test_newer_table_versions_and_other_tables_move_no_pin() -> None:
    now = replace(PINNED, versions={"staging": 9}, codes={"staging": "c1", "features": "new"})
    assert list(moved_pins(PINNED, now, ("staging",))) == []
