"""Lab `mistakes`: four ways to spoil a backfill, each run and seen to fail beside the way that holds.

Not here: the same checks of a plan of one's own (`backfill.preflight`).
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb

from backfill_assets.backfill.plan import PlanRequest, cut, make_plan, refuse_append
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.labs.lakes import append, events, first_events, make_lake, replace_by_day, totals, with_control
from backfill_assets.labs.model import LabStep
from backfill_assets.lake.home import Lake
from backfill_assets.operations.reconcile import judge_controls
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.plans.policy import Policy

FIRST, DAYS = date(2024, 1, 1), 90
NOON, SPAN = datetime(2024, 1, 1, 12, tzinfo=UTC), DayRange(FIRST, FIRST + ONE_DAY * DAYS)
RIGHT = [100 + n for n in range(DAYS)]
BY_DAY = "SELECT event_date AS day, sum(value)::BIGINT AS value FROM {} GROUP BY 1"
SQL = {"now()": f"epoch_us(now()) - epoch_us(TIMESTAMP '{FIRST}')", "its day": f"DATE '{SPAN.last}' - DATE '{FIRST}'"}


def mistakes_steps(folder: Path) -> Iterator[LabStep]:
    """Commit the four mistakes on a lake of ninety days, an event each, whose sums by day and of all are known."""
    known = {str(FIRST + ONE_DAY * n): value for n, value in enumerate(RIGHT)}
    lake = with_control(make_lake(folder, FIRST), "each_day", BY_DAY, "day", known)
    for mistake in (_corrections, _one_huge_run, _totals_only):
        _write(lake, RIGHT)
        yield from mistake(lake)
    yield from _clock()


def _write(lake: Lake, values: Sequence[int], days: DayRange = SPAN) -> None:
    rows = events((NOON + timedelta(days=n), value) for n, value in enumerate(values))
    replace_by_day(lake, first_events(lake), [r for r in rows if r["event_date"] in days])


def _wrong(lake: Lake) -> int:
    return judge_controls(lake, chosen_pipeline(lake))[0].broken


def _corrections(lake: Lake) -> Iterator[LabStep]:
    append(lake, first_events(lake), events([(NOON, RIGHT[0] - 20)], "again"))
    found, right = totals(lake, first_events(lake)).total(), sum(RIGHT) - 20
    text = "An event of 100 is corrected to 80. Who appends the correction counts both; who replaces the day does not."
    yield LabStep("Append for corrections", text, form="the sum after an append", expected=right, found=found)
    _write(lake, [RIGHT[0] - 20, *RIGHT[1:]])
    found = totals(lake, first_events(lake)).total()
    yield LabStep("", str(refuse_append()), form="the sum after a replace", expected=right, found=found)


def _one_huge_run(lake: Lake) -> Iterator[LabStep]:
    text, cents = "A release gives cents. One run rebuilds ninety days before anybody looks.", [v * 100 for v in RIGHT]
    _write(lake, cents)
    yield LabStep("One huge run", text, form="wrong days of one run", expected=1, found=_wrong(lake))
    _write(lake, RIGHT)
    for chunk in cut(SPAN, Policy(chunk="7d")):
        _write(lake, cents, chunk.days)
        if found := _wrong(lake):
            break
    refusal, request = "", PlanRequest(SPAN, (first_events(lake).name,), Policy(chunk="90d"))
    try:
        make_plan(lake, chosen_pipeline(lake), request)
    except BackfillError as error:
        refusal = str(error)
    yield LabStep("", f"A plan stops after its canary. {refusal}", form="wrong days of a plan", expected=1, found=found)


def _totals_only(lake: Lake) -> Iterator[LabStep]:
    _write(lake, [RIGHT[1], RIGHT[0], *RIGHT[2:]])
    found = 0 if totals(lake, first_events(lake)).total() == sum(RIGHT) else 2
    text = "A time zone moved the rows of two days. The sum of all days is what it was."
    yield LabStep("Totals only", text, form="wrong days by the total", expected=2, found=found)
    yield LabStep("", form="wrong days by the sums of each day", expected=2, found=_wrong(lake))


def _clock() -> Iterator[LabStep]:
    why = "The load refuses such a transform before it runs, and names the call."
    for by, sql in SQL.items():
        found = []
        for _ in range(2):
            with closing(duckdb.connect()) as engine:
                found += [age for (age,) in engine.execute(f"SELECT {sql}").fetchall()]
        title, text = ("now() in a transform", why) if by == "now()" else ("", "Days and times come from the chunk.")
        yield LabStep(title, text, form=f"an age by {by}, computed again", expected=found[0], found=found[1])


STEPS = {"mistakes": mistakes_steps}
