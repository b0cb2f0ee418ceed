"""Closed days are written by nobody, whoever asks and whenever they were closed; open again, their
inputs decide. Not here: what came late (`test_late_changes`), and the commands."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.closing.closing import _last_of_whole, close_tables, reopen_tables
from backfill_assets.kernel.core.calendars import DAILY, Calendar, Unit
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.closures import CLOSE, CLOSED_UNTIL, closure_receipt
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError, DaysHeld
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.log.log_state import KEEP_EVERY, LogCache
from backfill_assets.kernel.log.state_files import kept_versions
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.closing.closed_lake import (
    LAST,
    SAID,
    asked,
    close_first_days,
    land_late,
)
from backfill_assets_tests.logs import read_commit
from backfill_assets_tests.planned import BUILT, DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")
CLOSED = [day(n) for n in range(LAST + 1)]


def test_days_up_to_the_named_one_are_closed_and_the_receipt_says_by_whom_and_why(
    made: Planned,
) -> None:
    moved = close_first_days(made)
    assert [(m.table, m.before, m.now) for m in moved] == [
        (table, None, day(LAST)) for table in BUILT
    ]
    for table in BUILT:
        assert made.of(table, State.CLOSED) == CLOSED
        said = read_commit(made.lake.table_place(table), made.view(table).version).receipt
        assert said is not None
        assert (said.reason, said.note, said.days) == (CLOSE, "the books of March", {})
        assert said.tags == {**SAID, CLOSED_UNTIL: str(day(LAST))}


def test_a_write_of_a_closed_day_is_refused_and_one_of_a_later_day_is_not(made: Planned) -> None:
    close_first_days(made)
    before = made.values("staging")
    with pytest.raises(DaysHeld, match=r"closed, with all days up to .*: the books of March") as e:
        made.write("staging", {LAST: 9, LAST + 1: 9})
    assert f"reopen --tables staging --from {day(LAST)}" in e.value.fix
    assert made.values("staging") == before
    made.write("staging", {LAST + 1: 9})
    assert made.values("staging")[LAST : LAST + 2] == [1, 9]


def test_a_run_that_began_before_the_days_were_closed_is_refused_at_its_commit(
    made: Planned,
) -> None:
    """The view by which it was decided knows nothing of the closure; the fence reads anew."""
    states = made.states()
    close_first_days(made)
    assert states.of("staging", day(0)) is State.FRESH
    with pytest.raises(DaysHeld, match="closed"):
        made.write("staging", {0: 9})


def test_a_rollback_puts_no_closed_day_back(made: Planned) -> None:
    rollback = pytest.importorskip("backfill_assets.plans.rollback")
    made.chunk(1, (1, 2), 2)
    close_tables(made.lake, made.pipeline, day(LAST), asked(as_they_are=True))
    request = rollback.RollbackRequest(plan="p1", chunk="1")
    with pytest.raises(DaysHeld, match="closed"):
        rollback.roll_back(made.lake, made.pipeline, request, Provenance("", tags=SAID))
    assert made.values("staging")[1:3] == [2, 2]


def test_days_that_a_rollback_holds_are_not_released_while_they_are_closed(made: Planned) -> None:
    rollback = pytest.importorskip("backfill_assets.plans.rollback")
    made.chunk(1, (1, 2), 2)
    request, said = rollback.RollbackRequest(plan="p1", chunk="1"), Provenance("", tags=SAID)
    rollback.roll_back(made.lake, made.pipeline, request, said)
    close_tables(made.lake, made.pipeline, day(LAST), asked(as_they_are=True))
    assert made.of("staging", State.HELD) == []
    with pytest.raises(DaysHeld, match="closed"):
        rollback.release_days(made.lake, made.pipeline, request, said)
    reopen_tables(made.lake, made.pipeline, None, asked())
    assert made.of("staging", State.HELD) == [day(1), day(2)], "open again, they are held"
    rollback.release_days(made.lake, made.pipeline, request, said)
    assert made.of("staging", State.HELD) == []


def test_nothing_asks_for_a_closed_day_that_late_rows_would_change(made: Planned) -> None:
    close_first_days(made)
    land_late(made, event=2, rows=5)
    states = made.states()
    assert states.of("staging", day(2)) is State.CLOSED
    assert states.of_open("staging", day(2)) is State.STALE
    assert not rebuild_needs(states, {}).needed["staging"] & {*CLOSED}


def test_opened_again_what_came_late_makes_exactly_its_day_stale(made: Planned) -> None:
    close_first_days(made)
    land_late(made, event=2, rows=5)
    (staging, _) = reopen_tables(made.lake, made.pipeline, day(2), asked())
    assert (staging.before, staging.now) == (day(LAST), day(1))
    assert made.of("staging", State.CLOSED) == [day(0), day(1)]
    assert day(2) in rebuild_needs(made.states(), {}).needed["staging"]
    made.write("staging", {2: 7})
    assert made.values("staging")[2] == 7


def test_a_table_that_is_open_from_its_first_day_on_has_no_closure(made: Planned) -> None:
    close_first_days(made)
    reopen_tables(made.lake, made.pipeline, day(0), asked())
    assert made.view("staging").closure is None
    with pytest.raises(BackfillError, match=r"no day is closed\. Nothing was opened"):
        reopen_tables(made.lake, made.pipeline, None, asked())


def test_the_closure_outlives_the_process_and_the_kept_states_of_a_log(made: Planned) -> None:
    close_first_days(made)
    kept = made.view("staging").closure
    table, column = made.lake.table_place("staging"), made.contract("staging").day_column
    assert LogCache().state(table, column).closure == kept
    for value in range(KEEP_EVERY):
        made.write("staging", {LAST + 1: value + 2})
    LogCache().keep_newest_state(table, column)
    assert kept_versions(table)
    assert LogCache().state(table, column).closure == kept


def test_done_again_it_closes_what_is_left_and_nothing_twice(made: Planned) -> None:
    close_first_days(made, "staging")
    versions = made.view("staging").version
    moved = close_first_days(made)
    assert made.view("staging").version == versions
    assert next(str(m) for m in moved).endswith("already")
    assert made.of("features", State.CLOSED) == CLOSED


@pytest.mark.parametrize(
    ("until", "tables", "told"),
    [
        (day(LAST), ("raw",), "it holds what landed, by the day of arrival"),
        (day(LAST), ("nothing",), "there is no such table"),
        (utc_today(), (), "is not over yet"),
        (day(DAYS), ("staging",), "missing"),
        (day(LAST - 1), ("staging",), "which is later"),
    ],
    ids=["landed", "unknown", "today", "a missing day", "an earlier day"],
)
def test_what_cannot_be_closed_is_refused_and_nothing_is(
    made: Planned, until: date, tables: tuple[str, ...], told: str
) -> None:
    close_first_days(made, "staging")
    before = made.view("features").version, made.view("staging").version
    with pytest.raises(BackfillError, match=told) as error:
        close_tables(made.lake, made.pipeline, until, asked(*tables))
    assert "Nothing was closed" in str(error.value)
    assert (made.view("features").version, made.view("staging").version) == before


def test_stale_days_are_closed_only_as_they_are(made: Planned) -> None:
    land_late(made, event=2, rows=5)
    with pytest.raises(BackfillError, match=f"staging: {day(2)} is stale"):
        close_first_days(made, "staging")
    close_tables(made.lake, made.pipeline, day(LAST), asked("staging", as_they_are=True))
    assert made.of("staging", State.CLOSED) == CLOSED


def test_an_active_plan_is_finished_or_cancelled_first(made: Planned) -> None:
    plan = pytest.importorskip("backfill_assets.plans.plan")
    files = pytest.importorskip("backfill_assets.plans.files")
    policy = pytest.importorskip("backfill_assets.plans.policy").Policy(force=True)
    days = DayRange(day(2), day(4) + ONE_DAY)
    request = plan.PlanRequest(days, ("staging",), policy)
    kept = plan.make_plan(made.lake, made.pipeline, request)
    files.keep_plan(made.lake, kept)
    files.set_mark(made.lake, kept.id, "started")
    with pytest.raises(BackfillError, match=f"an active plan has {day(2)}..{day(LAST)}"):
        close_first_days(made)


def test_an_erasure_that_would_write_closed_days_names_them_and_erases_nothing(
    made: Planned,
) -> None:
    forget = pytest.importorskip("backfill_assets.erasure.forget")
    traces = pytest.importorskip("backfill_assets.erasure.traces")
    request = forget.ForgetRequest(
        made.lake, made.pipeline, traces.Trace({"entity": "A"}), "asked for"
    )
    held = request.look().held
    assert not [o for o in forget.erasure_obstacles(request, held) if "closed" in str(o)]
    close_first_days(made, "staging")
    (told,) = [o for o in forget.erasure_obstacles(request, held) if "closed" in str(o)]
    assert f"{LAST + 1} file(s) of staging that hold it" in str(told)
    assert "backfill-assets reopen --tables staging" in str(told)


def test_days_that_are_closed_while_a_chunk_of_a_plan_computes_are_left_alone_and_no_half_of_it_is(
    tmp_path: Path,
) -> None:
    """Who closes looks for active plans first; here that look came before the plan began."""
    planning = pytest.importorskip("backfill_assets_tests.planning")
    run_plan = pytest.importorskip("backfill_assets.plans.run").run_plan
    lake, pipeline = planning.bare_staging(tmp_path)
    plan = planning.planned(lake, pipeline)
    canary, chunk = (c.days for c in plan.chunks[:2])

    def closing_rows(of_day: date) -> list[dict[str, Any]]:
        """The rows of a day; while those of the chunk's last one are computed, its first one is
        closed."""
        if of_day == chunk.last:
            lake.store.commit_alone(
                closure_receipt("staging", chunk.start, "booked", SAID, opens=False)
            )
        rows: list[dict[str, Any]] = planning.good_rows(of_day)
        return rows

    worker = planning.HandWorker(lake, pipeline, rows=closing_rows)
    with pytest.raises(DaysHeld, match=f"{chunk.start} closed, with all days up to"):
        run_plan(lambda: (lake, pipeline), plan, worker)
    assert [*lake.store.view("staging", "event_date").latest] == [*canary], "no open day either"
    reopen_tables(lake, pipeline, None, asked("staging"))
    worker = planning.HandWorker(lake, pipeline)
    assert run_plan(lambda: (lake, pipeline), plan, worker).state == "finished"
    assert {*lake.store.view("staging", "event_date").latest} == {*plan.days}


@pytest.mark.parametrize(
    ("calendar", "closed_until"),
    [
        (DAILY, "2024-03-15"),
        (Calendar(Unit.MONTH), "2024-02-29"),
        (Calendar(Unit.WEEK), "2024-03-10"),
    ],
)
def test_of_periods_those_are_closed_that_are_over(calendar: Calendar, closed_until: str) -> None:
    contract = replace(STAGING, calendar=calendar)
    assert str(_last_of_whole(contract, date(2024, 3, 15))) == closed_until
    assert str(_last_of_whole(contract, date.fromisoformat(closed_until))) == closed_until
