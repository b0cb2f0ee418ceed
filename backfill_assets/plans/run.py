"""Runs a plan chunk by chunk with a gate after each, from wherever it stood when it last ended or
was killed.

Elsewhere: the runs that make days, which the caller hands in as a `Worker`, chunks at once
(`work`), and how far a plan is (`plans.progress`). Nothing is remembered between waves: receipts
are read again.
"""

from collections.abc import Collection, Sequence
from datetime import date
from itertools import groupby
from typing import Protocol

from backfill_assets.kernel.core.days import DayRange, inclusive_range, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.expect import judge_expectations
from backfill_assets.plans.files import (
    CANCELLED,
    CONTROLS,
    FINISHED,
    HOLDS,
    marking_stops,
    only_runner,
    plan_lock,
    plan_state,
    refuse_overlap,
    remove_mark,
    set_mark,
)
from backfill_assets.plans.gate import accept_chunk, gate_findings, gate_refusal, is_accepted
from backfill_assets.plans.gates import GateFinding
from backfill_assets.plans.model import ChunkKind, Plan, PlanChunk
from backfill_assets.plans.pace import Pace
from backfill_assets.plans.preflight import refuse_moved_pins, stop_if_requested
from backfill_assets.plans.progress import ChunkState, Progress, read_progress
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets.plans.work import ChunkWork, Opener
from backfill_assets.reading.outcomes import judge_all_controls

MOST_TIMES = 3  # runs of a chunk: more may land for its days while one is at work


class Worker(Protocol):
    """Rebuilds the days of chunks and reports progress."""

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """Rebuild the days of each work; return per work the cause of its failure or ''."""

    def report(self, line: str) -> None:
        """Show that a chunk starts or goes on, or that its gate is passed."""


def run_plan(
    open_lake: Opener, plan: Plan, worker: Worker, accepted: int = 0, pace: Pace | None = None
) -> Progress:
    """Run the plan's remaining chunks and return its progress: finished, paused or waiting; or
    still active, where no chunk may begin yet and its `pace` (None: a runner's in Dagster) does not
    wait.

    `accepted` is a chunk whose gate is skipped, because a person has looked. Raises BackfillError
    if the plan may not run, a run fails (after the retries that the plan allows) or a gate refuses;
    the plan's mark `stopped` then says why, and no sensor goes on with it. A kill leaves no mark.
    """
    lake, pipeline = open_lake()
    pace = pace or Pace()
    paced = pace.for_first_chunk()
    with only_runner(lake, plan):
        if not activate_plan(lake, pipeline, plan):
            worker.report(f"plan {plan.id} is finished: nothing was left to run")
            return read_progress(lake, pipeline, plan)
        with marking_stops(lake, plan):
            for wave in plan.waves():
                if not _may_begin((lake, pipeline), plan, wave, worker, paced):
                    break
                if _run_wave(open_lake, plan, wave, worker, accepted):
                    paced = pace
                stop_if_requested(lake, plan, wave)
            else:
                set_mark(lake, plan.id, "ended", FINISHED)
    return read_progress(*open_lake(), plan)


def _may_go_on(lake: Lake, plan: Plan) -> bool:
    """Whether nobody paused, stopped or cancelled the plan meanwhile. A finished plan runs again
    once a chunk of it was rolled back and released."""
    return plan_state(lake, plan) in ("active", FINISHED)


def _may_begin(
    opened: tuple[Lake, Pipeline], plan: Plan, wave: Sequence[PlanChunk], worker: Worker, pace: Pace
) -> bool:
    """Wait until these chunks may begin, at their pace; not at all where none is left to make.
    Returns False where the plan is held, or the pace is that of a runner that does not wait."""
    lake, told = opened[0], ""
    while True:
        if not _may_go_on(lake, plan):
            return False
        wait = pace.wait_for(lake, plan)
        if wait is None or not _chunks_to_make(read_progress(*opened, plan), wave):
            return True
        if wait.message != told:
            told = wait.message
            worker.report(f"plan {plan.id} {told}")
        if not pace.rest(wait.seconds):
            return False


def activate_plan(lake: Lake, pipeline: Pipeline, plan: Plan) -> bool:
    """Make the plan active without running it, so that sensors and other plans leave its days to
    it; this process or the daemon's sensor `plans` runs it then.

    Returns whether anything is left to run; a finished plan is not changed. Raises BackfillError if
    it may not run.
    """
    with plan_lock(lake):  # two plans that start at once see each other
        current = read_progress(lake, pipeline, plan)
        if current.state == FINISHED and current.is_done:
            return False
        _refuse_unready(lake, pipeline, current)
        broken = judge_all_controls(lake, pipeline) if current.state == "new" else ()
        # Later starts keep the first mark, and with it the controls from before the first write.
        broken_values = {outcome.name: outcome.broken for outcome in broken}
        set_mark(lake, plan.id, "started", plan.user, **{CONTROLS: broken_values})
        remove_mark(lake, plan.id, "stopped")
    return True


