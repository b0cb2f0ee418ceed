"""Building the candidate of a table other than raw: rows made from pinned inputs, staged, audited,
perhaps merged.

Not here: raw (`raw`), computing rows (`computing`), the gates (`kernel.write.gates`) and the write
(`kernel.write.replace`). A merge keeps rows of a day whose key the new rows lack, and refuses to
without `--keep-removed`. Such a day gets `Built.MERGED` and shows as outdated; no sensor rebuilds
it for that, late data replaces it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from backfill_assets.kernel.core.commands import making_advice
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import DayRange, ranges_text
from backfill_assets.kernel.core.digests import input_days_of
from backfill_assets.kernel.core.errors import BackfillError, InputMissing, SettingsError
from backfill_assets.kernel.core.frontier import is_as_of_lowered
from backfill_assets.kernel.core.profiles import DayProfile, receipt_counts
from backfill_assets.kernel.core.readings import column_sets_read, contract_columns, lacking_columns
from backfill_assets.kernel.core.receipts import KEPT, Built, DayEntry
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.audit import sample_keys
from backfill_assets.kernel.write.candidate import (
    Candidate,
    Commits,
    RebuildRequest,
    day_facts,
    settled_candidate,
    settled_days,
)
from backfill_assets.kernel.write.computing import (
    days_read,
    refuse_dependent_days,
    stage_days,
    version_read,
)
from backfill_assets.kernel.write.judging import never_made_in_words, split_refused_days
from backfill_assets.kernel.write.replace import (
    Write,
    WriteResult,
    refuse_left_alone,
    replace_days,
)
from backfill_assets.kernel.write.session import Auditor, DuckDBAuditor, Session

SHOWN_KEYS = 3


def build_candidate(request: RebuildRequest) -> Candidate:
    """The candidate of a table that is made from other tables. Nothing is written.

    Raises InputMissing, DaysHeld, SettingsError, ContractBroken, EngineLost, and BackfillError for
    a refused merge.
    """
    phase, contract = request.phases.phase, request.table.contract
    is_merge = request.mode.keeps_standing_rows
    request.lake_session.refuse_expressions(request.pipeline.tables)
    if is_merge:
        refuse_merge(contract)
    with phase("states"):
        states = request.known.states
    refuse = partial(_refuse_days, states, contract, settled_days(request, states))
    request, unready = split_refused_days(request, refuse)
    settled = replace(settled_candidate(request, states), unready=unready)
    todo = [d for d in request.days if d not in settled.settled]
    if not todo:
        return settled
    staged = stage_days(request, states, todo)
    try:
        refuse_dependent_days(request, states, staged, todo)
        with phase("merge"):
            kept = _add_standing_rows(request, states, staged, todo) if is_merge else {}
        return _computed_candidate(request, states, settled, staged, kept)
    except BaseException:
        staged.drop()
        raise


def profile_staged(request: RebuildRequest, staged: Staged) -> Mapping[date | None, DayProfile]:
    """Audit the staged files: the profile of every day in them."""
    with request.phases.phase("audit"):
        parts = column_sets_read(request.pipeline.contracts, request.table.name)
        contract = request.table.contract
        auditor = request.lake_session.auditor(contract, staged.files)
        return auditor.profiles(contract, staged, parts)


def refuse_unbuildable(states: States, contract: Contract, days: Collection[date]) -> None:
    """Raise where a day is held or closed, `as_of` was lowered, a ledger of the inputs was changed
    by another program, or a day does not exist in an input table (`_missing_input_days`); names
    what to do first."""
    refuse_left_alone(contract, states.view.table(contract.name), days)
    refuse_lowered_dates(states, contract)
    lacking: dict[str, list[date]] = {}
    for wanted in contract.inputs:
        if wanted.kind is InputKind.ARRIVALS:
            _refuse_doubted_ledger(states, contract, wanted)
            is_loaded = states.view.source(wanted.table).ledger.exists
            absent = [] if is_loaded else list(days)
        elif wanted.kind is InputKind.FILES:
            absent = []
        else:
            absent = _missing_input_days(states, contract, wanted, days)
        if absent:
            lacking[wanted.table] = absent
    if lacking:
        raise _lacking_inputs_error(states, contract, lacking)


def _refuse_doubted_ledger(states: States, contract: Contract, wanted: Input) -> None:
    """Raise InputMissing where another program changed the ledger `arrivals` of this input."""
    source = states.view.source(wanted.table)
    doubted = source.doubted_arrivals()
    if not doubted:
        return
    raise InputMissing(
        f"the table {contract.name}",
        f"another program changed the ledger {source.ledger_name} of {ranges_text(doubted)}, which "
        "says what days are made from",
        "Nothing was written",
        f"Load these days again, which writes it anew: `{load_command(source.table, doubted)}`",
    )


def _lacking_inputs_error(
    states: States, contract: Contract, lacking: Mapping[str, Collection[date]]
) -> InputMissing:
    """The error about input days that were never made, by table."""
    inputs = {name: states.contracts[name] for name in lacking}
    if any(above.external for above in inputs.values()):
        fix = "`backfill-assets scan` looks whether others have written them"
    elif contract.made_by:
        first = [making_advice(inputs[name], days, can_run=False) for name, days in lacking.items()]
        fix = f"First {' and '.join(first)}"
    else:
        command = load_command(",".join(lacking), set[date]().union(*lacking.values()))
        fix = f"Materialize them first: `{command}`"
    error = InputMissing(
        f"the table {contract.name}", never_made_in_words(lacking), "Nothing was written", fix
    )
    error.lacking = lacking
    return error


def _missing_input_days(
    states: States, contract: Contract, wanted: Input, days: Collection[date]
) -> list[date]:
    """The input days that must exist and do not: for a table of ours each day itself, for rows that
    a step returned all days that it loaded. Of an input without that day (it has months) any that
    is read, where there is no table yet. A step makes the days of its own table after one
    another."""
    needed = set[date]()
    own = {*days} if wanted.table == contract.name else set()
    loads_all = contract.made_by and not states.contracts[wanted.table].external
    is_there = wanted.is_daily or states.view.table(wanted.table).exists
    for day in days:
        window = {*input_days_of(wanted, day, states.view)}
        own_day = {day} & window
        needed |= own_day if not loads_all and (own_day or is_there) else window
    return sorted(needed - own - states.view.table(wanted.table).latest.keys())


def _refuse_days(
    states: States, contract: Contract, up_to_date: Collection[date], wanted_days: DayRange
) -> None:
    """Raise as `refuse_unbuildable`, and where deliveries for a day were loaded without a column
    that is never NULL."""
    refuse_unbuildable(states, contract, wanted_days)
    days = [d for d in wanted_days if d not in up_to_date]
    undelivered = set[str]()
    for day in days:
        undelivered |= {*states.undelivered_columns(contract.name, day)}
    required = undelivered & {*contract.required_columns}
    if not required:
        return
    for wanted in contract.inputs:
        if wanted.kind is InputKind.ARRIVALS:
            _refuse_undelivered(states, contract, wanted, days, required)


def _refuse_undelivered(
    states: States,
    contract: Contract,
    wanted: Input,
    days: Collection[date],
    required: Collection[str],
) -> None:
    """Raise InputMissing where arrival days that these days read were loaded without a column of
    those `required`."""
    loaded = states.view.source(wanted.table).loaded.latest
    columns = [c for c in states.contracts[wanted.table].columns if c.name in required]
    without = []
    for arrival in sorted(days_read(states.view, wanted, days) & loaded.keys()):
        if lacking_columns(loaded[arrival].entry, columns):
            without.append(arrival)
    if not without:
        return
    raise InputMissing(
        f"the table {contract.name}",
        f"{wanted.table} {ranges_text(without)} was loaded without {', '.join(sorted(required))}, "
        "which is never NULL",
        "Nothing was written",
        f"Load these days again: `{load_command(wanted.table, without)}`",
    )


def refuse_lowered_dates(states: States, contract: Contract) -> None:
    """Raise SettingsError where `as_of` lies before loaded deliveries of a source of the table,
    because days would lose rows, or where `start_date` lies after written days, which no write
    could change any more."""
    if early := states.before_start():
        raise SettingsError(
            "start_date in lake.toml",
            f"{states.view.start} lies after {ranges_text(early)}, of which tables hold rows that "
            "no "
            "write could change",
            "Nothing was written",
            f"Lower it to {early[0]} again; to begin later, make a second lake with the later "
            "start_date over the same "
            "files",
        )
    as_of = states.view.as_of
    sources = states.frontiers.sources_of(contract.name)
    if as_of is not None and any(is_as_of_lowered(states.view.source(s)) for s in sources):
        raise SettingsError(
            "as_of in lake.toml",
            f"{as_of:%Y-%m-%dT%H:%M:%SZ} lies before what is loaded already",
            "Nothing was written",
            "Raise it again; to see the past, make a second lake with the earlier as_of over the "
            "same files",
        )


def load_command(tables: str, days: Collection[date]) -> str:
    """The command that makes these days of the tables; of a landed one it writes its ledgers
    again."""
    return f"backfill-assets backfill --from {min(days)} --to {max(days)} --tables {tables}"


def refuse_merge(contract: Contract, candidates: Iterable[Contract] = ()) -> None:
    """Raise BackfillError where a table cannot be merged: landed tables, and tables with several
    days in a file. The advice names which of the tables `candidates` can be."""
    culprit = _why_not_mergeable(contract)
    if not culprit:
        return
    fit = ",".join(c.name for c in candidates if not _why_not_mergeable(c))
    raise BackfillError(
        f"the table {contract.name}",
        f"its days cannot be merged: {culprit}",
        "Nothing was written",
        f"Leave it out of the plan (--tables{fit and f' {fit}'}), or use --write-mode overwrite",
    )


def _why_not_mergeable(contract: Contract) -> str:
    """Why a table cannot be merged, as the end of a sentence; "" where it can."""
    if contract.external:
        return "others write it"
    if contract.made_by:
        return f"the asset {contract.made_by} returns its rows"
    if contract.is_landed:
        return "it holds every delivery that landed, which is loaded as a whole or not at all"
    return "" if contract.is_by_day else "its files hold several days each"


def _add_standing_rows(
    request: RebuildRequest, states: States, staged: Staged, days: Sequence[date]
) -> Mapping[date, int]:
    """Add to `staged` the rows of `days` that the new rows lack, and return their number per day.

    Raises BackfillError where rows would be kept without `MERGE_KEEPING`, and for days that are not
    complete.
    """
    contract = request.table.contract
    made_files = len(staged.files)  # of the new rows: the kept ones are added behind them
    version = states.view.table(contract.name).version
    kept = _count_standing_rows(request.lake_session, contract, staged, version, days)
    unready = [d for d in kept if states.built_as(contract.name, d) is not Built.COMPLETE]
    if unready:
        raise BackfillError(
            f"the table {contract.name}",
            f"{ranges_text(unready)} cannot be merged: its cut has not come, or required input "
            "days "
            "are missing",
            "Nothing was written",
            "Name days without them, or use --write-mode overwrite",
        )
    if kept and not request.mode.keeps_removed_rows:
        first, files = min(kept), [f.path for f in staged.files[made_files:]]
        keys = sample_keys(request.lake_session.lake, files, contract, first, "")
        raise BackfillError(
            f"the table {contract.name}",
            f"{sum(kept.values())} row(s) that stand on {ranges_text(kept)} are not among those "
            "made "
            "now: a merge would keep what a correction removed or moved; for example on "
            f"{first}: {', '.join(keys[:SHOWN_KEYS])}",
            "Nothing was written",
            "Plan with --write-mode overwrite, which takes them away, or with --keep-removed if "
            "they are to stay",
        )
    return kept


def _count_standing_rows(
    session: Session, contract: Contract, staged: Staged, version: int, days: Sequence[date]
) -> dict[date, int]:
    """Add the standing rows to `staged` as `Auditor.keep_rows` does, by the auditor that may read
    the files of both sides: this process, where the table has none on these days."""
    if not exists_at(version):
        return DuckDBAuditor(session.lake).keep_rows(contract, staged, version, days)
    stands = session.lake.store.files(contract, version, days, altered=True)
    auditor: Auditor = DuckDBAuditor(session.lake)
    if stands:
        auditor = session.auditor(contract, [*staged.files, *stands])
    return auditor.keep_rows(contract, staged, version, days)


def merged_entry(entry: DayEntry, kept: int) -> DayEntry:
    """Entry of a day that keeps `kept` rows; unchanged for 0."""
    if not kept:
        return entry
    return replace(entry, built=Built.MERGED, counts={**entry.counts, KEPT: kept})


def _computed_candidate(
    request: RebuildRequest,
    states: States,
    settled: Candidate,
    staged: Staged,
    kept: Mapping[date, int],
) -> Candidate:
    """The candidate with the staged rows of the days that are not settled; `kept`: rows per day
    that a merge keeps."""
    name = request.table.name
    profiles = {**settled.profiles, **profile_staged(request, staged)}
    entries, absent = dict[date, DayEntry](), dict[date, list[tuple[str, date]]]()
    for day in request.days:
        if day in settled.settled:
            continue
        entries[day] = _day_entry(request, states, day, profiles[day], kept.get(day, 0))
        if missing := [
            *states.missing_inputs(name, day),
            *states.inputs_lacking_columns(name, day),
        ]:
            absent[day] = missing
    with request.phases.phase("facts"):
        facts = day_facts(request.lake_session, states, request.table, staged, profiles)
    for day, rows in kept.items():
        facts.setdefault(day, {})["kept_rows"] = rows
    inputs = {i.table: version_read(states.view, i) for i in request.table.contract.inputs}
    return replace(
        settled,
        profiles=profiles,
        entries={**settled.entries, **entries},
        staged=staged,
        commit=_commit_of(request, states, settled.before.version, staged, entries, inputs),
        release=staged.drop,
        absent=absent,
        accounts={day: {"facts": numbers} for day, numbers in facts.items()},
        inputs=inputs,
    )


def _day_entry(
    request: RebuildRequest, states: States, day: date, profile: DayProfile, kept: int
) -> DayEntry:
    """What the receipt says of a computed day with these rows, of which a merge keeps `kept`."""
    contract, name = request.table.contract, request.table.name
    without = {*states.undelivered_columns(name, day)}
    if kept:  # these rows have no values in columns that the day's files lacked
        without |= {*states.lacking_columns(name, day)}
    entry = DayEntry(
        profile.rows,
        profile.fingerprint,
        states.digests.of(name, day),
        states.built_as(name, day),
        receipt_counts(profile, contract.nullable_columns),
        parts=profile.parts,
        columns=contract_columns(contract, without),
    )
    return merged_entry(entry, kept)


def _commit_of(
    request: RebuildRequest,
    states: States,
    base_version: int,
    staged: Staged,
    entries: Mapping[date, DayEntry],
    inputs: Mapping[str, int],
) -> Commits:
    """How the staged rows of these days are published."""
    write = Write(
        request.table.contract,
        staged,
        entries,
        base_version,
        request.signed(states, inputs),
        force=request.force,
        mode=request.mode,
    )

    def digests_now(days: Iterable[date]) -> Mapping[date, str]:
        """Input digests of `days` by the heads at the time of the call."""
        now = request.known.read()
        return {d: now.digests.of(request.table.name, d) for d in days}

    def commit(kept_back: Collection[date] = ()) -> WriteResult:
        """Write the days that are not kept back, and delete the staged rows of the others."""
        written = {d: entry for d, entry in entries.items() if d not in kept_back}
        return replace_days(request.lake_session.lake, replace(write, entries=written), digests_now)

    return commit
