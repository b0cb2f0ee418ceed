"""Making plans: which days are written and why, what follows outside the range, what it costs, and
what is refused.

Tested here: `plans.plan` with its parts and the impact of a plan, on lakes without an engine.
Not tested here: running one (`test_run.py`), finding rows that move (`plans.test_moves`).
"""

from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.files import find_plan, keep_plan, plan_ids
from backfill_assets.plans.model import (
    ChunkKind,
    DayMove,
    Plan,
    PlanLook,
    Price,
    parse_plan,
    plan_json,
)
from backfill_assets.plans.plan import (
    TEMPLATES,
    PlanRequest,
    cut_chunks,
    impacts,
    make_plan,
    plan_look,
    price_of,
)
from backfill_assets.plans.plan_page import look_lines, look_rows
from backfill_assets.plans.policy import Order, Policy
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planning import impact_on, planned, versions_of
from backfill_assets_tests.synthetic import START, Made, build, synthetic_lake


def day(number: int) -> date:
    """The lake's day of that number."""
    return START + ONE_DAY * number


def made(
    lake: Made, first: int, end: int, *names: str, policy: Policy | None = None, most_days: int = 31
) -> Plan:
    """A plan of these days; nothing is kept."""
    days = DayRange(day(first), day(end))
    return make_plan(*lake, PlanRequest(days, names, policy or Policy(), most_days=most_days))


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    """Twelve days, all fresh; windows of two and three days, a horizon of two."""
    return synthetic_lake(tmp_path / "lake", 12)


def test_stale_days_are_written_and_windows_carry_them_beyond_the_range(lake: Made) -> None:
    build(*lake, "staging", {day(4): 3, day(5): 3}, digests={day(4): "older", day(5): "older"})
    plan = made(lake, 4, 6, "staging", "features")
    staging, features = impact_on(plan, "staging"), impact_on(plan, "features")
    assert staging.write == {"stale": (DayRange(day(4), day(6)),)}
    assert staging.reads == {"raw": (DayRange(day(4), day(6)),)}
    assert features.days() == {day(4), day(5)}
    assert features.reads["staging"] == (DayRange(day(2), day(6)),)
    # A trailing window of three days: the two days after the last one follow, and nothing makes
    # them in this plan.
    written = {d for i in plan.impacts for d in i.days() if i.table == "features"}
    follows = {d for span in features.follows for d in span}
    assert follows | written >= {day(4), day(5), day(6), day(7)}
    assert not follows & written
    labels = {d for span in impact_on(plan, "labels").follows for d in span}
    assert {day(2), day(3)} <= labels  # a horizon looks ahead: days before the range follow, too


def test_other_code_makes_days_outdated_and_force_makes_all(lake: Made) -> None:
    there, pipeline = lake
    other = replace(pipeline.codes["staging"], code_digest="other")
    changed = replace(pipeline, codes={**pipeline.codes, "staging": other})
    assert impact_on(made((there, changed), 3, 6, "staging"), "staging").write == {
        "outdated": (DayRange(day(3), day(6)),)
    }
    forced = made(lake, 3, 6, "staging", policy=Policy(force=True))
    assert impact_on(forced, "staging").write == {"forced": (DayRange(day(3), day(6)),)}


def test_a_price_without_past_writes_is_a_guess_and_past_writes_teach_it(lake: Made) -> None:
    guess = made(lake, 0, 6, "staging", policy=Policy(force=True, canary=0)).prices[1]
    assert guess.writes == 0
    path = lake[0].table_place("staging").local()
    for _ in range(10):
        entries = {day(n): DayEntry(3, "F1", "digest") for n in range(6)}
        make_commit(
            path,
            len(versions(path)),
            Receipt(f"w{len(versions(path))}", "staging", "manual", entries, seconds=30),
        )
    learnt = made(lake, 0, 6, "staging", policy=Policy(force=True, canary=0)).prices[1]
    assert learnt.writes > 0
    assert learnt.least < 30 < learnt.most < 60
    assert learnt.rows == 18


def test_a_kept_plan_is_found_by_the_beginning_of_its_id_as_it_was_made(lake: Made) -> None:
    plan = made(lake, 3, 6, "staging", policy=Policy(force=True))
    keep_plan(lake[0], plan)
    assert find_plan(lake[0], plan.id[:-2]) == plan
    assert plan_ids(lake[0]) == [plan.id]
    with pytest.raises(BackfillError, match="this lake has no such plan"):
        find_plan(lake[0], "../lake")


