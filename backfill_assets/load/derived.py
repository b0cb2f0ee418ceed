"""Building a candidate: pinned inputs, one pure transform over the whole range, conform, stage and audit.

Lives here: the read side of the load path for every table but raw (`load.raw`). Does not live here: the gate
(`core.gates`) and the write (`lake.replace`). Refuses, before any work, days whose own input days do not exist and
days held by a rollback.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Basis, Contract, Input
from backfill_assets.core.days import DayRange, contiguous, covering
from backfill_assets.core.digests import days_of
from backfill_assets.core.errors import InputMissing
from backfill_assets.core.profiles import DayProfile, kept_counts
from backfill_assets.core.readings import rows_read
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import States
from backfill_assets.core.view import LakeView
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.profile import audited, conform
from backfill_assets.lake.replace import Published, Write, days_held, replace_days
from backfill_assets.lake.second_engine import refuse_unequal_settings
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.type_names import spark_name
from backfill_assets.load.candidate import Candidate, RebuildRequest, as_profile
from backfill_assets.load.facts import staged_facts
from backfill_assets.load.merging import as_merged, merged
from backfill_assets.load.second_engine import refuse_unequal
from backfill_assets.load.steadiness import refuse_unsteady, telling_mistakes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_SPANS = 8  # stale days far apart are computed apart; each span is one more plan for Spark to make (about 0.5 s)


def build(request: RebuildRequest) -> Candidate:
    """The candidate of a table that is made from other tables. Nothing is written.

    Raises InputMissing, DaysHeld, ContractBroken, EngineLost.
    """
    phase, table, days = request.phases.phase, request.table, request.days
    refuse_unequal_settings(request.lake_session.lake.settings)
    with phase("states"):
        states = request.states()
    refuse_unbuildable(states, table.contract, days)
    settled = settled_days(request, states)
    todo = [d for d in days if d not in settled]
    if not todo:
        return nothing_to_do(states, table.contract, days)
    with phase("transform"):
        frame = made(request, states, todo, settled)
    with phase("write"):
        staged = request.lake_session.lake.store.stage(table.contract, conform(frame, table.contract), len(todo))
    try:
        with phase("merge"):
            kept = merged(request, states, staged, todo)
        with phase("audit"):
            parts = rows_read(request.pipeline.contracts, table.name)
            profiles = dict(audited(request.lake_session, table.contract, staged, parts))
        with phase("facts"):
            facts = staged_facts(request.lake_session, states, table, staged, profiles)
    except BaseException:
        staged.drop()
        raise
    candidate = _candidate(request, states, settled, staged, profiles, kept)
    told = {d: facts.get(d, {}) | ({"kept_rows": kept[d]} if d in kept else {}) for d in {*facts, *kept}}
    return replace(candidate, accounts={d: {"facts": f} for d, f in told.items()})


def made(request: RebuildRequest, states: States, todo: Sequence[date], settled: Collection[date]) -> "DataFrame":
    """The rows of the days to do, as a plan that Spark has not run."""
    table, spans = request.table, _spans(request.table.contract, todo)
    request.lake_session.expect(_input_rows(states, table.contract, todo))
    wanted, frontier = frozenset(todo), states.frontier(table.name)
    parts = [Chunk(s, frontier, None if wanted.issuperset(s) else wanted.intersection(s)) for s in spans]
    made = [
        _of_its_span(_transformed(request.lake_session, states, table, p), table.contract, p.days, spans) for p in parts
    ]
    frame = made[0]
    for other in made[1:]:
        frame = frame.unionByName(other)
    return _without_days(frame, table.contract, [d for span in spans for d in span if d in settled])


def _spans(contract: Contract, todo: Sequence[date]) -> list[DayRange]:
    """The ranges that are computed apart. Days made from deliveries are one, however far apart they are: the same
    deliveries would be read for most of them."""
    by_arrivals = all(i.basis is Basis.ARRIVALS for i in contract.inputs)
    return covering(todo, 1 if by_arrivals else MOST_SPANS)


def _input_rows(states: States, contract: Contract, todo: Iterable[date]) -> int:
    """About how many rows the input days of these days hold, by their receipts."""
    rows = 0
    for wanted in contract.inputs:
        stamps = states.view.table(wanted.table).stamps
        if wanted.basis is Basis.ARRIVALS:
            days = {a for d in todo for a, _ in states.view.source(wanted.table).arrivals.get(d, ())}
        else:
            days = {d for day in todo for d in days_of(wanted, day, states.view)}
        rows += sum(stamps[d].entry.rows for d in days if d in stamps)
    return rows


def settled_days(request: RebuildRequest, states: States) -> frozenset[date]:
    """The days that need no computing: their receipts say that the same work gave what is there."""
    if request.force:
        return frozenset()
    return frozenset(d for d in request.days if states.is_settled(request.table.name, d, request.merges))


def refuse_unbuildable(states: States, contract: Contract, days: DayRange) -> None:
    """Raise where a day is held, or does not exist itself in an input table; names what to do first."""
    held = [d for d in days if (s := states.stamp(contract.name, d)) is not None and s.entry.built is Built.HELD]
    if held:
        raise days_held(contract, held)
    _refuse_doubted(states, contract)
    lacking: dict[str, list[date]] = {}
    for wanted in contract.inputs:
        if wanted.basis not in (Basis.ARRIVALS, Basis.FILES):
            stamps = states.view.table(wanted.table).stamps
            absent = [d for d in days if d not in stamps]
            if absent:
                lacking[wanted.table] = absent
        elif wanted.basis is Basis.ARRIVALS and states.view.source(wanted.table).ledger.version < 0:
            lacking[wanted.table] = list(days)
    if lacking:
        tables = " and ".join(f"{name} for {_listed(absent)}" for name, absent in lacking.items())
        every = sorted(d for absent in lacking.values() for d in absent)
        raise InputMissing(
            f"the table {contract.name}",
            f"it is made from {tables}, which were never made",
            "Nothing was written",
            f"Materialize them first: `backfill-assets backfill --from {every[0]} --to {every[-1]} --tables "
            f"{','.join(lacking)}`",
        )


def _refuse_doubted(states: States, contract: Contract) -> None:
    """Raise where the ledger that says which deliveries the days are made from is not as we wrote it."""
    for source in (states.view.source(i.table) for i in contract.inputs if i.basis is Basis.ARRIVALS):
        if doubted := source.doubted_arrivals():
            changed = f"another program changed the ledger {source.ledger_name} of {_listed(doubted)}"
            raise InputMissing(
                f"the table {contract.name}",
                f"{changed}, which says what days are made from",
                "Nothing was written",
                f"Load these days again, which writes it anew: `{reload_command(source.table, doubted)}`",
            )


def reload_command(landed: str, days: Collection[date]) -> str:
    """What an operator types to load these arrival days of the landed table again, and with them the ledgers."""
    return f"backfill-assets backfill --from {min(days)} --to {max(days)} --tables {landed}"


def _listed(days: Iterable[date]) -> str:
    return ", ".join(str(r) for r in contiguous(days)[:5]) + (", ..." if len(contiguous(days)) > 5 else "")


def nothing_to_do(states: States, contract: Contract, days: DayRange) -> Candidate:
    """A candidate of settled days only: publishing it changes nothing."""
    before = states.view.table(contract.name)
    entries = {d: before.stamps[d].entry for d in days}
    return Candidate(
        contract,
        days,
        frozenset(days),
        {d: as_profile(e) for d, e in entries.items()},
        entries,
        before,
        states.frontier(contract.name),
        None,
        commit=lambda: Published(before.version, ""),
        release=lambda: None,
    )


def _of_its_span(frame: "DataFrame", contract: Contract, span: DayRange, spans: Sequence[DayRange]) -> "DataFrame":
    """The rows made for one of several spans. One that lies on another day of the chunk loses its day: it would count
    as made for that day, so it is refused as rows without a day are."""
    from pyspark.sql import functions as F

    if len(spans) == 1:
        return frame
    day = frame[contract.day_column]
    own = day.between(F.lit(span.start), F.lit(span.last))
    other = day.between(F.lit(spans[0].start), F.lit(spans[-1].last))
    return frame.withColumn(contract.day_column, F.when(own | ~other, day))


def _without_days(frame: "DataFrame", contract: Contract, days: Collection[date]) -> "DataFrame":
    """The frame without the rows of these days. A row without a day stays: it is refused by name, never dropped."""
    if not days:
        return frame
    day = frame[contract.day_column]
    return frame.where(day.isNull() | ~day.isin(sorted(days)))


def _transformed(lake_session: LakeSession, states: States, table: Table, chunk: Chunk) -> "DataFrame":
    if table.transform is None:
        raise ValueError(f"{table.name} has no transform: it is loaded, not built")
    days = chunk.days
    frames = {i.table: _input_frame(lake_session, states, table.contract, i, chunk) for i in table.contract.inputs}
    with telling_mistakes(table):
        frame = table.transform(frames, chunk)
        refuse_unequal(table, frame, frames, states.contracts, lake_session.engine.engine)
        refuse_unsteady(lake_session.spark(), table, frame, states.contracts)
    pending = [d for d in days if states.is_pending(table.contract, d)]
    # for what may not be learnt from while an input is missing
    dropped = [d for d in days if table.drops_incomplete and states.built_as(table.name, d) is Built.INCOMPLETE]
    return _without_days(frame, table.contract, [*pending, *dropped])


def _input_frame(
    lake_session: LakeSession, states: States, contract: Contract, wanted: Input, chunk: Chunk
) -> "DataFrame":
    """The input's days that the range needs, pinned at the version that the view saw (raw: that arrivals names)."""
    view, days = states.view, chunk.days
    upstream, version = states.contracts[wanted.table], _version_read(view, wanted)
    if wanted.basis is Basis.ARRIVALS:
        source = view.source(wanted.table)
        listed = {a for d in chunk.wanted or days for a, _ in source.arrivals.get(d, ())}
        everything = len(listed) >= sum(1 for s in source.loaded.stamps.values() if s.entry.rows)
        days_read = None if everything else listed
        return _with_columns(lake_session.read(wanted.table, version, upstream.day_column, days_read), upstream)
    needed = {d for day in (days.start, days.last) for d in days_of(wanted, day, view)}
    span = DayRange(min(needed), contiguous(needed)[-1].end)
    frame = _with_columns(lake_session.read_span(wanted.table, version, upstream.day_column, span), upstream)
    return frame.select(*wanted.columns) if wanted.columns else frame


