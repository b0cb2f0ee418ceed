"""The checks of written days over time, judged again by receipts under the gates of today; the
drift of their values. Not here: the gates (`kernel.write.test_gates`), judging
(`kernel.write.test_judging`)."""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.profiles import receipt_counts
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.gate_bounds import GateSettings, TableGate
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.reading.check_history import (
    CheckHistory,
    _histograms_by_column,
    check_history,
    measure_drift,
)
from backfill_assets_tests.builders import CODE, day
from backfill_assets_tests.files import bare_lake, stage_by_hand


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
    [first, *_] = by_name(check_history(lake, States([TABLE], view, {TABLE.name: CODE})))[
        "profile"
    ].found
    assert (first.day, first.message) == (
        day(3),
        "the same inputs, code and settings gave other rows before",
    )


COLUMNS = (
    Column("day", "DATE", "d"),
    Column("key", "STRING", "k"),
    Column("n", "BIGINT", "n", nullable=True),
    Column("t", "STRING", "t", nullable=True),
)

TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())

PIPELINE = Pipeline((Table(TABLE),), {})

DAYS, ROWS = 36, 60


def publish(
    lake: Lake, numbers: dict[int, int | None], digest: str = "digest", text: str | None = None
) -> None:
    """The days with 60 rows each, all of one number and one text."""
    rows = [
        {"day": day(d), "key": str(i), "n": n, "t": text}
        for d, n in numbers.items()
        for i in range(ROWS)
    ]
    staged = stage_by_hand(lake, TABLE, rows)
    found = audit_files(lake, staged.paths, TABLE)
    entries = {
        d: DayEntry(p.rows, p.fingerprint, digest, counts=receipt_counts(p, TABLE.nullable_columns))
        for d, p in found.items()
        if d is not None
    }
    write = Write(TABLE, staged, entries, -1, Provenance("test"))
    replace_days(lake, write, lambda days: dict.fromkeys(days, digest))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """36 days of the number 5, but a thousand on day 20 and NULL on day 30."""
    made = bare_lake(tmp_path)
    publish(made, {d: {20: 1000, 30: None}.get(d, 5) for d in range(DAYS)})
    return made


def test_days_that_are_off_come_first_whatever_made_them_so(lake: Lake) -> None:
    report = measure_drift(lake, PIPELINE)
    assert {d.day for d in report.off} == {day(20), day(30)}
    assert len([d for d in report.found if d.column == "n"]) == DAYS
    assert all(d.trailing is None for d in report.found if d.day < day(7))
    assert {d.day for d in report.found if not d.is_judged} == {day(d) for d in range(7)}, (
        "nothing to compare with"
    )


def test_what_a_day_held_before_is_compared_too(lake: Lake) -> None:
    publish(lake, {20: 5}, "two")
    [again] = [d for d in measure_drift(lake, PIPELINE, ["t"], "n").found if d.day == day(20)]
    assert again.trailing == pytest.approx(0.0, abs=0.01)
    assert again.before is not None
    assert again.before > 0.25


def test_a_text_that_moved_is_named_and_days_of_which_nothing_is_known_are_not_compared(
    lake: Lake,
) -> None:
    publish(lake, dict.fromkeys(range(40, 60), 5), text="EUR")
    publish(lake, {60: 5}, text="EURO")
    found = measure_drift(lake, PIPELINE, column="t")
    [off] = [d for d in found.off if d.day == day(60)]
    assert off.moved in ("'EUR' went from 100.0% to 0.0%", "'EURO' went from 0.0% to 100.0%")
    by_earlier_receipts = {
        d: DayEntry(9, "F", "", counts={"bits 1 n": 9, "null t": 3}) for d in map(day, range(9))
    }
    assert "t" not in _histograms_by_column(by_earlier_receipts)
