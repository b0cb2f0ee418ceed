"""The plans of a lake as files (`.plans/ID.json`), the marks beside them, and the locks of runners
and chunks.

Elsewhere: how far a plan is, which receipts show (`progress`). A mark (`started`, `paused`,
`waiting`, `stopped`, `ended`) holds a plan back or ends it; it never says that a chunk is done. The
kernel frees a lock when its process ends.
"""

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import inf
from typing import Any, Literal

from backfill_assets.cli.findings import Diagnosis, finding_of
from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import (
    BackfillError,
    GateRefused,
    TransientError,
    UnknownName,
)
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.records import json_of, record_of
from backfill_assets.kernel.place.port import (
    LOCKS,
    AlreadyThere,
    Held,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Table
from backfill_assets.plans.model import Plan, PlanChunk, parse_plan, plan_json
from backfill_assets.reading.claims import HoldingPlan

PLANS_FOLDER = ".plans"
PLAN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
Mark = Literal["started", "paused", "waiting", "stopped", "ended"]
HOLDS: tuple[Mark, ...] = ("paused", "waiting")  # which `plan resume` takes back
WAITING: tuple[Mark, ...] = (*HOLDS, "stopped")  # for a person
FINISHED, CANCELLED = "finished", "cancelled"  # what `ended` says
# Keys of the mark `accepted`: write ids by chunk, and broken values by control, as in `started`.
CHUNKS = "chunks"
CONTROLS = "controls"
FOR_EVER = inf  # seconds: a chunk takes as long as it takes
WHO = "who"  # accepted what, when and why


def keep_plan(lake: Lake, plan: Plan) -> None:
    """Write the plan's file atomically; raises BackfillError if it exists, or if an active plan has
    days of it."""
    refuse_overlap(lake, plan)
    try:
        lake.place.write(_plan_file(plan.id, "json"), plan_json(plan).encode(), if_absent=True)
    except AlreadyThere:
        raise plan.error("it is there already", "Nothing was written", "Plan again") from None


def find_plan(lake: Lake, named: str) -> Plan:
    """The plan with this id, or the only one whose id begins so; raises UnknownName for none or
    several."""
    ids = _ids_beginning(plan_ids(lake), named)
    if len(ids) != 1:
        why = f"{len(ids)} plans begin so" if ids else "this lake has no such plan"
        fix = "See `backfill-assets plan list`"
        if not ids and (candidate := _candidate_with_plan(lake, named)):
            fix = f"Say --target {candidate}: its candidate has it"
        raise UnknownName(f"the plan {named[:40]!r}", why, "Nothing was done", fix)
    return parse_plan(lake.place.read(_plan_file(ids[0], "json")), ids[0])


def _ids_beginning(ids: Sequence[str], named: str) -> list[str]:
    """The ids that begin with a text, or the one that it is; none for an empty text."""
    if named in ids:
        return [named]
    return [one for one in ids if named and one.startswith(named)]


def _candidate_with_plan(lake: Lake, named: str) -> str:
    """The first candidate of the lake with a plan that is named so; "" without one."""
    for candidate in lake.place.names(CANDIDATES):
        is_hidden = candidate.startswith(".")
        if not is_hidden and _ids_beginning(plan_ids(lake, candidate), named):
            return candidate
    return ""


def plan_ids(lake: Lake, candidate: str = "") -> list[str]:
    """The ids of all plans of the lake, or of a candidate of it, oldest first."""
    folder = f"{CANDIDATES}/{candidate}/{PLANS_FOLDER}" if candidate else PLANS_FOLDER
    return _ids_among(lake.place.names(folder))


def _ids_among(names: Iterable[str]) -> list[str]:
    """The ids of the plans whose files are among these names, ascending."""
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return sorted(stem for stem in stems if PLAN_ID.fullmatch(stem))


def readable_plans(lake: Lake) -> Iterator[Plan]:
    """All plans, oldest first, without files that cannot be read (`find_plan` says why)."""
    for plan_id in plan_ids(lake):
        with contextlib.suppress(BackfillError):
            yield find_plan(lake, plan_id)


def damaged_plans(lake: Lake) -> Iterator[BackfillError]:
    """Why the files that `readable_plans` leaves out cannot be read."""
    for plan_id in plan_ids(lake):
        try:
            find_plan(lake, plan_id)
        except BackfillError as error:
            yield error


def examine_plans(lake: Lake, _tables: Collection[Table]) -> Iterator[Diagnosis]:
    """What the doctor finds about the files of plans; nothing where all can be read."""
    yield from map(finding_of, damaged_plans(lake))


def set_mark(lake: Lake, plan_id: str, name: Mark, text: str = "", **facts: Any) -> None:
    """Set a mark with a text and JSON values; a mark that is set stays as it is."""
    if not lake.place.exists(file := _plan_file(plan_id, name)):
        lake.place.write_json(file, {"at": utc_now().isoformat(), "told": text, **facts})


def remove_mark(lake: Lake, plan_id: str, name: Mark) -> None:
    """Remove a mark, if it is set."""
    lake.place.delete(_plan_file(plan_id, name))


def mark_text(lake: Lake, plan_id: str, name: Mark) -> str | None:
    """The text of a mark, of a damaged one that it is damaged; None if it is not set."""
    file = _plan_file(plan_id, name)
    if not lake.place.exists(file):
        return None
    told = lake.place.read_json(file).get("told")
    return told if isinstance(told, str) else f"{file} is not what was written"


def mark_value(lake: Lake, plan_id: str, name: Mark, key: str) -> Any:
    """A value that a mark was set with; None without it."""
    return lake.place.read_json(_plan_file(plan_id, name)).get(key)


def accepted_by_person(lake: Lake, plan: Plan) -> dict[str, Any]:
    """What `run --accept` let pass: the write ids of chunks by number, broken values by control,
    and `Acceptance`s as JSON values."""
    file = _plan_file(plan.id, "accepted")
    return lake.place.read_record(file, _accepted_in, "Delete it: the gates then ask again")


def _accepted_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """The three parts of a mark `accepted`; raises TypeError or ValueError where one is none."""
    who = [*body.get(WHO, ())]
    for one in who:
        record_of(Acceptance, one)
    return {CHUNKS: {**body.get(CHUNKS, {})}, CONTROLS: {**body.get(CONTROLS, {})}, WHO: who}


def accept_chunk_writes(
    lake: Lake, plan: Plan, chunk: PlanChunk, writes: list[str], controls: Mapping[str, int]
) -> None:
    """Record that a person accepted a chunk as these writes left it, with these broken controls."""
    accepted = accepted_by_person(lake, plan)
    accepted[CHUNKS][str(chunk.number)] = writes
    accepted[CONTROLS] |= controls
    lake.place.write_json(_plan_file(plan.id, "accepted"), accepted)


@dataclass(frozen=True)
class Acceptance:
    """What a person let a plan's gates pass."""

    # `chunk N`, or for all chunks a bound: TABLE.SETTING, TABLE.COLUMN.SETTING
    what: tuple[str, ...]
    by: str
    at: str
    reason: str

    @property
    def names_a_bound(self) -> bool:
        """Whether it lifts a bound for all chunks: a bound has a dot in its name, a chunk none."""
        return any("." in name for name in self.what)

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{', '.join(self.what)} accepted by {self.by} at {self.at}{why}"


def all_acceptances(lake: Lake, plan: Plan) -> tuple[Acceptance, ...]:
    """All that a person let pass, oldest first."""
    return tuple(record_of(Acceptance, found) for found in accepted_by_person(lake, plan)[WHO])


def record_acceptance(lake: Lake, plan: Plan, what: Sequence[str], reason: str) -> None:
    """Record that this user lets the gates pass these chunks and bounds."""
    accepted, at = accepted_by_person(lake, plan), utc_now().isoformat(timespec="seconds")
    accepted[WHO] = [*accepted[WHO], json_of(Acceptance(tuple(what), whoami(), at, reason))]
    lake.place.write_json(_plan_file(plan.id, "accepted"), accepted)


@dataclass(frozen=True)
class Resumption:
    """Who let a held plan go on."""

    at: str
    by: str
    reason: str
    chunk: int | None = None  # the last one before `--stop-after`; None: it was paused

    def __str__(self) -> str:
        """E.g. `resumed after chunk 1 by me at 2024-03-01T10:00:00+00:00: looks right`."""
        after = f" after chunk {self.chunk}" if self.chunk else ""
        why = f": {self.reason}" if self.reason else ""
        return f"resumed{after} by {self.by} at {self.at}{why}"


def past_resumptions(lake: Lake, plan: Plan) -> tuple[Resumption, ...]:
    """Every time that somebody resumed the plan, oldest first."""
    return lake.place.read_record(
        _plan_file(plan.id, "resumed"),
        lambda body: tuple(record_of(Resumption, found) for found in body.get("times", ())),
        "Delete it: the plan forgets who resumed it",
    )


def resume_plan(lake: Lake, plan: Plan, reason: str) -> None:
    """Take `paused` and `waiting` back, and record who did so and why. Raises BackfillError if it
    waits for a person who has looked, and no reason is given."""
    with plan_lock(lake):
        texts = [mark_text(lake, plan.id, name) for name in HOLDS]
        if all(text is None for text in texts):
            return
        waiting = mark_text(lake, plan.id, "waiting")
        if not reason and waiting is not None:
            raise plan.error(
                f"it waits for someone who has looked ({waiting})",
                "It still waits",
                f"Say `backfill-assets plan resume {plan.id} --reason WHY`",
            )
        at = utc_now().isoformat(timespec="seconds")
        times = [
            *past_resumptions(lake, plan),
            Resumption(at, whoami(), reason, mark_value(lake, plan.id, "waiting", "chunk")),
        ]
        lake.place.write_json(_plan_file(plan.id, "resumed"), {"times": json_of(times)})
        for name in HOLDS:
            remove_mark(lake, plan.id, name)


def plan_state(lake: Lake, plan: Plan) -> str:
    """The state of a plan by its marks: `new`, `active`, `paused`, `waiting` (at its `stop_after`),
    `stopped` (its last run ended early with a reason), `finished` or `cancelled`. A plan whose
    runner was killed is `active`."""
    ended = mark_text(lake, plan.id, "ended")
    if ended is not None:
        return CANCELLED if ended.startswith(CANCELLED) else FINISHED
    for name in WAITING:
        if mark_text(lake, plan.id, name) is not None:
            return name
    return "new" if mark_text(lake, plan.id, "started") is None else "active"


def why_waiting(lake: Lake, plan: Plan, state: str) -> str:
    """Why a plan in this state waits for a person; empty if it does not."""
    for name in WAITING:
        if name == state:
            return mark_text(lake, plan.id, name) or ""
    return ""


def finished_plans(lake: Lake, ids: Collection[str]) -> set[str]:
    """Those of these ids that are of a finished plan."""
    known = {*ids} & {*plan_ids(lake)}
    return {plan for plan in known if plan_state(lake, find_plan(lake, plan)) == FINISHED}


def active_plans(lake: Lake) -> list[Plan]:
    """The plans that were started and neither finished nor cancelled, oldest first. Their days are
    left to them. One listing says which: plans of years cost no request each."""
    names = {*lake.place.names(PLANS_FOLDER)}
    started = [i for i in _ids_among(names) if f"{i}.started" in names]
    return [find_plan(lake, i) for i in started if f"{i}.ended" not in names]


def holding_plans(lake: Lake, also_idle: bool = False) -> list[HoldingPlan]:
    """What each active plan that waits for a person holds back, and which command frees it.
    `also_idle`: also plans whose runner was killed."""
    found = []
    for plan in active_plans(lake):
        state = plan_state(lake, plan)
        if state in WAITING:
            why = f"({_stop_reason(lake, plan, state)})"
        elif also_idle and not is_running(lake, plan):
            why = "and no process runs it"
        else:
            continue
        found.append(HoldingPlan(plan, state, _holding_line(lake, plan, state, why)))
    return found


def _stop_reason(lake: Lake, plan: Plan, state: str) -> str:
    """Why a plan waits: of a gate only its chunk, since what it found is long."""
    if gate := _refusing_gate(lake, plan, state):
        return f"by the gate of chunk {gate}: see `backfill-assets plan show {plan.id}`"
    return why_waiting(lake, plan, state)


def _refusing_gate(lake: Lake, plan: Plan, state: str) -> Any:
    """The number of the chunk whose gate stopped the plan; None where none did."""
    return mark_value(lake, plan.id, "stopped", "gate") if state == "stopped" else None


def _holding_line(lake: Lake, plan: Plan, state: str, why: str) -> str:
    """What a plan holds back, and the commands that free it."""
    step = next_subcommand(lake, plan, state)
    steps = f"`backfill-assets {step}`"
    if not step.startswith("run"):
        steps += f", then `backfill-assets run {plan.id}`"
    return (
        f"the plan {plan.id} is {state} {why}; nothing else makes {plan.days} of "
        f"{', '.join(plan.tables)} until it ends: {steps}, or `backfill-assets plan cancel "
        f"{plan.id}`"
    )


def next_subcommand(lake: Lake, plan: Plan, state: str) -> str:
    """The subcommand that lets a plan go on from this state."""
    if state == "waiting":
        return f"plan resume {plan.id} --reason WHY"
    if state in HOLDS:
        return f"plan resume {plan.id}"
    gate = _refusing_gate(lake, plan, state)
    if not gate:
        return f"run {plan.id}"
    if mark_value(lake, plan.id, "stopped", "put_back"):
        return f"release --plan {plan.id} --chunk {gate} --yes"
    return f"run {plan.id} --accept {gate}"


def refuse_overlap(lake: Lake, plan: Plan) -> None:
    """Raise if another active plan has days of the same tables; a plan that is not kept yet is
    named by its days."""
    what, nothing = f"a plan of {plan.days}", "planned"
    if lake.place.exists(_plan_file(plan.id, "json")):
        what, nothing = f"the plan {plan.id}", "run"
    for other in active_plans(lake):
        if other.id == plan.id:
            continue
        days, tables = set[date](), list[str]()
        for table in sorted({*other.tables} & {*plan.tables}):
            if both := {*other.keys_of(table)} & {*plan.keys_of(table)}:
                days |= both
                tables.append(table)
        if tables:
            shared = ", ".join(tables)
            why = f"the plan {other.id} is active and has {min(days)}..{max(days)} of {shared}"
            fix = (
                f"End it first: `backfill-assets run {other.id}`, or `backfill-assets plan cancel "
                f"{other.id}`"
            )
            raise BackfillError(what, why, f"Nothing was {nothing}", fix)


def _plan_file(plan_id: str, suffix: str) -> str:
    return f"{PLANS_FOLDER}/{plan_id}.{suffix}"


@contextlib.contextmanager
def only_runner(lake: Lake, plan: Plan) -> Iterator[None]:
    """Hold the lock of the plan's runner; raises BackfillError if another process has it."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(plan_lock(lake, plan, seconds=lake.place.patience))
        except Held:
            fix = f"See how far it is: `backfill-assets plan show {plan.id}`"
            raise plan.error("another process is running it", "Nothing was started", fix) from None
        yield


def is_running(lake: Lake, plan: Plan) -> bool:
    """Whether a process holds the lock of the plan's runner now."""
    try:
        with plan_lock(lake, plan, seconds=0):
            return False
    except Held:
        return True


def plan_lock(
    lake: Lake, plan: Plan | None = None, chunk: PlanChunk | None = None, seconds: float = FOR_EVER
) -> contextlib.AbstractContextManager[None]:
    """The lock of a plan's runner, of the maker of a chunk, or of everything that starts a plan.
    Raises Held if another process has it for so many seconds; a chunk takes as long as it
    takes."""
    name, what = (f"plan-{plan.id}", f"the plan {plan.id}") if plan else ("plans", "the plans")
    file = f"{name}-chunk-{chunk.number}.lock" if chunk else f"{name}.lock"
    return lake.place.lock(f"{LOCKS}/{file}", what, seconds)


@contextlib.contextmanager
def marking_stops(lake: Lake, plan: Plan) -> Iterator[None]:
    """Set the mark `stopped` with the error that ends the block, so that a person looks, and with
    the chunk whose `gate` refused. A kill sets no mark."""
    try:
        yield
    except BaseException as error:
        facts = error.facts if isinstance(error, GateRefused) else {}
        text = str(error) if isinstance(error, Exception) else "it was interrupted"
        with contextlib.suppress(
            TransientError
        ):  # of a store that does not answer: `error` says more
            set_mark(
                lake, plan.id, "stopped", text, gate=facts.get("chunk"), put_back="release" in facts
            )
        raise