def _refuse_unready(lake: Lake, pipeline: Pipeline, current: Progress) -> None:
    """Raise if the plan is cancelled, paused or waiting, its preflight failed, another active plan
    has its days, or a pin holds no longer. Changes nothing."""
    plan, nothing = current.plan, "Nothing was run"
    if current.state == CANCELLED:
        raise plan.error(
            f"it is {current.state}", nothing, "Make a new plan: `backfill-assets plan`"
        )
    if current.state in HOLDS:
        fix = f"Go on with `backfill-assets {current.going_on}`"
        raise plan.error(f"it is {current.state} ({current.why})", nothing, fix)
    for tick in plan.failed_ticks:
        raise plan.error(
            f"its preflight failed: {tick.name}: {tick.told}",
            nothing,
            "Correct that and plan again",
        )
    refuse_overlap(lake, plan)
    refuse_moved_pins(plan, lake, pipeline, current.states)


def _run_wave(
    open_lake: Opener, plan: Plan, wave: Sequence[PlanChunk], worker: Worker, accepted: int
) -> bool:
    """Rebuild the remaining days of a wave's chunks, let readers see them, then judge each chunk
    whose gate is neither passed nor skipped by a person; `accepted`: the number of a chunk whose
    content a person accepts now (0: none). Returns whether any day was left to make.

    Readers see rows before this gate, and keep them where it refuses, unless the plan's policy puts
    the chunk back: the run that makes a chunk shows it already. What may not be read at all is
    refused before it is committed (`kernel.write.gates`).
    """
    lake, pipeline = open_lake()
    current = read_progress(lake, pipeline, plan)
    refuse_moved_pins(plan, lake, pipeline, current.states)
    todo = _chunks_to_make(current, wave)
    for chunk in todo:
        _report_begin(current, chunk, worker)
    if todo:
        current = _make_whole(open_lake, plan, todo, worker)
        numbers = ", ".join(str(chunk.number) for chunk in todo)
        # The runs have shown this as they ended, except what a killed one left.
        record_versions(lake, pipeline.contracts, f"plan {plan.id}, chunk {numbers}")
    for chunk in wave:
        if chunk.number == accepted:
            accept_chunk(lake, pipeline, chunk, current)
            continue
        is_passed = current.gate_is_passed(chunk) or is_accepted(lake, chunk, current)
        if not is_passed:
            _judge_gate(lake, pipeline, chunk, current, worker)
            worker.report(f"chunk {chunk.number}: gate passed")
    return bool(todo)


def _chunks_to_make(current: Progress, wave: Sequence[PlanChunk]) -> list[PlanChunk]:
    """The chunks of a wave that are not done. Raises BackfillError for one that a rollback
    holds."""
    found = []
    for chunk in wave:
        state = current.chunks[chunk.number - 1].state
        if state is ChunkState.HELD:
            raise _held_error(current, chunk)
        if state is not ChunkState.DONE:
            found.append(chunk)
    return found


def _report_begin(current: Progress, chunk: PlanChunk, worker: Worker) -> None:
    """Report that a chunk starts, and the seconds left for it and all later ones."""
    kind = "" if chunk.kind is ChunkKind.CHUNK else f"{chunk.kind.shown} "
    estimate = f"about {current.seconds_left(chunk):.0f} s left"
    chunks = len(current.plan.chunks)
    worker.report(f"chunk {chunk.number} of {chunks} ({kind}{chunk.days}): {estimate}")


def _judge_gate(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress, worker: Worker
) -> None:
    """Raise if the gate of a chunk finds something, after rolling it back if the plan says so."""
    plan, findings = current.plan, gate_findings(lake, pipeline, chunk, current)
    for judged in judge_expectations(lake, pipeline, chunk, current):
        worker.report(f"chunk {chunk.number}: {judged}")
        if not judged.holds:
            table = judged.expected.table
            findings.append(GateFinding(table, day=None, rule="expectation", message=str(judged)))
    if not findings:
        return
    put_back, failed = False, ""
    if plan.policy.on_failure == "rollback":
        try:
            put_back = _put_chunk_back(lake, pipeline, plan, chunk)
        except (BackfillError, OSError) as error:  # the gate's finding is why the plan stops
            failed = str(error)
    raise gate_refusal(plan, chunk, findings, put_back, failed)


def _put_chunk_back(lake: Lake, pipeline: Pipeline, plan: Plan, chunk: PlanChunk) -> bool:
    """Roll a chunk back; whether anything was put back."""
    request = RollbackRequest(plan=plan.id, chunk=str(chunk.number), note="its gate refused")
    provenance = Provenance("", tags={BY: whoami()})
    return roll_back(lake, pipeline, request, provenance).is_done


