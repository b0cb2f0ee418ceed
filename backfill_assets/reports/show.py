"""One day of one table in full, and why a day is in its state: receipt, inputs, landed files,
quarantine, history.

A digest says that inputs differ, never which: the culprits come from comparing the input versions
in a receipt with the versions of the inputs' days now. Not here: the rule that picks the state
(`kernel.core.states`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import NotRequired, TypedDict

from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.core.answers import DayText, InstantText
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind, has_input_kind
from backfill_assets.kernel.core.days import (
    contiguous_ranges,
    cut_has_passed,
    cut_of,
    is_mature,
    ranges_text,
)
from backfill_assets.kernel.core.digests import is_required
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.needs import first_unready_input, needed_days
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, restored_version
from backfill_assets.kernel.core.receipts import KEPT, Built, Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view, writes_of
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import Hold
from backfill_assets.reading.downstream import stale_after_rebuild
from backfill_assets.reading.fitness import input_days
from backfill_assets.reading.readable import readable_with
from backfill_assets.reading.rejected import refused_rows


def brief_reason(states: States, table: str, day: date, state: State) -> str:
    """Return one short reason; empty for a fresh day."""
    if state is State.FRESH:
        return ""
    reasons: dict[State, Callable[[States, str, date], str]] = {
        State.MISSING: _why_missing,
        State.STALE: _why_stale,
        State.PENDING: _why_pending,
        State.INCOMPLETE: _why_incomplete,
        State.UNPINNED: _why_unpinned,
        State.OUTDATED: _why_outdated,
        State.PROVISIONAL: _why_provisional,
    }
    if state in reasons:
        return reasons[state](states, table, day)
    if state is State.CLOSED:
        return f"closed; open, it would be {states.of_open(table, day).value}"
    return "put back by a rollback" if state is State.HELD else ""


def full_reasons(states: States, table: str, day: date, receipt: Receipt | None) -> tuple[str, ...]:
    """Return every known reason for the day's state, the short one first; `receipt` is the newest
    that names the day (None: it has none, so that there is only the short one)."""
    state = states.of(table, day)
    reasons = []
    if brief := brief_reason(states, table, day, state):
        reasons.append(brief)
    if receipt is None:
        return tuple(reasons)
    if state is State.CLOSED:
        reasons += _closing_reasons(states, table)
    if state is State.HELD:
        reasons += _rollback_reasons(table, day, receipt)
    if state is State.STALE:
        for wanted in states.digests.inputs_of(table, day):
            reasons += _newer_inputs(states, wanted, day, receipt)
        reasons += _time_passed(states, table, day, receipt)
    return tuple(reasons)


def _time_passed(states: States, table: str, day: date, receipt: Receipt) -> Iterator[str]:
    """Name what the frontier reached since the `receipt`: the cut of a pending day, and the
    maturity of a label."""
    frontier = states.frontier(table)
    was_pending = receipt.days[day].built is Built.PENDING
    if was_pending and cut_has_passed(day, states.view.grace, frontier):
        yield "its cut has passed since"
    contract = states.contracts[table]
    ripe, last = contract.matures_after_days, contract.calendar.last_of(day)
    if ripe is None or is_mature(last, ripe, receipt.frontier):
        return
    if is_mature(last, ripe, frontier):
        what = "label" if contract.calendar.is_of_days else contract.calendar.unit
        yield f"its {what} has become mature since"


def _closing_reasons(states: States, table: str) -> Iterator[str]:
    """Name who closed the table, why, and the command that opens it again."""
    closure = states.view.table(table).closure
    if closure is None:
        return
    person = f" by {closure.by}" if closure.by else ""
    why = f": {closure.note}" if closure.note else ""
    yield f"all days up to {closure.until} were closed{person}{why}"
    yield f"nothing makes them again until `backfill-assets reopen --tables {table}`"


def _rollback_reasons(table: str, day: date, receipt: Receipt) -> Iterator[str]:
    """Name the version, person and plan of the rollback, and the command that ends the hold."""
    hold = Hold({table: (day,)}, receipt.tags.get(PLAN_TAG, ""), receipt.tags.get(CHUNK_TAG, ""))
    person = f" by {receipt.tags[BY]}" if BY in receipt.tags else ""
    version = restored_version(receipt, day)
    yield f"{hold.rollback}{person} gave it what it held at version {version}"
    yield f"nothing makes it again until `{hold.release}`"


def _newer_inputs(states: States, wanted: Input, day: date, receipt: Receipt) -> Iterator[str]:
    """Name the days of the input `wanted` that were written after the version in the receipt, and
    those that another program touched."""
    view = states.view.table(wanted.table)
    read_version = receipt.inputs.get(wanted.table)
    newer, foreign = list[date](), list[date]()
    for input_day in input_days(states, wanted, day):
        written = view.latest.get(input_day)
        if read_version is not None and written is not None and written.version > read_version:
            newer.append(input_day)
        if input_day in view.foreign:
            foreign.append(input_day)
    if newer:
        yield (
            f"{wanted.table} {ranges_text(newer)} was written after version {read_version}, from "
            "which this day was made"
        )
    if foreign:
        yield f"{wanted.table} {ranges_text(foreign)} was touched by a commit that is not ours"


def _why_missing(states: States, table: str, day: date) -> str:
    """Say what the day waits for: its end, landed files, or days of the inputs."""
    contract, is_over = states.contracts[table], day < utc_today()
    early = "" if is_over else "the day is not over yet (UTC); "
    if contract.is_landed:
        if landed := states.view.source(table).landed.get(day):
            return f"{early}never loaded; {landed.contents} landed file(s) name it"
        return f"{early}no landed file names it; a backfill of {table} records it as empty"
    absent = _absent_tables(states, contract, day)
    if absent and is_over:
        return f"never built; first build {', '.join(absent)}"
    return f"{early}never built"


def _absent_tables(states: States, contract: Contract, day: date) -> list[str]:
    """Return the built inputs that lack the same day, each as TABLE DAY."""
    absent = []
    for read in contract.inputs:
        is_built = read.kind not in (InputKind.ARRIVALS, InputKind.FILES)
        if is_built and day not in states.view.table(read.table).latest:
            absent.append(f"{read.table} {day}")
    return absent


def _why_stale(states: States, table: str, day: date) -> str:
    """Say which kind of change made the day stale: another program's commit, landed files,
    deliveries, or inputs."""
    if day in states.view.table(table).foreign:
        return "a commit that is not ours touched it"
    receipt = states.latest(table, day)
    if states.contracts[table].is_landed and receipt is not None:
        return _why_load_is_stale(states, table, day, receipt.version)
    if has_input_kind(states.contracts[table].inputs, InputKind.ARRIVALS):
        return "deliveries for it were loaded or taken back since"
    return "its inputs changed since"


def _why_load_is_stale(states: States, table: str, day: date, version: int) -> str:
    """Return why a day of a landed table is stale; `version` of the table wrote it."""
    source = states.view.source(table)
    if version > source.loaded_version:
        return "its load ended before the ledger arrivals named it"
    if source.is_doubted(day):
        return "a commit that is not ours touched its rows in a ledger"
    landed, as_of = source.landed.get(day), states.view.as_of
    files = f"{landed.contents if landed else 0} file(s) name it now"
    stop = f", as_of is {as_of:%Y-%m-%dT%H:%MZ}" if as_of else ""
    return f"its landed files, as_of or what `replay-late` released changed since: {files}{stop}"


def _why_pending(states: States, table: str, day: date) -> str:
    """Say what the day waits for: `as_of` for a landed table, its cut for the others."""
    if states.contracts[table].is_landed:
        return f"as_of ({states.view.as_of:%Y-%m-%dT%H:%MZ}) stops the lake before it"
    cut, frontier = cut_of(day, states.view.grace), states.frontier(table)
    until = f"{frontier:%Y-%m-%dT%H:%MZ}" if frontier else "not there yet: nothing is loaded"
    return f"its cut is {cut:%Y-%m-%dT%H:%MZ}, the frontier {until}"


def _why_unpinned(states: States, table: str, day: date) -> str:
    """Name what the day's step read that its receipt cannot name."""
    receipt = states.latest(table, day)
    named = ", ".join(states.digests.unpinned(receipt)) if receipt is not None else ""
    return (
        f"its step also read {named}, which its receipt cannot name: nothing says whether "
        "that changed since"
    )