def _with_columns(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """The columns of today's contract: what the table has not got yet is NULL, what it has beside them is left out."""
    from pyspark.sql import functions as F

    there = set(frame.columns)
    if there == set(contract.column_names):
        return frame
    absent = {c.name: F.lit(None).cast(spark_name(c.kind)) for c in contract.columns if c.name not in there}
    added = frame.withColumns(absent) if absent else frame  # Spark Connect refuses to add none
    return added.select(*contract.column_names)


def _version_read(view: LakeView, wanted: Input) -> int:
    """The version of an input that a build reads and its receipt names: the head; of raw, what arrivals names."""
    if wanted.basis is Basis.ARRIVALS:
        return view.source(wanted.table).ledger.inputs[wanted.table]
    return view.table(wanted.table).version


def _candidate(
    request: RebuildRequest,
    states: States,
    settled: frozenset[date],
    staged: Staged,
    profiles: dict[date | None, DayProfile],
    kept: Mapping[date, int],
) -> Candidate:
    contract, view, days = request.table.contract, states.view, request.days
    name, before = contract.name, view.table(contract.name)
    for day in days:
        profiles.setdefault(day, as_profile(before.stamps[day].entry) if day in settled else DayProfile())
    made = {
        d: as_merged(
            DayEntry(
                profiles[d].rows, profiles[d].fingerprint, states.digests.of(name, d), states.built_as(name, d),
                kept_counts(profiles[d], contract.nullable_columns), parts=profiles[d].parts,
            ),
            kept.get(d, 0),
        )
        for d in days
        if d not in settled
    }  # fmt: skip
    said = request.signed(states, {i.table: _version_read(view, i) for i in contract.inputs})
    write = Write(contract, staged, made, before.version, said, force=request.force, merges=request.merges)

    def digests_now(asked: Iterable[date]) -> Mapping[date, str]:
        """The input digests by the heads as they are when it is called."""
        now = request.states()
        return {d: now.digests.of(name, d) for d in asked}

    return Candidate(
        contract=contract,
        chunk=days,
        settled=settled,
        profiles=profiles,
        entries={d: before.stamps[d].entry for d in settled} | made,
        before=before,
        frontier=states.frontier(name),
        staged=staged,
        commit=lambda: replace_days(request.lake_session.lake, write, digests_now),
        release=staged.drop,
        absent={d: missing for d in made if (missing := states.absent(name, d))},
    )
