"""What came late for closed days is listed with its rows, in `closed`, `status`, checks and SQL.
Not here: that it is not written (`test_closing`)."""

import pytest

from backfill_assets.closing.closing import close_tables, reopen_tables
from backfill_assets.closing.late_changes import late_changes
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.closing.closed_lake import (
    LAST,
    SAID,
    asked,
    close_first_days,
    land_late,
)
from backfill_assets_tests.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")


def test_a_closed_day_is_listed_with_the_rows_that_came_since_it_was_made(made: Planned) -> None:
    close_first_days(made)
    land_late(made, event=2, rows=5)
    (late,) = late_changes(made.lake, made.states())
    assert (late.table, late.day, late.rows, late.last_arrival) == (
        "staging",
        day(2),
        5,
        day(DAYS - 1),
    )
    assert late.closed_until == day(LAST)


def test_rows_for_an_open_day_are_no_late_change(made: Planned) -> None:
    close_first_days(made)
    land_late(made, event=LAST + 1, rows=5)
    assert not [*late_changes(made.lake, made.states())]


def test_a_closed_table_of_an_open_one_is_listed_without_a_number_of_rows(made: Planned) -> None:
    close_first_days(made, "features")
    land_late(made, event=2, rows=5)
    made.write("staging", {2: 7})
    found = [(late.table, late.day, late.rows) for late in late_changes(made.lake, made.states())]
    assert ("features", day(2), None) in found
    assert {table for table, _, _ in found} == {"features"}


def test_what_was_stale_as_it_was_closed_is_listed_until_it_is_made(made: Planned) -> None:
    land_late(made, event=1, rows=2)
    close_tables(made.lake, made.pipeline, day(LAST), asked("staging", as_they_are=True))
    assert [late.rows for late in late_changes(made.lake, made.states())] == [2]
    reopen_tables(made.lake, made.pipeline, None, asked("staging"))
    made.write("staging", {1: 3})
    close_first_days(made, "staging")
    assert not [*late_changes(made.lake, made.states())]


def put_back(made: Planned) -> None:
    """Put the days 1 and 2 back to what they held before the plan, and close them so."""
    rollback = pytest.importorskip("backfill_assets.plans.rollback")
    request = rollback.RollbackRequest(plan="p1", chunk="1")
    rollback.roll_back(made.lake, made.pipeline, request, Provenance("", tags=SAID))
    close_tables(made.lake, made.pipeline, day(LAST), asked("staging", as_they_are=True))


def test_what_comes_late_for_a_closed_day_that_a_rollback_holds_is_listed(made: Planned) -> None:
    made.chunk(1, (1, 2), 2)
    put_back(made)
    assert not [*late_changes(made.lake, made.states())], "it holds what landed"
    land_late(made, event=2, rows=5)
    found = [(late.day, late.rows) for late in late_changes(made.lake, made.states())]
    assert found == [(day(2), 5)]
    assert "open, it would be held" in " ".join(
        run("show", "staging", day(2), on=made).stdout.split()
    )


def test_rows_that_a_rollback_took_out_of_a_closed_day_are_listed(made: Planned) -> None:
    """They came before the day was closed; what it holds was made without them."""
    land_late(made, event=2, rows=5)
    made.chunk(1, (1, 2), 2)
    assert made.states().of("staging", day(2)) is State.FRESH
    put_back(made)
    found = [(late.day, late.rows) for late in late_changes(made.lake, made.states())]
    assert found == [(day(2), 5)]


def test_every_page_says_what_came_late(made: Planned) -> None:
    close_first_days(made)
    land_late(made, event=2, rows=5)
    line = f"staging: late into a closed period: 5 row(s) for {day(2)}, closed up to {day(LAST)}"
    assert line in " ".join(run("status", on=made).output.split())
    document = read(run("closed", "--json", on=made))
    assert document["late"] == [
        {
            "table": "staging",
            "day": str(day(2)),
            "closed_until": str(day(LAST)),
            "rows": 5,
            "last_arrival": str(day(DAYS - 1)),
        }
    ]
    query = "SELECT day, rows FROM system.late_into_closed"
    assert str(day(2)) in run("sql", query, "--newest", on=made).stdout
    checks = "SELECT outcome FROM system.checks WHERE \"check\" = 'closed'"
    assert "warn" in run("sql", checks, "--newest", on=made).stdout
