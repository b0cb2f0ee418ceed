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
from backfill_assets.kernel.core.downstream import days_maybe_changed, stale_after_rebuild
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
MISSING, STALE, OUTDATED, MATURED, FOLLOWS, FORCED = (
    "missing",
    "stale",
    "outdated",
    "matured",
    "follows",
    "forced",
)

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
    look = (
        plan_look(states, moved_rows(LakeSession(lake), states, request.days))
        if request.look
        else None
    )
    if look is not None and request.usual_canary:
        request = _with_canary(request, look)
    chunks = cut_chunks(request.days, request.policy)
    logs = {name: timed_writes(lake, name) for name in request.tables}
    found = impacts(states, request.tables, request.days, request.policy)
    plan = Plan(
        id=new_plan_id(created),
        created=created,
        user=whoami(),
        days=request.days,
        tables=request.tables,
        chunks=chunks,
        policy=request.policy,
        pins=take_pins(lake, pipeline, states),
        impacts=tuple(
            replace(i, price=price_of(logs[i.table], len(i.days()))) if i.days() else i
            for i in found
        ),
        prices=_chunk_prices(logs, found, chunks),
        reason=request.reason,
        note=request.note,
        retention_days=lake.settings.retention.rollback_days,
        shares=key_shares(lake, states, {i.table: i.reads for i in found if i.days()}),
        look=look,
        code=request.code,
        parallel=request.parallel,
    )
    return replace(plan, preflight=preflight_ticks(lake, pipeline, states, plan))


def _with_canary(request: PlanRequest, look: PlanLook) -> PlanRequest:
    """The `request` with the day on which most rows of `look` move as its canary; unchanged if none
    move."""
    most = look.most_changed(request.days, request.tables)
    if not most:
        return request
    policy = request.policy.model_copy(update={"canary": 1, "canary_days": most})
    return replace(request, policy=policy)


def timed_writes(lake: Lake, table: str) -> list[Receipt]:
    """The newest receipts of a table that name days and seconds, newest first."""
    receipts = (c.receipt for c in islice(lake.store.newest_commits(table), MOST_READ))
    return [*islice((r for r in receipts if r and r.seconds is not None and r.days), NEWEST_WRITES)]


def price_of(past: Sequence[Receipt], days: int) -> Price:
    """The price of so many days of a table at the averages of these writes, without the wait for an
    engine; without a write it is a guess."""
    if not past:
        seconds = GUESS_DAY_SECONDS * days
        return Price(seconds, seconds / GUESS_FACTOR, seconds * GUESS_FACTOR)
    share = days / sum(len(r.days) for r in past)
    seconds = share * sum(r.work_seconds for r in past)
    cpu = [r.cpu_seconds for r in past if r.cpu_seconds is not None]
    return Price(
        seconds,
        seconds / LEARNT_FACTOR,
        seconds * LEARNT_FACTOR,
        round(share * sum(e.rows for r in past for e in r.days.values())),
        round(share * sum(r.bytes or 0 for r in past)),
        len(past),
        share * sum(cpu) if len(cpu) == len(past) else None,
    )


def _chunk_prices(
    logs: Receipts, found: Sequence[TableImpact], chunks: Sequence[PlanChunk]
) -> dict[int, Price]:
    """The price per chunk; none of the boundary chunk, whose days are known only when it runs."""
    prices = {}
    for chunk in chunks:
        days = {*chunk.days} if chunk.kind is not ChunkKind.BOUNDARY else set()
        if parts := [
            price_of(logs[i.table], len(written)) for i in found if (written := i.days() & days)
        ]:
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
    size, newest = _chunk_size(policy.chunk), policy.order == "newest-first"
    ordered = sorted(days, reverse=newest)
    first = (
        sorted({*policy.canary_days} & {*days}) if policy.canary_days else ordered[: policy.canary]
    )
    parts = []
    for span in sorted(
        contiguous_ranges({*days} - {*first}), key=lambda s: s.start, reverse=newest
    ):
        rest = sorted(span, reverse=newest)
        if isinstance(size, int):
            parts += [rest[i : i + size] for i in range(0, len(rest), size)]
        else:
            parts += [
                list(group) for _, group in groupby(rest, lambda day: _first_of_unit(day, size))
            ]
    chunks = [
        PlanChunk(
            i,
            DayRange(min(p), max(p) + ONE_DAY),
            ChunkKind.CANARY if first and i == 1 else ChunkKind.CHUNK,
        )
        for i, p in enumerate([first, *parts] if first else parts, 1)
    ]
    if len(chunks) > 1:
        chunks.append(PlanChunk(len(chunks) + 1, days, ChunkKind.BOUNDARY))
    return tuple(chunks)


