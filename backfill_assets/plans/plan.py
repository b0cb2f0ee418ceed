"""Makes a plan from the lake's logs, without a JVM: impact, chunks and prices of a range of days.

Elsewhere: preflight and pins (`preflight`), the plan's file (`plans.files`), running it (`run`).
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby, islice

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, contiguous_ranges, is_mature
from backfill_assets.kernel.core.digests import input_days_of
from backfill_assets.kernel.core.errors import BackfillError, refuse_unknown_names
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.derived import refuse_merge
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.expect import parse_expectation
from backfill_assets.plans.model import (
    MOST_CHUNK_DAYS,
    ChunkKind,
    DayMove,
    Plan,
    PlanChunk,
    PlanCode,
    PlanLook,
    Price,
    TableImpact,
)
from backfill_assets.plans.moves import moved_rows
from backfill_assets.plans.policy import Policy, Tolerances
from backfill_assets.plans.preflight import preflight_ticks, refuse_stop, take_pins
from backfill_assets.plans.skew import key_shares
from backfill_assets.reading.claims import new_plan_id
from backfill_assets.reading.downstream import days_maybe_changed, stale_after_rebuild

TEMPLATES: Mapping[str, Policy] = {
    # a few days again that came out wrong by accident: little may differ
    "daily-repair": Policy(
        chunk="1d", tolerances=Tolerances(rows=0.1, nulls=0.05, means=0.1), template="daily-repair"
    ),
    # other code for the same rows: keys and rows stay, values may change
    "feature-fix": Policy(tolerances=Tolerances(rows=0.05), template="feature-fix"),
    # truth that came late: rows are added, and outcomes flip
    "late-labels": Policy(
        chunk="month", tolerances=Tolerances(rows=1.0, means=0.5), template="late-labels"
    ),
    # everything again under new rules: rows may move between days
    "migration": Policy(
        chunk="week", canary=2, tolerances=Tolerances(rows=None, nulls=0.5), template="migration"
    ),
}
GUESS_DAY_SECONDS = 0.2  # of a small table on two cores, if it has no past write
GUESS_FACTOR, LEARNT_FACTOR = 4.0, 1.5  # how far a price may be off, both ways
MOST_READ = 100  # commits, for the prices: receipts that repeat older ones name no seconds
NEWEST_WRITES = 40  # older ones describe another machine and another size
MISSING = "missing"
STALE = "stale"
OUTDATED = "outdated"
MATURED = "matured"
FOLLOWS = "follows"
FORCED = "forced"

Receipts = Mapping[str, Sequence[Receipt]]  # the newest per table


@dataclass(frozen=True)
class PlanRequest:
    """Days of tables to plan."""

    days: DayRange
    tables: tuple[str, ...]
    policy: Policy
    reason: str = ""
    note: str = ""
    most_days: int = MOST_CHUNK_DAYS  # caps a chunk
    look: bool = False  # preview the rows that differ, too, which needs the engine
    # Recorded in the plan and used for its work (`plan_code.working_by`).
    code: PlanCode | None = None
    parallel: str = ""  # see `Plan`
    # Nobody chose a canary: with `look` it is the day on which most rows move.
    usual_canary: bool = False


def plan_days(  # noqa: PLR0913 - what `LakeResource.plan` takes
    lake: Lake,
    pipeline: Pipeline,
    known: Collection[str],
    days: DayRange,
    tables: Collection[str],
    *,
    chunk: str,
    force: bool,
) -> Plan:
    """Make the plan of these days of some tables (empty: all `known` ones), as `make_plan`. Raises
    UnknownName for a table that is not among the known ones."""
    refuse_unknown_names("table", tables, known, "Nothing was planned")
    chosen = tuple(name for name in known if not tables or name in tables)
    return make_plan(lake, pipeline, PlanRequest(days, chosen, Policy(chunk=chunk, force=force)))


def make_plan(lake: Lake, pipeline: Pipeline, request: PlanRequest) -> Plan:
    """Make the frozen plan of a request; writes nothing. A plan whose preflight failed is refused
    when it is run."""
    created = utc_now()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    _refuse_unsafe(pipeline, request, cut_chunks(request.days, request.policy))
    look = None
    if request.look:
        look = plan_look(states, moved_rows(LakeSession(lake), states, request.days))
        request = _with_canary(request, look)
    chunks = cut_chunks(request.days, request.policy)
    logs = {name: timed_writes(lake, name) for name in request.tables}
    found = impacts(states, request.tables, request.days, request.policy)
    written = [impact for impact in found if impact.days()]
    plan = Plan(
        id=new_plan_id(created),
        created=created,
        user=whoami(),
        days=request.days,
        tables=request.tables,
        chunks=chunks,
        policy=request.policy,
        pins=take_pins(lake, pipeline, states),
        impacts=tuple(_with_price(logs, impact) for impact in found),
        reason=request.reason,
        note=request.note,
        retention_days=lake.settings.retention.rollback_days,
        shares=key_shares(lake, states, {impact.table: impact.reads for impact in written}),
        look=look,
        code=request.code,
        parallel=request.parallel,
        periods=_covered_periods(states, request),
    )
    plan = replace(plan, prices=_chunk_prices(logs, plan))
    return replace(plan, preflight=preflight_ticks(lake, pipeline, states, plan))


def _covered_periods(states: States, request: PlanRequest) -> dict[str, tuple[DayRange, ...]]:
    """The `periods` of the plan of a request."""
    found = dict[str, tuple[DayRange, ...]]()
    for name in request.tables:
        calendar = states.contracts[name].calendar
        if not calendar.is_daily:
            found[name] = tuple(map(calendar.span, states.keys_in(name, request.days)))
    return found


def _with_canary(request: PlanRequest, look: PlanLook) -> PlanRequest:
    """The `request` with the day on which most rows of `look` move as its canary; unchanged if none
    move, or somebody chose a canary."""
    most = look.most_changed(request.days, request.tables) if request.usual_canary else None
    if most is None:
        return request
    policy = request.policy.model_copy(update={"canary": 1, "canary_days": most})
    return replace(request, policy=policy)


def _with_price(logs: Receipts, impact: TableImpact) -> TableImpact:
    """The impact with the price of its days; without days as it is."""
    days = len(impact.days())
    return replace(impact, price=price_of(logs[impact.table], days)) if days else impact


def timed_writes(lake: Lake, table: str) -> list[Receipt]:
    """The newest receipts of a table that name days and seconds, newest first."""
    found = list[Receipt]()
    for commit in islice(lake.store.newest_commits(table), MOST_READ):
        receipt = commit.receipt
        if receipt is not None and receipt.seconds is not None and receipt.days:
            found.append(receipt)
        if len(found) == NEWEST_WRITES:
            break
    return found


def price_days(lake: Lake, table: str, days: int) -> Price:
    """The price of so many days of a table by its newest writes, as `price_of` gives it."""
    return price_of(timed_writes(lake, table), days)


def price_of(past: Sequence[Receipt], days: int) -> Price:
    """The price of so many days of a table at the averages of these writes, without the wait for an
    engine; without a write it is a guess."""
    if not past:
        seconds = GUESS_DAY_SECONDS * days
        return Price(seconds, least=seconds / GUESS_FACTOR, most=seconds * GUESS_FACTOR)
    entries = [entry for receipt in past for entry in receipt.days.values()]
    share = days / len(entries)  # one entry is one day of one write
    seconds = share * sum(receipt.work_seconds for receipt in past)
    cpu = [receipt.cpu_seconds for receipt in past if receipt.cpu_seconds is not None]
    is_cpu_known = len(cpu) == len(past)
    return Price(
        seconds=seconds,
        least=seconds / LEARNT_FACTOR,
        most=seconds * LEARNT_FACTOR,
        rows=round(share * sum(entry.rows for entry in entries)),
        bytes=round(share * sum(receipt.bytes or 0 for receipt in past)),
        writes=len(past),
        cpu=share * sum(cpu) if is_cpu_known else None,
    )


def _chunk_prices(logs: Receipts, plan: Plan) -> dict[int, Price]:
    """The price per chunk; none of the boundary chunk, whose days are known only when it runs."""
    prices = {}
    written = {impact.table: impact.days() for impact in plan.impacts if impact.days()}
    for chunk in plan.chunks:
        if chunk.kind is ChunkKind.BOUNDARY:
            continue
        counts = {t: len(days.intersection(plan.keys(chunk, t))) for t, days in written.items()}
        parts = [price_of(logs[table], count) for table, count in counts.items() if count]
        if parts:
            prices[chunk.number] = Price.total(parts)
    return prices


def cut_chunks(days: DayRange, policy: Policy) -> tuple[PlanChunk, ...]:
    """Cut the range into chunks, in the order of their runs: every day is in exactly one, but for
    the boundary chunk.

    The policy's `chunk` is e.g. `7d`, `7`, `week` or `month`; raises BackfillError for anything
    else. Its canary is cut off first: `canary_days`, else days at the end at which the work begins.
    Weeks begin on Monday, months on the first; chunks of N days are counted from the end at which
    the work begins, and again behind a canary in their midst. The boundary chunk follows where
    there are several.
    """
    size, is_newest_first = _chunk_size(policy.chunk), policy.order == "newest-first"
    canary = _canary_days(days, policy)
    spans = contiguous_ranges({*days} - {*canary})
    parts = [(ChunkKind.CANARY, canary)] if canary else []
    for span in reversed(spans) if is_newest_first else spans:
        ordered = sorted(span, reverse=is_newest_first)
        parts += [(ChunkKind.CHUNK, part) for part in _parts_of(ordered, size)]
    chunks = list[PlanChunk]()
    for number, (kind, part) in enumerate(parts, 1):
        chunks.append(PlanChunk(number, DayRange(min(part), max(part) + ONE_DAY), kind))
    if len(chunks) > 1:
        chunks.append(PlanChunk(len(chunks) + 1, days, ChunkKind.BOUNDARY))
    return tuple(chunks)


def _canary_days(days: DayRange, policy: Policy) -> list[date]:
    """The days that are made first, alone: those that the policy names, else so many at the end at
    which the work begins."""
    if policy.canary_days:
        return sorted({*policy.canary_days} & {*days})
    return sorted(days, reverse=policy.order == "newest-first")[: policy.canary]


def _parts_of(ordered: Sequence[date], size: int | str) -> list[list[date]]:
    """Days in order, cut after each `size` days, or by weeks or months."""
    if isinstance(size, int):
        return [[*ordered[i : i + size]] for i in range(0, len(ordered), size)]
    return [list(group) for _, group in groupby(ordered, lambda day: _first_of_unit(day, size))]


def _chunk_size(unit: str) -> int | str:
    """The number of days of `14`, `14d`, or `week` or `month`; raises BackfillError for others."""
    text = unit.strip().lower()
    if text in ("week", "month"):
        return text
    if number := re.fullmatch(r"0*([1-9][0-9]*)d?", text):
        return int(number[1])
    raise BackfillError(
        "the chunk",
        f"{unit[:20]!r} is no size",
        "Nothing was planned",
        "Write e.g. 7d, 14, week or month",
    )


def _first_of_unit(day: date, unit: str) -> date:
    """The first day of the week or month."""
    return day - timedelta(days=day.weekday()) if unit == "week" else day.replace(day=1)


def _refuse_unsafe(pipeline: Pipeline, request: PlanRequest, chunks: Sequence[PlanChunk]) -> None:
    """Raise BackfillError for a request that no plan is made of: an append, a stop or chunks that
    do not fit the days, expectations that no table has, a merge into tables that cannot take it."""
    if request.policy.write_mode == "append":
        raise append_error()
    refuse_stop(request.days, request.policy)
    _refuse_chunks(request, chunks)
    if request.policy.keep_removed and not request.policy.mode.keeps_standing_rows:
        raise BackfillError(
            "--keep-removed",
            "an overwrite keeps no row of a day",
            "Nothing was planned",
            "Say --write-mode merge with it, or leave it away",
        )
    contracts = [pipeline.table(name).contract for name in request.tables]
    for text in request.policy.expect:
        parse_expectation(text, contracts)
    if request.policy.mode.keeps_standing_rows:
        for contract in contracts:
            refuse_merge(contract, contracts)


def _refuse_chunks(request: PlanRequest, chunks: Sequence[PlanChunk]) -> None:
    """Raise BackfillError for a canary beyond the days, and for a chunk of too many."""
    canary = {*(request.policy.canary_days or ())}
    if not canary <= {*request.days}:
        culprit = f"{request.policy.canary_days} is not within the days {request.days}"
        raise BackfillError(
            "the canary", culprit, "Nothing was planned", "Name days that the plan makes"
        )
    largest = max(len(c.days) for c in chunks if c.kind is not ChunkKind.BOUNDARY)
    if largest > request.most_days:
        raise BackfillError(
            "the chunk",
            f"{largest} days in one run are more than {request.most_days}: what is wrong shows "
            "late, and is a large thing to put back",
            "Nothing was planned",
            f"Use --chunk 7d, or say --max-chunk-days {largest} if you mean it",
        )


def append_error() -> BackfillError:
    """The error of the write mode `append`, with the incident that it prevents."""
    return BackfillError(
        "the write mode append",
        "rows of a day that is there already would count twice: a backfill by append has doubled "
        "three years of sums "
        "while the job succeeded and no alert came",
        "Nothing was planned",
        "Use --write-mode overwrite: each day is replaced as a whole, however often",
    )


def impacts(
    states: States, tables: Sequence[str], days: DayRange, policy: Policy
) -> tuple[TableImpact, ...]:
    """The impact on every table, upstream first; tables that are not planned have only days that
    follow."""
    # By table the days that are to be written, each with its reason.
    planned = {table: _reasons_to_write(states, table, days, policy) for table in tables}
    following_days = stale_after_rebuild(
        states, {table: frozenset(reasons) for table, reasons in planned.items()}
    )
    changed: dict[str, Set[date]] = {}
    result = []
    for name, contract in states.contracts.items():
        reasons = planned.get(name, {})
        # Days that are stale already and become stale again follow as well, whichever run makes
        # them.
        reached = days_maybe_changed(states, states, contract, changed) - reasons.keys()
        following_days[name] |= {d for d in reached if states.of(name, d) is State.STALE}
        changed[name] = following_days[name] | reasons.keys()
        if name not in planned:
            impact = _impact(states, contract, reasons={}, follows=following_days[name], held=())
        else:
            # The plan makes days that follow within its own range itself.
            own = states.keys_in(name, days)
            inside = following_days[name] & {*own}
            held = [d for d in own if states.of(name, d).is_left_alone]
            reasons = reasons | dict.fromkeys(inside, FOLLOWS)
            impact = _impact(states, contract, reasons, following_days[name] - inside, held)
        if name in planned or impact.follows:
            result.append(impact)
    return tuple(result)


def _reasons_to_write(
    states: States, table: str, days: DayRange, policy: Policy
) -> dict[date, str]:
    """The days of a table that are to be written, each with its reason."""
    own = states.keys_in(table, days)
    reasons = {day: _reason_to_write(states, table, day, policy) for day in own}
    return {day: why for day, why in reasons.items() if why}


def _impact(
    states: States,
    contract: Contract,
    reasons: Mapping[date, str],
    follows: Iterable[date],
    held: Iterable[date],
) -> TableImpact:
    """The impact on a table whose days are written for these reasons, without a price."""
    days_of_reason: dict[str, set[date]] = defaultdict(set)
    for day, why in reasons.items():
        days_of_reason[why].add(day)
    write = dict[str, tuple[DayRange, ...]]()
    for why, days in sorted(days_of_reason.items()):
        write[why] = tuple(contiguous_ranges(days))
    return TableImpact(
        table=contract.name,
        key=contract.key,
        write=write,
        reads=_read_days(states, contract, reasons),
        follows=tuple(contiguous_ranges(follows)),
        held=tuple(contiguous_ranges(held)),
    )


def _reason_to_write(states: States, table: str, day: date, policy: Policy) -> str:
    """The reason to write a day; empty if it is up to date, held or closed."""
    state, receipt = states.of(table, day), states.latest(table, day)
    if state.is_left_alone:
        return ""
    was_never_made = state is State.PENDING and receipt is None
    if state is State.MISSING or was_never_made:
        return MISSING
    if state is State.STALE:
        return MATURED if _has_matured(states, table, day) else STALE
    if not states.is_settled(table, day, policy.mode):
        return OUTDATED
    return FORCED if policy.force else ""


def _has_matured(states: States, table: str, day: date) -> bool:
    """Whether a day became mature since it was last written."""
    contract, receipt = states.contracts[table], states.latest(table, day)
    ripe_after = contract.matures_after_days
    if ripe_after is None or receipt is None:
        return False
    last = contract.calendar.last_of(day)
    was_mature = is_mature(last, ripe_after, receipt.frontier)
    return not was_mature and is_mature(last, ripe_after, states.frontier(table))


def _read_days(
    states: States, contract: Contract, written: Iterable[date]
) -> dict[str, tuple[DayRange, ...]]:
    """Per input table the days that are read (arrival days of `landing`)."""
    view, days = states.view, sorted(written)
    days_of_input: dict[str, Set[date]] = defaultdict(set)
    for wanted in contract.inputs:  # a plan makes no day of an asset, whose receipts name keys
        if wanted.kind is InputKind.FILES:
            read = set(days)
        elif wanted.kind is InputKind.ARRIVALS:
            arrivals_of = view.source(wanted.table).arrivals  # per event day, with their numbers
            read = {arrival for day in days for arrival, _ in arrivals_of.get(day, ())}
        else:
            read = {d for day in days for d in input_days_of(wanted, day, view)}
        days_of_input[wanted.table] |= read
    return {table: tuple(contiguous_ranges(read)) for table, read in days_of_input.items()}


def plan_look(states: States, moves: Iterable[DayMove]) -> PlanLook:
    """The preview of these moved rows, with the days per downstream table whose windows reach
    them."""
    known_moves = tuple(moves)
    changed: dict[str, Set[date]] = {}
    for move in known_moves:
        changed[move.table] = {*changed.get(move.table, ()), move.day}
    moved = set(changed) | set(states.view.sources)
    follows: dict[str, tuple[DayRange, ...]] = {}
    for name, contract in states.contracts.items():
        if name in moved:
            continue
        written = states.view.table(name).latest.keys()  # a day that was never made cannot change
        changed[name] = days_maybe_changed(states, states, contract, changed) & written
        if changed[name]:
            follows[name] = tuple(contiguous_ranges(changed[name]))
    return PlanLook(known_moves, follows)