def _why_outdated(states: States, table: str, day: date) -> str:
    """Say what differs from today: code, settings, or rows that only a merge left there."""
    receipt, today = states.latest(table, day), states.codes.get(table)
    if receipt is None or today is None:
        return "other code or settings"
    if receipt.entry.built is Built.MERGED:
        kept_rows = receipt.entry.counts.get(KEPT, 0)
        return (
            f"merged: {kept_rows} row(s) stand there that its inputs do not give; an overwrite "
            "takes them away"
        )
    changed = []
    if not today.has_code_of(receipt):
        changed.append("code")
    if not today.has_settings_of(receipt):
        changed.append("settings")
    return f"made by other {' and '.join(changed)}"


def _why_provisional(states: States, table: str, day: date) -> str:
    """Name the input days that an asset's period still waits for; else its last day, which the
    frontier has not passed."""
    calendar = states.contracts[table].calendar
    days_of: dict[str, list[date]] = {}
    for name, input_day in states.days_to_come(table, day):
        days_of.setdefault(name, []).append(input_day)
    listed = "; ".join(f"{name} {ranges_text(days)}" for name, days in days_of.items())
    waits_for = listed or f"its last day, {calendar.last_of(day)}"
    return f"the {calendar.unit} is not over: {waits_for} is still to come"