def _chunk_size(unit: str) -> int | str:
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
    if request.policy.write_mode == "append":
        raise append_error()
    refuse_stop(request.days, request.policy)
    if (canary := request.policy.canary_days) and not {*canary} <= {*request.days}:
        culprit = f"{canary} is not within the days {request.days}"
        raise BackfillError(
            "the canary", culprit, "Nothing was planned", "Name days that the plan makes"
        )
    largest = max(len(c.days) for c in chunks if c.kind is not ChunkKind.BOUNDARY)
    if largest > request.most_days:
        raise BackfillError(
            "the chunk",
            f"{largest} days in one run are more than {request.most_days}: what is wrong shows "
            "late, and is "
            "a large thing to put back",
            "Nothing was planned",
            f"Use --chunk 7d, or say --max-chunk-days {largest} if you mean it",
        )
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
    for contract in contracts if request.policy.mode.keeps_standing_rows else ():
        refuse_merge(contract, contracts)


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
    reason_of = {
        t: {d: w for d in days if (w := _reason_to_write(states, t, d, policy))} for t in tables
    }
    following_days = stale_after_rebuild(
        states, {t: frozenset(why) for t, why in reason_of.items()}
    )
    changed: dict[str, Set[date]] = {}
    result = []
    for name, contract in states.contracts.items():
        # Days that are stale already and become stale again follow as well, whichever run makes
        # them.
        stale_again = {
            d
            for d in days_maybe_changed(states, states, contract, changed)
            if states.of(name, d) is State.STALE
        }
        following_days[name] |= stale_again - reason_of.get(name, {}).keys()
        changed[name] = following_days[name] | reason_of.get(name, {}).keys()
        inside = {d for d in following_days[name] if name in reason_of and d in days}
        why = reason_of.get(name, {}) | dict.fromkeys(inside, FOLLOWS)
        held = [d for d in days if name in reason_of and states.of(name, d) is State.HELD]
        outside = tuple(contiguous_ranges(following_days[name] - inside))
        if name in reason_of or outside:
            write = {
                w: tuple(contiguous_ranges(d for d in why if why[d] == w))
                for w in sorted({*why.values()})
            }
            result.append(
                TableImpact(
                    name,
                    contract.key,
                    write,
                    _read_days(states, contract, why),
                    outside,
                    tuple(contiguous_ranges(held)),
                )
            )
    return tuple(result)


def _reason_to_write(states: States, table: str, day: date, policy: Policy) -> str:
    """The reason to write a day; empty if it is up to date or held."""
    state, receipt = states.of(table, day), states.latest(table, day)
    if state is State.HELD:
        return ""
    if state is State.MISSING or (state is State.PENDING and receipt is None):
        return MISSING
    if state is State.STALE:
        ripe = states.contracts[table].matures_after_days
        now_mature = ripe is not None and is_mature(day, ripe, states.frontier(table))
        return (
            MATURED
            if now_mature and receipt and not is_mature(day, ripe or 0, receipt.frontier)
            else STALE
        )
    if not states.is_settled(table, day, policy.mode):
        return OUTDATED
    return FORCED if policy.force else ""


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
            read = {a for d in days for a, _ in view.source(wanted.table).arrivals.get(d, ())}
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
    follows = {}
    for name, contract in states.contracts.items():
        if name not in moved:
            changed[name] = days_maybe_changed(states, states, contract, changed) & set(
                states.view.table(name).latest
            )
            follows[name] = tuple(contiguous_ranges(changed[name]))
    return PlanLook(known_moves, {name: spans for name, spans in follows.items() if spans})