def _make_whole(
    open_lake: Opener, plan: Plan, chunks: Sequence[PlanChunk], worker: Worker
) -> Progress:
    """Rebuild chunks, and again the days that became stale during the run, by late data or by a
    chunk run at the same time; a plan with a boundary chunk leaves the latter to it. Raises
    BackfillError if days remain after `MOST_TIMES` runs."""
    unfinished = [*chunks]
    for _ in range(MOST_TIMES):
        _make_chunks(open_lake, plan, unfinished, worker)
        current = read_progress(*open_lake(), plan)
        unfinished = [c for c in unfinished if _days_left(current, c)]
        if not unfinished:
            return current
    left = _days_left(current, unfinished[0])
    undone = ", ".join(f"{table} {ranges_text(days)}" for table, days in left.items())
    raise _chunk_error(
        plan,
        unfinished[0],
        f"its runs ended well, {MOST_TIMES} times, but {undone} is still to be made",
        f"See `backfill-assets status`; `backfill-assets run {plan.id}` goes on where it stood",
    )


def _make_chunks(
    open_lake: Opener, plan: Plan, chunks: Sequence[PlanChunk], worker: Worker
) -> None:
    """Rebuild chunks with one run for all tables of a chunk. The boundary chunk takes one run per
    table, by its states at that time: it includes fresh days in between, because a run costs
    seconds, and leaves out held days."""
    if chunks[0].kind is not ChunkKind.BOUNDARY:
        _try_works(plan, [ChunkWork(plan, c, plan.tables, c.days) for c in chunks], worker)
        return
    for table in plan.tables:
        current = read_progress(*open_lake(), plan)
        undone = current.undone(chunks[0]).get(table, [])
        for span in _free_spans(current, table, undone):
            work = ChunkWork(plan, chunks[0], (table,), span, written=frozenset({table}))
            _try_works(plan, [work], worker)


def _free_spans(current: Progress, table: str, undone: Collection[date]) -> list[DayRange]:
    """The fewest ranges from the first to the last of these partitions of a table, by their keys,
    that hold none which is left alone."""
    if not undone:
        return []
    between = inclusive_range(min(undone), max(undone))
    keys = [key for key in current.plan.keys_of(table) if key in between]
    found = list[DayRange]()
    for is_left_alone, group in groupby(keys, lambda k: current.states.of(table, k).is_left_alone):
        if not is_left_alone:
            free = [*group]
            found.append(inclusive_range(free[0], free[-1]))
    return found


def _try_works(plan: Plan, works: Sequence[ChunkWork], worker: Worker) -> None:
    """Run works; retry failed ones as often as the plan allows. A round in which another work
    succeeded does not count: of parallel works one may need what another writes. Raises the first
    remaining failure."""
    tries, failed = 1 + plan.policy.retries, [(work, "") for work in works]
    while tries > 0:
        works = [w for w, _ in failed]
        failed = [(w, cause) for w, cause in zip(works, worker.make(works), strict=True) if cause]
        if not failed:
            return
        if len(failed) == len(works):
            tries -= 1
    work, cause = failed[0]
    raise BackfillError(
        f"chunk {work.chunk.number} ({work.days}) of the plan {plan.id}",
        cause.rstrip("."),
        "What its receipts say is written, nothing else; no later chunk was run",
        f"Correct the cause; `backfill-assets run {plan.id}` goes on where it stood",
    )


def _days_left(current: Progress, chunk: PlanChunk) -> dict[str, list[date]]:
    """Days per table that runs of a chunk have left undone and that must be made before the next
    chunk; tables without such are left out. Days that became stale meanwhile are not among them
    where a boundary chunk follows, which makes them."""
    undone = current.undone(chunk)
    leaves_stale_days = current.plan.has_boundary and chunk.kind is not ChunkKind.BOUNDARY
    if not leaves_stale_days:
        return undone
    found = dict[str, list[date]]()
    for table, days in undone.items():
        left = [day for day in days if current.states.of(table, day) is not State.STALE]
        if left:
            found[table] = left
    return found


def _held_error(current: Progress, chunk: PlanChunk) -> BackfillError:
    """The error for a chunk with days that a rollback holds; tables with the same days are named
    together."""
    alike: dict[str, list[str]] = {}
    for table, days in current.held_days(chunk).items():
        alike.setdefault(ranges_text(days), []).append(table)
    held_days = "; ".join(f"{days} of {', '.join(tables)}" for days, tables in alike.items())
    fix = (
        f"`backfill-assets release --plan {current.plan.id} --chunk {chunk.number} --yes`, then "
        "run the plan again"
    )
    return _chunk_error(current.plan, chunk, f"a rollback put back and holds {held_days}", fix)


def _chunk_error(plan: Plan, chunk: PlanChunk, culprit: str, fix: str) -> BackfillError:
    what = f"chunk {chunk.number} ({chunk.days}) of the plan {plan.id}"
    return BackfillError(what, culprit, "No later chunk was run", fix)
