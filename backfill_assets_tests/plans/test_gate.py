"""A failed gate: a faulty transform in chunk 4, what stands then and what does not, and what is
said of it.

Tested here: `plans.gate` behind `run_plan`, with a worker that writes without an engine and
without the checks that would have refused some of these rows before. Not tested here: the order of
chunks (`plans/test_run.py`).
"""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.candidates.candidates import create_candidate
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import record_acceptance
from backfill_assets.plans.gate import gate_findings
from backfill_assets.plans.gates import refuse_bound
from backfill_assets.plans.model import PLAN_REASON, Plan
from backfill_assets.plans.policy import Tolerances
from backfill_assets.plans.progress import ChunkState, Progress, read_progress
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.work import ChunkWork, make_chunk_here
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planning import (
    DAYS,
    ROWS,
    HandWorker,
    Transform,
    bare_staging,
    good_rows,
    planned,
    write_by_hand,
)
from backfill_assets_tests.synthetic import START

pytestmark = pytest.mark.usefixtures("storages")
Rows = list[dict[str, Any]]
BAD = date(2024, 3, 3)  # in chunk 4 of 2 days each, behind a canary of one


def corrected(day: date) -> Rows:
    """What the plan is there for: the values stood at the wrong events. No column drifts by it."""
    return [row | {"value": (row["value"] + 1) % ROWS} for row in good_rows(day)]


def _doubled(rows: Rows) -> Rows:
    return rows * 2


def _without_entity(rows: Rows) -> Rows:
    return [row | {"entity": None} for row in rows]


def _more(rows: Rows) -> Rows:
    return [row | {"value": row["value"] + 10} for row in rows]


def _spread(rows: Rows) -> Rows:
    """The same number of rows, the same sum, and so the same mean."""
    total, (first, *others) = sum(row["value"] for row in rows), rows
    return [first | {"value": total}, *(row | {"value": 0} for row in others)]


@pytest.mark.parametrize(
    ("fault", "figures"),
    [
        (_doubled, "staging 2024-03-03 unique_key: 30 row(s) repeat a key"),
        (
            _without_entity,
            "staging 2024-03-03 profile: 100% of entity is NULL, usually 0% (max_null_jump = 0.2)",
        ),
        (_more, "staging 2024-03-03 means: the mean of value was 14.5, is 24.5 (69%, allowed 30%)"),
        (
            _spread,
            "staging 2024-03-03 profile: the values of value drifted: population stability index",
        ),
    ],
    ids=["duplicates", "a NULL spike", "a shift of a day", "a shift whose totals match"],
)
def test_a_fault_in_chunk_4_stops_there_is_put_back_and_named_by_day_column_and_figures(
    tmp_path: Path, fault: Callable[[Rows], Rows], figures: str
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    staging, contract = lake.table_place("staging").local(), pipeline.table("staging").contract
    old = {d: p.fingerprint for d, p in audit_table(lake, contract).items() if d is not None}
    bounds = Tolerances(rows=None, means=0.3, drift=0.25)
    plan = planned(lake, pipeline, chunk="2d", tolerances=bounds, on_failure="rollback")
    fourth = plan.chunk(4)
    assert BAD in fourth.days
    by = HandWorker(
        lake, pipeline, lambda day: fault(corrected(day)) if day == BAD else corrected(day)
    )
    with pytest.raises(BackfillError) as refused:
        run_plan(lambda: (lake, pipeline), plan, by)
    assert f"the gate of chunk 4 ({fourth.days})" in str(refused.value)
    assert figures in str(refused.value)
    assert "was put back and is held" in str(refused.value)
    now = {d: p.fingerprint for d, p in audit_table(lake, contract).items() if d is not None}
    assert {d for d in now if now[d] != old[d]} == {
        d for n in (1, 2, 3) for d in plan.chunk(n).days
    }
    assert [c.state for c in read_progress(lake, pipeline, plan).chunks][:5] == [
        *[ChunkState.DONE] * 3,
        ChunkState.HELD,
        ChunkState.PENDING,
    ]
    before = versions(staging)
    with pytest.raises(
        BackfillError, match=r"a rollback put back and holds 2024-03-02..2024-03-03 of staging"
    ):
        run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline, corrected))
    assert versions(staging) == before


@pytest.mark.parametrize(
    ("fault", "figures"),
    [
        (lambda rows: rows[:10], "30 rows before, 10 now"),
        (_without_entity, "100% of entity is NULL, usually 0%"),
        (_more, "the mean of value was 14.5, is 24.5"),
        (lambda rows: rows[:29], "expected staging.rows ±0: 30 before, 29 now"),
    ],
)
def test_a_candidate_is_held_against_the_lake(
    tmp_path: Path, fault: Callable[[Rows], Rows], figures: str
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    candidate, days = (
        create_candidate(lake, pipeline, "v2", ["staging"], lambda path: (path,)),
        DayRange(START, BAD),
    )
    by = HandWorker(candidate, pipeline, lambda day: fault(good_rows(day)))
    write_by_hand(candidate, pipeline, days, by.rows)
    bounds = Tolerances(rows=0.5, means=0.3)
    plan = planned(candidate, pipeline, days, tolerances=bounds, expect=("staging.rows ±0",))
    with pytest.raises(BackfillError) as refused:
        run_plan(lambda: (candidate, pipeline), plan, by)
    assert figures in str(refused.value)


def test_without_rollback_the_chunk_stays_until_someone_has_looked(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    plan = planned(lake, pipeline, chunk="2d")

    def doubled(day: date) -> Rows:
        return corrected(day) * (2 if day == BAD else 1)

    for _ in range(2):  # the gate is judged anew by every run
        with pytest.raises(
            BackfillError, match=f"go on with `backfill-assets run {plan.id} --accept 4`"
        ):
            run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline, doubled))
    by = HandWorker(lake, pipeline, corrected)
    run_plan(lambda: (lake, pipeline), plan, by, accepted=4)
    assert by.told[0] == f"made {plan.chunk(5).days}"