def test_the_preflight_fails_where_an_input_was_never_made(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 6)
    days = DayRange(day(3), day(9))
    plan = make_plan(lake, pipeline, PlanRequest(days, ("features",), Policy()))
    (failed,) = [t for t in plan.preflight if not t.passed]
    assert failed.name == "inputs present"
    assert f"staging {day(6)}..{day(8)}" in failed.told
    both = make_plan(lake, pipeline, PlanRequest(days, ("staging", "features"), Policy()))
    assert all(t.passed for t in both.preflight)


@pytest.mark.parametrize(
    ("policy", "tables", "most_days", "told"),
    [
        (
            Policy(chunk="12d", canary=0),
            ["staging"],
            7,
            "12 days in one run are more than 7.*--max-chunk-days 12",
        ),
        (Policy(keep_removed=True), ["staging"], 31, "an overwrite keeps no row of a day"),
        (Policy(chunk="fortnight"), ["staging"], 31, "is no size"),
        (Policy(canary_days=DayRange(day(12), day(13))), ["staging"], 31, "is not within the days"),
        (
            Policy(write_mode="merge"),
            ["raw", "staging"],
            31,
            r"the table raw: its days cannot be merged: .* \(--tables staging",
        ),
    ],
)
def test_what_is_unsafe_is_refused(
    lake: Made, policy: Policy, tables: list[str], most_days: int, told: str
) -> None:
    before = versions_of(lake[0])
    with pytest.raises(BackfillError, match=told):
        made(lake, 0, 12, *tables, policy=policy, most_days=most_days)
    assert versions_of(lake[0]) == before


def test_every_template_begins_with_a_canary() -> None:
    assert all(policy.canary >= 1 and policy.template == name for name, policy in TEMPLATES.items())


def wrote(
    version: int, days: int, seconds: float, cpu: float | None = None, **more: Any
) -> Receipt:
    """The receipt of so many days of ten rows."""
    entries = {day(n): DayEntry(10, "F", "d") for n in range(days)}
    return Receipt(
        f"w{version}", "staging", "manual", entries, seconds=seconds, cpu_seconds=cpu, **more
    )


@given(st.lists(st.tuples(st.integers(1, 600), st.floats(1.0, 900.0)), min_size=1, max_size=40))
def test_a_price_is_the_seconds_per_day_of_past_writes_times_the_days(
    writes: list[tuple[int, float]],
) -> None:
    past = [wrote(n, *write, bytes=800) for n, write in enumerate(writes)]
    prices = [price_of(past, days) for days, _ in writes]
    assert sum(p.seconds for p in prices) == pytest.approx(sum(seconds for _, seconds in writes))
    assert sum(p.rows for p in prices) == 10 * sum(days for days, _ in writes)
    assert all(p.least < p.seconds < p.most for p in prices)
    assert price_of(past, sum(days for days, _ in writes)).bytes == 800 * len(writes)


def test_a_wait_for_an_engine_has_no_price_and_processors_have_one_where_all_receipts_name_them() -> (
    None
):
    assert price_of([wrote(0, 7, 78.0, start_seconds=70.0)], 7).seconds == pytest.approx(8.0)
    assert price_of([wrote(n, 2, 4.0) for n in range(9)], 2).cpu is None
    priced = price_of([wrote(n, 2, 4.0, 6.0) for n in range(9)], 2)
    assert priced.cpu == pytest.approx(6.0)
    assert Price.total([priced, priced]).cpu == pytest.approx(12.0)


units = st.sampled_from(("week", "month", "1d", "7", "7d", "30d"))
orders = st.sampled_from(("ascending", "newest-first"))
spans = st.builds(
    lambda s, n: DayRange(s, s + ONE_DAY * n),
    st.dates(date(2020, 1, 1), date(2025, 1, 1)),
    st.integers(1, 200),
)


@given(spans, units, st.integers(0, 5), orders)
def test_chunks_hold_every_day_once_the_canary_first_and_the_boundary_chunk_last(
    days: DayRange, unit: str, canary: int, order: Order
) -> None:
    chunks = cut_chunks(days, Policy(chunk=unit, canary=canary, order=order))
    worked = [c for c in chunks if c.kind is not ChunkKind.BOUNDARY]
    assert sorted(d for c in worked for d in c.days) == list(days)
    assert [c.number for c in chunks] == list(range(1, len(chunks) + 1))
    for one, other in pairwise(worked):
        first, second = (one, other) if order == "ascending" else (other, one)
        assert first.days.end == second.days.start
    assert (chunks[0].kind is ChunkKind.CANARY) == (canary > 0)
    assert canary == 0 or len(chunks[0].days) == min(canary, len(days))
    assert [c.kind is ChunkKind.BOUNDARY for c in chunks] == [False] * len(worked) + [True] * (
        len(worked) > 1
    )