def _why_incomplete(states: States, table: str, day: date) -> str:
    """Name the input days that are missing or were made without a column that is read. There may
    be none: they exist by now, or are incomplete themselves."""
    days_of: dict[str, list[date]] = {}
    missing = states.missing_inputs(table, day)
    lacking = states.inputs_lacking_columns(table, day)
    for name, input_day in (*missing, *lacking):
        days_of.setdefault(name, []).append(input_day)
    listed = "; ".join(f"{name} {ranges_text(days)}" for name, days in days_of.items())
    known = listed or "they exist now, or an input is incomplete itself"
    return f"input days are missing, or made without a column that is read: {known}"


def rollback_holds(lake: Lake, states: States, held: Mapping[str, list[date]]) -> tuple[Hold, ...]:
    """Group held days (per table) by their rollback: a hold per chunk of a plan that was rolled
    back, then one per table and stretch of days that were put back without a plan.

    Reads only the commits that hold them.
    """
    days_by_chunk: dict[tuple[str, str], dict[str, list[date]]] = {}
    without_plan: list[Hold] = []
    for table, days in held.items():
        unplanned: list[date] = []
        receipts = ((day, states.latest(table, day)) for day in sorted(days))
        latest = {day: receipt for day, receipt in receipts if receipt is not None}
        for receipt, dates in writes_of(lake.store, table, latest):
            if receipt is not None and PLAN_TAG in receipt.tags:
                chunk_key = (receipt.tags[PLAN_TAG], receipt.tags.get(CHUNK_TAG, ""))
                days_by_chunk.setdefault(chunk_key, {}).setdefault(table, []).extend(dates)
            else:
                unplanned += dates
        without_plan += [Hold({table: tuple(span)}) for span in contiguous_ranges(unplanned)]
    of_plans = []
    for (plan, chunk), days_of in days_by_chunk.items():
        sorted_days = {table: tuple(sorted(dates)) for table, dates in days_of.items()}
        of_plans.append(Hold(sorted_days, plan, chunk))
    return (*of_plans, *without_plan)


@dataclass(frozen=True)
class InputDay:
    """One day of an input."""

    table: str
    day: date
    state: State
    rows: int | None  # by its newest receipt; None: it has none
    required: bool


@dataclass(frozen=True)
class LandedPart:
    """The rows of an arrival day in a landed file."""

    path: str
    sha256: str
    rows: int
    bad_rows: int  # of these the unusable ones
    withdrawn: bool
    as_declared: bool = False  # whether a manifest declares what it is


class DayWriteForm(TypedDict):
    """A write of a day as JSON values: its version, its receipt, and the day's entry."""

    version: int
    at: InstantText
    days_in_write: int
    rows: int
    fingerprint: str
    built: Built
    input_digest: str
    reason: str
    note: str
    run_id: str
    write_id: str
    frontier: InstantText | None
    code: str  # digest
    settings: str  # digest
    inputs: Mapping[str, int]  # table versions
    tags: Mapping[str, str]


class DayReportForm(TypedDict):
    """One day of one table."""

    table: str
    day: DayText
    state: State
    reasons: Sequence[str]
    inputs: Sequence[InputDay]
    history: Sequence[DayWriteForm]  # newest first
    receipt: DayWriteForm | None  # the one in force
    files: Sequence[LandedPart]
    quarantine: Mapping[str, int]  # rows by reason
    will_change: bool
    changes_after: str
    period: NotRequired[str]  # `month`, where the table has months


@dataclass(frozen=True)
class DayWrite:
    """One write of the day."""

    version: int
    at: datetime  # of its commit (aware)
    receipt: Receipt

    def to_dict(self, day: date) -> DayWriteForm:
        """Return the write with its entry of `day` as JSON values."""
        entry, receipt = self.receipt.days[day], self.receipt
        write = {
            "version": self.version,
            "at": self.at,
            "days_in_write": len(receipt.days),
            "rows": entry.rows,
            "fingerprint": entry.fingerprint,
            "built": entry.built,
            "input_digest": entry.input_digest,
            "reason": receipt.reason,
            "note": receipt.note,
            "run_id": receipt.run_id,
            "write_id": receipt.write_id,
            "frontier": receipt.frontier,
            "code": receipt.code_digest,
            "settings": receipt.settings_digest,
            "inputs": receipt.inputs,
            "tags": receipt.tags,
        }
        values: DayWriteForm = json_of(write)
        return values