def test_a_day_that_another_write_rebuilt_since_is_not_held_against_the_chunk(
    tmp_path: Path,
) -> None:
    """A killed plan that goes on may rebuild days of its boundary chunk with an earlier one."""
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    plan = planned(lake, pipeline, chunk="2d")
    second, third = plan.chunk(2), plan.chunk(3)
    tags = ChunkWork(plan, second, plan.tables, second.days).tags
    write_by_hand(
        lake, pipeline, DayRange(second.days.start, third.days.end), corrected, PLAN_REASON, tags
    )
    tags = ChunkWork(plan, third, plan.tables, third.days).tags
    write_by_hand(lake, pipeline, third.days, lambda day: _more(corrected(day)), PLAN_REASON, tags)
    now = read_progress(lake, pipeline, plan)
    assert now.writes["staging"].chunks[2].after.keys() > set(second.days), (
        "the chunk wrote days that it does not hold any more"
    )
    assert gate_findings(lake, pipeline, second, now) == []


def chunk_wrote(
    lake: Lake, pipeline: Pipeline, plan: Plan, number: int, days: DayRange, rows: Transform
) -> Progress:
    """Days written in the name of a chunk, and the plan's progress after that."""
    write_by_hand(
        lake,
        pipeline,
        days,
        rows,
        PLAN_REASON,
        ChunkWork(plan, plan.chunk(number), plan.tables, days).tags,
    )
    return read_progress(lake, pipeline, plan)


STRICT = Tolerances(rows=0.5, nulls=0.0, means=0.3, drift=0.25)


def unfinished(day: date) -> Rows:
    """What a chunk makes of a day whose inputs another chunk at once has not made yet."""
    return [row | {"entity": None, "value": 900} for row in good_rows(day)[:25]]


def test_a_plan_over_days_that_were_never_loaded_compares_nothing_with_its_own_unfinished_rows(
    tmp_path: Path,
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline, chunk="2d", tolerances=STRICT)
    third, last = plan.chunk(3), plan.chunks[-1]
    chunk_wrote(lake, pipeline, plan, 3, third.days, lambda day: unfinished(day)[:1])
    chunk_wrote(
        lake,
        pipeline,
        plan,
        last.number,
        DayRange(third.days.start, third.days.start + ONE_DAY),
        unfinished,
    )
    now = chunk_wrote(lake, pipeline, plan, last.number, third.days, good_rows)
    assert gate_findings(lake, pipeline, last, now) == []


def test_a_boundary_chunk_is_compared_with_the_days_before_the_plan(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    plan = planned(lake, pipeline, chunk="2d", tolerances=STRICT.model_copy(update={"drift": None}))
    third, last = plan.chunk(3), plan.chunks[-1]
    chunk_wrote(lake, pipeline, plan, 3, third.days, unfinished)
    now = chunk_wrote(
        lake, pipeline, plan, last.number, third.days, lambda day: _more(good_rows(day))
    )
    found = gate_findings(lake, pipeline, last, now)
    assert [f.message for f in found] == [
        "the mean of value was 14.5, is 24.5 (69%, allowed 30%)"
    ] * 2
    now = chunk_wrote(
        lake, pipeline, plan, last.number, third.days, lambda day: good_rows(day)[:12]
    )
    assert [f.message for f in gate_findings(lake, pipeline, last, now)] == [
        "30 rows before, 12 now (60%, allowed 50%)"
    ] * 2


def test_a_bound_that_a_person_lifted_stops_no_later_chunk_and_the_plan_says_why(
    tmp_path: Path,
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    plan, by = (
        planned(lake, pipeline),
        HandWorker(lake, pipeline, lambda day: _without_entity(good_rows(day))),
    )
    with pytest.raises(BackfillError) as refused:
        run_plan(lambda: (lake, pipeline), plan, by)
    bound = "staging.entity.max_null_jump"
    lift = (
        f"or lift these bounds for all chunks with `backfill-assets run {plan.id} --accept "
        f"{bound} --reason WHY`"
    )
    assert lift in str(refused.value)
    record_acceptance(lake, plan, [bound], "entities are gone by law")
    done = run_plan(lambda: (lake, pipeline), plan, by)
    assert done.state == "finished"
    (accepted,) = done.accepted
    assert str(accepted).startswith(f"{bound} accepted by ")
    assert str(accepted).endswith(": entities are gone by law")
    notes: list[str] = []

    def make(work: Work) -> str:
        notes.append(work.note)
        return ""

    again = planned(lake, pipeline, force=True)
    record_acceptance(lake, again, ["chunk 1"], "")
    record_acceptance(lake, again, [bound], "law")
    make_chunk_here(
        lambda: (lake, pipeline),
        ChunkWork(again, again.chunk(1), again.tables, again.chunk(1).days),
        make,
    )
    assert [note.partition(" by ")[0] for note in notes] == [f"tests; {bound} accepted"], (
        "receipts have it in their note"
    )


@pytest.mark.parametrize(
    "name", ["staging", "staging.max_null_jump", "staging.nix.max_drift", "raw.max_row_change"]
)
def test_what_is_no_bound_of_a_plan_cannot_be_lifted(tmp_path: Path, name: str) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    refuse_bound(plan, pipeline.contracts, "staging.max_row_change")
    with pytest.raises(BackfillError, match="is no bound of its gates that can be lifted"):
        refuse_bound(plan, pipeline.contracts, name)
