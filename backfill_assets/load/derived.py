"""Building the candidate of a table other than raw: rows made from pinned inputs, staged and audited.

Not here: raw (`raw`), the plan of the rows (`making`), the gates (`lake.gates`) and the write (`lake.replace`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.core.errors import InputMissing, SettingsError
from backfill_assets.core.frontier import is_lowered
from backfill_assets.core.profiles import DayProfile, kept_counts
from backfill_assets.core.readings import rows_read
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import States
from backfill_assets.lake.audit import audit
from backfill_assets.lake.replace import Write, days_held, replace_days
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.writing import conform, stage
from backfill_assets.load.candidate import Candidate, RebuildRequest, settled_candidate
from backfill_assets.load.declared_limits import refuse_settings
from backfill_assets.load.facts import staged_facts
from backfill_assets.load.making import as_merged, made, merged, version_read
from backfill_assets.load.steadiness import refuse_changed_settings


def build(request: RebuildRequest) -> Candidate:
    """The candidate of a table that is made from other tables. Nothing is written.

    Raises InputMissing, DaysHeld, SettingsError, ContractBroken, EngineLost.
    """
    phase, table, days = request.phases.phase, request.table, request.days
    refuse_settings(request.lake_session.lake.settings, request.pipeline.contracts)
    with phase("states"):
        states = request.states()
    refuse_unbuildable(states, table.contract, days)
    settled = settled_candidate(states, table.contract, days, settled_days(request, states))
    todo = [d for d in days if d not in settled.settled]
    if not todo:
        return settled
    staged = written(request, states, todo)
    try:
        with phase("merge"):
            kept = merged(request, states, staged, todo)
        return _computed(request, states, settled, staged, kept)
    except BaseException:
        staged.drop()
        raise


def written(request: RebuildRequest, states: States, todo: Sequence[date]) -> Staged:
    """The rows of the days to do, staged. The caller owns what it returns."""
    contract, settled = request.table.contract, [d for d in request.days if d not in frozenset(todo)]
    with request.phases.phase("transform"):
        frame = made(request, states, todo, settled)
    with request.phases.phase("write"):
        refuse_changed_settings(request.lake_session.spark(), f"the table {contract.name}")
        return stage(request.lake_session.lake, contract, conform(frame, contract), len(todo))


def profiled(request: RebuildRequest, staged: Staged) -> Mapping[date | None, DayProfile]:
    """The profile of every day of what was staged."""
    with request.phases.phase("audit"):
        parts = rows_read(request.pipeline.contracts, request.table.name)
        return audit(request.lake_session.lake, staged.paths, request.table.contract, parts)


def settled_days(request: RebuildRequest, states: States) -> frozenset[date]:
    """The days that need no computing: their receipts say that the same work gave what is there."""
    if request.force:
        return frozenset()
    return frozenset(d for d in request.days if states.is_settled(request.table.name, d, request.merges))


def refuse_unbuildable(states: States, contract: Contract, days: DayRange) -> None:
    """Raise where a day is held, `as_of` was lowered, or the day itself does not exist in an input table; names what
    to do first."""
    held = [d for d in days if (s := states.stamp(contract.name, d)) is not None and s.entry.built is Built.HELD]
    if held:
        raise days_held(contract, held)
    refuse_lowered(states, contract)
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


def refuse_lowered(states: States, contract: Contract) -> None:
    """Raise where `as_of` lies before what is loaded of a source of the table: its days would forget what they know."""
    as_of, sources = states.view.as_of, states.frontiers.sources_of(contract.name)
    if as_of is not None and any(is_lowered(states.view.source(s)) for s in sources):
        raise SettingsError(
            "as_of in lake.toml",
            f"{as_of:%Y-%m-%dT%H:%M:%SZ} lies before what is loaded already",
            "Nothing was written",
            "Raise it again; to see the past, make a second lake with the earlier as_of over the same files",
        )


def _refuse_doubted(states: States, contract: Contract) -> None:
    """Raise where another program changed the ledger of the deliveries that the days are made from."""
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
    """The command that loads these arrival days of the landed table again, and with them the ledgers."""
    return f"backfill-assets backfill --from {min(days)} --to {max(days)} --tables {landed}"


def _listed(days: Iterable[date]) -> str:
    return ", ".join(str(r) for r in contiguous(days)[:5]) + (", ..." if len(contiguous(days)) > 5 else "")


def _computed(
    request: RebuildRequest, states: States, settled: Candidate, staged: Staged, kept: Mapping[date, int]
) -> Candidate:
    """The candidate with the staged rows of the days that are not settled; `kept`: rows per day that a merge keeps."""
    contract, view, name = request.table.contract, states.view, request.table.name
    profiles = {**settled.profiles, **profiled(request, staged)}
    made = {
        d: as_merged(
            DayEntry(
                profiles[d].rows, profiles[d].fingerprint, states.digests.of(name, d), states.built_as(name, d),
                kept_counts(profiles[d], contract.nullable_columns), parts=profiles[d].parts,
            ),
            kept.get(d, 0),
        )
        for d in request.days
        if d not in settled.settled
    }  # fmt: skip
    with request.phases.phase("facts"):
        facts = staged_facts(request.lake_session, states, request.table, staged, profiles)
    said = request.signed(states, {i.table: version_read(view, i) for i in contract.inputs})
    base = settled.before.version
    write = Write(contract, staged, made, base, said, force=request.force, merges=request.merges)

    def digests_now(asked: Iterable[date]) -> Mapping[date, str]:
        """The input digests by the heads as they are when it is called."""
        now = request.states()
        return {d: now.digests.of(name, d) for d in asked}

    told = {d: facts.get(d, {}) | ({"kept_rows": kept[d]} if d in kept else {}) for d in {*facts, *kept}}
    return replace(
        settled,
        profiles=profiles,
        entries={**settled.entries, **made},
        staged=staged,
        commit=lambda: replace_days(request.lake_session.lake, write, digests_now),
        release=staged.drop,
        absent={d: missing for d in made if (missing := states.absent(name, d))},
        accounts={d: {"facts": f} for d, f in told.items()},
    )