@dataclass(frozen=True)
class DayReport:
    """One day of one table."""

    table: str
    day: date
    state: State
    reasons: tuple[str, ...]
    inputs: tuple[InputDay, ...]
    history: tuple[DayWrite, ...]  # newest first; the first is the receipt in force
    files: tuple[LandedPart, ...] = ()
    quarantine: Mapping[str, int] = field(default_factory=dict)
    will_change: bool = False  # right today, and stale once the days that it reads are rebuilt
    # TABLE DAY: then the first of the days that it reads and that are made again before it.
    changes_after: str = ""
    period: str = ""  # what begins on the day, e.g. `month`; "": the day is meant

    def to_dict(self) -> DayReportForm:
        """Return the report as JSON values; without `period` where it is empty."""
        history = [write.to_dict(self.day) for write in self.history]
        receipt = history[0] if history else None
        named = vars(self) | {"history": history, "receipt": receipt}
        if not self.period:
            del named["period"]
        values: DayReportForm = json_of(named)
        return values


def report_of_day(lake: Lake, pipeline: Pipeline, table: str, day: date) -> DayReport:
    """Return the report of a day, of the month around it where the table has months; raises
    BackfillError as `find_contract` does."""
    contract = find_contract(lake, pipeline, table, day)
    calendar = contract.calendar
    day = calendar.key_at(day)
    known = readable_with(lake, pipeline, [table])
    states = known.states(read_view(lake, known.contracts))
    history = _writes_of_day(lake, table, day)
    newest_receipt = history[0].receipt if history else None
    found = DayReport(
        table=table,
        day=day,
        state=states.of(table, day),
        reasons=full_reasons(states, table, day, newest_receipt),
        inputs=tuple(_input_days(states, contract, day)),
        history=history,
        period="" if calendar.is_of_days else str(calendar.unit),
    )
    if contract.is_landed:
        files = tuple(_landed_parts(lake, contract, day))
        return replace(found, files=files, quarantine=refused_rows(lake, contract.source, day))
    needed = needed_days(states)
    changing = stale_after_rebuild(states, needed)
    if day not in changing[table]:
        return found
    made_again = {name: days | changing[name] for name, days in needed.items()}
    first = first_unready_input(states, table, day, made_again, {})  # (table, day), or None
    changes_after = " ".join(map(str, first or ()))
    return replace(found, will_change=True, changes_after=changes_after)


def _writes_of_day(lake: Lake, table: str, day: date) -> tuple[DayWrite, ...]:
    """Return the commits with a receipt that name the day, the newest first."""
    writes = []
    for commit in lake.store.commits(table):
        if commit.names(day) and commit.receipt is not None:
            writes.append(DayWrite(commit.version, commit.at, commit.receipt))
    return tuple(reversed(writes))


def _landed_parts(lake: Lake, contract: Contract, day: date) -> Iterator[LandedPart]:
    """Yield the rows of an arrival day in each landed file that has some."""
    for record in read_files(lake.store, contract.source):
        if day in record.days:
            counted, is_declared = record.days[day], record.is_as_declared
            yield LandedPart(
                path=record.path,
                sha256=record.sha256,
                rows=counted.rows,
                bad_rows=counted.bad,
                withdrawn=record.withdrawn,
                as_declared=is_declared,
            )


def find_contract(lake: Lake, pipeline: Pipeline, table: str, day: date) -> Contract:
    """Return the contract of a table; raises BackfillError for an unknown table or a day before the
    first."""
    contract = pipeline.contract(table, "There is nothing to show")
    if day < lake.settings.start_date:
        culprit = f"it lies before the lake's first day, {lake.settings.start_date}"
        raise BackfillError(
            f"the day {day}", culprit, "There is nothing to show", "Ask for a later day"
        )
    return contract


def _input_days(states: States, contract: Contract, day: date) -> list[InputDay]:
    """Return the input days of a day, by table and day. Days of arrivals are always required, the
    others as `is_required` says."""
    frontier = states.frontier(contract.name)
    required_of: dict[tuple[str, date], bool] = {}
    for wanted in states.digests.inputs_of(contract.name, day):
        is_arrivals = wanted.kind is InputKind.ARRIVALS
        for input_day in input_days(states, wanted, day):
            required = is_arrivals or is_required(input_day, day, frontier)
            required_of[wanted.table, input_day] = required
    days = []
    for (table, input_day), required in sorted(required_of.items()):
        receipt = states.latest(table, input_day)
        rows = receipt.entry.rows if receipt else None
        state = states.of(table, input_day)
        days.append(InputDay(table, input_day, state, rows, required))
    return days
