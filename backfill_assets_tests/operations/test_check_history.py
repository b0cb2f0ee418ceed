"""The checks of written days over time, judged again by receipts under the gates of today.

Tested here: `operations.report`. Not tested here: the gates (`lake.test_gates`), judging (`load.test_judging`).
"""

from dataclasses import replace

import pytest

from backfill_assets.core.states import States
from backfill_assets.lake.gate_settings import GateSettings, TableGate
from backfill_assets.lake.home import Lake
from backfill_assets.lake.view import read_view
from backfill_assets.operations.check_history import CheckHistory, check_history
from backfill_assets_tests.builders import CODE, day
from backfill_assets_tests.operations.test_check_history_drift import TABLE, lake

pytestmark = pytest.mark.quick
__all__ = ("lake",)


def states_of(lake: Lake) -> States:
    return States([TABLE], read_view(lake, [TABLE]), {TABLE.name: CODE})


def by_name(found: tuple[CheckHistory, ...]) -> dict[str, CheckHistory]:
    return {h.check: h for h in found}


def test_days_are_counted_by_what_receipts_and_the_gates_of_today_say(lake: Lake) -> None:
    found = by_name(check_history(lake, states_of(lake)))
    assert {h.days for h in found.values()} == {36}
    assert [f.day for f in found["profile"].found] == [day(20), day(30)], "a thousand, and NULL"
    assert (found["profile"].warned, found["row_count"].failed) == (2, 0)
    gates = GateSettings(tables={"t": TableGate(max_rows=59)})
    strict = Lake(lake.root, lake.settings.model_copy(update={"gates": gates}))
    assert by_name(check_history(strict, states_of(lake)))["row_count"].to_dict()["failed"] == 36


def test_a_day_whose_rerun_gave_other_rows_does_not_pass(lake: Lake) -> None:
    states = states_of(lake)
    table = states.view.table("t")
    latest = {d: replace(r, irreproducible=d == day(3)) for d, r in table.latest.items()}
    view = replace(states.view, tables={**states.view.tables, "t": replace(table, latest=latest)})
    [first, *_] = by_name(check_history(lake, States([TABLE], view, {TABLE.name: CODE})))["profile"].found
    assert (first.day, first.message) == (day(3), "the same inputs, code and settings gave other rows before")