@given(spans, units, st.integers(0, 199), st.integers(1, 5), orders)
def test_a_canary_within_leaves_whole_ones(
    days: DayRange, unit: str, begin: int, length: int, order: Order
) -> None:
    first = days.start + ONE_DAY * (begin % len(days))
    canary = DayRange(first, min(days.end, first + ONE_DAY * length))
    chunks = cut_chunks(
        days, Policy(chunk=unit, canary=len(canary), order=order, canary_days=canary)
    )
    worked = [c for c in chunks if c.kind is not ChunkKind.BOUNDARY]
    assert (chunks[0].kind, chunks[0].days) == (ChunkKind.CANARY, canary)
    assert sorted(d for c in worked for d in c.days) == list(days)
    assert [c.number for c in chunks] == list(range(1, len(chunks) + 1))


def test_the_look_knows_the_day_on_which_most_rows_of_the_planned_tables_move() -> None:
    moves = [
        DayMove("raw", day(1), 9, 0, 0),
        DayMove("staging", day(2), 1, 1, 0),
        DayMove("staging", day(3), 0, 0, 3),
        DayMove("staging", day(8), 0, 0, 99),
    ]
    look, days = PlanLook(tuple(moves)), DayRange(day(0), day(5))
    found = [
        look.most_changed(days, tables)
        for tables in (["staging"], ["raw", "staging"], ["features"])
    ]
    assert found == [DayRange(day(n), day(n + 1)) for n in (3, 1, 1)]
    assert PlanLook().most_changed(days, ["staging"]) is None


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    days = DayRange(date(2024, 2, 28), date(2024, 3, 12))
    weeks = [str(c.days) for c in cut_chunks(days, Policy(chunk="week", canary=0))]
    assert weeks[:3] == ["2024-02-28..2024-03-03", "2024-03-04..2024-03-10", "2024-03-11"]
    months = [str(c.days) for c in cut_chunks(days, Policy(chunk="month", canary=0))]
    assert months[:2] == ["2024-02-28..2024-02-29", "2024-03-01..2024-03-11"]


@pytest.mark.parametrize("unit", ["", "0", "-1d", "seven", "1.5d", "٣"])
def test_a_unit_that_is_no_size_is_refused(unit: str) -> None:
    with pytest.raises(BackfillError, match="is no size"):
        cut_chunks(DayRange(date(2024, 3, 1), date(2024, 3, 8)), Policy(chunk=unit))


def test_a_label_that_became_mature_since_is_told_as_matured(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    day = START + ONE_DAY * 3
    build(lake, pipeline, "labels", {day: 3}, digests={day: "of before"})
    states = pipeline.states(read_view(lake, pipeline.contracts))
    now, latest = states.frontier("labels"), states.view.table("labels").latest
    assert now is not None
    for frontier, why in ((now - timedelta(days=8), "matured"), (now, "stale")):
        written = replace(
            states.view.table("labels"),
            latest={**latest, day: replace(latest[day], frontier=frontier)},
        )
        then = pipeline.states(
            replace(states.view, tables={**states.view.tables, "labels": written})
        )
        (found,) = impacts(then, ("labels",), DayRange(day, day + ONE_DAY), Policy())[:1]
        assert list(found.write) == [why]


def test_days_that_gain_rows_beyond_the_range_and_what_follows_are_kept_and_told(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 12)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    moves = [DayMove("raw", START, 0, 0, 3), DayMove("staging", START + 5 * ONE_DAY, 2, 0, 0)]
    look = plan_look(states, moves)
    assert look.follows["features"] == (DayRange(START + 5 * ONE_DAY, START + 8 * ONE_DAY),)
    days = DayRange(START, START + 3 * ONE_DAY)
    plan = replace(planned(lake, pipeline, days), look=look)
    assert parse_plan(plan_json(plan)).look == look
    assert look_rows(look, days) == [["staging", str(START + 5 * ONE_DAY), "+2", "-0", "0", "no"]]
    told = "\n".join(look_lines(look, days))
    assert f"beyond the range: {START + 5 * ONE_DAY} gain or lose rows too" in told
    assert f"plan --from {START} --to {START + 5 * ONE_DAY}" in told
    assert (
        "look: raw: 0 day(s) gain or lose rows (+0 -0), 3 row(s) on 1 day(s) change content: "
        f"{START}" in told
    )
