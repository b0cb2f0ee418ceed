"""One day of one table in full, and why a day is in its state: receipt, inputs, landed files,
quarantine, history.

A digest says that inputs differ, never which: the culprits come from comparing the input versions
in a receipt with the versions of the inputs' days now. Not here: the rule that picks the state
(`kernel.core.states`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind, reads
from backfill_assets.kernel.core.days import contiguous, cut_has_passed, cut_of, is_mature, ranges
from backfill_assets.kernel.core.digests import is_required
from backfill_assets.kernel.core.downstream import following
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.needs import first_unready, needed_days
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, target_of
from backfill_assets.kernel.core.receipts import KEPT, Built, Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view, writes_of
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import Hold
from backfill_assets.reading.fitness import input_days
from backfill_assets.reading.readable import readable_with
from backfill_assets.reading.rejected import refused_rows


def brief(states: States, table: str, day: date, state: State) -> str:
    """Return one short reason; empty for a fresh day."""
    if state is State.MISSING:
        return _why_missing(states, table, day)
    if state is State.STALE:
        return _why_stale(states, table, day)
    if state is State.PENDING and states.contracts[table].is_landed:
        return f"as_of ({states.view.as_of:%Y-%m-%dT%H:%MZ}) stops the lake before it"
    if state is State.PENDING:
        cut, frontier = cut_of(day, states.view.grace), states.frontier(table)
        until = f"{frontier:%Y-%m-%dT%H:%MZ}" if frontier else "not there yet: nothing is loaded"
        return f"its cut is {cut:%Y-%m-%dT%H:%MZ}, the frontier {until}"
    if state is State.INCOMPLETE:
        return (
            "input days are missing, or made without a column that is read: "
            f"{_listed(states, table, day)}"
        )
    if state is State.UNPINNED:
        receipt = states.latest(table, day)
        named = ", ".join(states.digests.unpinned(receipt)) if receipt is not None else ""
        return (
            f"its step also read {named}, which its receipt cannot name: nothing says whether "
            "that changed since"
        )
    if state is State.OUTDATED:
        return _why_outdated(states, table, day)
    return "put back by a rollback" if state is State.HELD else ""


def in_full(states: States, table: str, day: date, receipt: Receipt | None) -> tuple[str, ...]:
    """Return every known reason for the day's state; `receipt` is the newest that names the day."""
    state = states.of(table, day)
    reasons = [r for r in (brief(states, table, day, state),) if r]
    if state is State.HELD and receipt is not None:
        return (*reasons, *_of_rollback(table, day, receipt))
    if state is not State.STALE or receipt is None:
        return tuple(reasons)
    contract = states.contracts[table]
    for wanted in states.digests.inputs_of(table, day):
        reasons += _newer(states, wanted, day, receipt)
    if receipt.days[day].built is Built.PENDING and cut_has_passed(
        day, states.view.grace, states.frontier(table)
    ):
        reasons.append("its cut has passed since")
    ripe = contract.matures_after_days
    if (
        ripe is not None
        and is_mature(day, ripe, states.frontier(table))
        and not is_mature(day, ripe, receipt.frontier)
    ):
        reasons.append("its label has become mature since")
    return tuple(reasons)


def _of_rollback(table: str, day: date, receipt: Receipt) -> Iterator[str]:
    """Name the version, person and plan of the rollback, and the command that ends the hold."""
    hold = Hold({table: (day,)}, receipt.tags.get(PLAN_TAG, ""), receipt.tags.get(CHUNK_TAG, ""))
    by = f" by {receipt.tags[BY]}" if BY in receipt.tags else ""
    yield f"{hold.rollback}{by} gave it what it held at version {target_of(receipt, day)}"
    yield f"nothing makes it again until `{hold.release}`"


def _newer(states: States, wanted: Input, day: date, receipt: Receipt) -> Iterator[str]:
    """Name input days that were written after the versions in the receipt."""
    days, read, view = (
        input_days(states, wanted, day),
        receipt.inputs.get(wanted.table),
        states.view.table(wanted.table),
    )
    newer = [
        d for d in days if read is not None and d in view.latest and view.latest[d].version > read
    ]
    if newer:
        yield (
            f"{wanted.table} {ranges(newer)} was written after version {read}, from which this "
            "day was made"
        )
    foreign = [d for d in days if d in view.foreign]
    if foreign:
        yield f"{wanted.table} {ranges(foreign)} was touched by a commit that is not ours"


def _why_missing(states: States, table: str, day: date) -> str:
    contract, early = (
        states.contracts[table],
        "the day is not over yet (UTC); " if day >= utc_today() else "",
    )
    if contract.is_landed:
        if landed := states.view.source(table).landed.get(day):
            return f"{early}never loaded; {len(landed.shas)} landed file(s) name it"
        return f"{early}no landed file names it; a backfill of {table} records it as empty"
    built = [
        i.table for i in contract.inputs if i.kind not in (InputKind.ARRIVALS, InputKind.FILES)
    ]
    absent = [f"{name} {day}" for name in built if day not in states.view.table(name).latest]
    return f"{early}never built" + (
        f"; first build {', '.join(absent)}" if absent and not early else ""
    )


def _why_stale(states: States, table: str, day: date) -> str:
    if day in states.view.table(table).foreign:
        return "a commit that is not ours touched it"
    receipt = states.latest(table, day)
    source = states.view.source(table)
    if states.contracts[table].is_landed and receipt is not None:
        if receipt.version > source.loaded_version:
            return "its load ended before the ledger arrivals named it"
        if source.is_doubted(day):
            return "a commit that is not ours touched its rows in a ledger"
        landed, as_of = source.landed.get(day), states.view.as_of
        files = f"{len(landed.shas) if landed else 0} file(s) name it now"
        stop = f", as_of is {as_of:%Y-%m-%dT%H:%MZ}" if as_of else ""
        return (
            f"its landed files, as_of or what `replay-late` released changed since: {files}{stop}"
        )
    if reads(states.contracts[table].inputs, InputKind.ARRIVALS):
        return "deliveries for it were loaded or taken back since"
    return "its inputs changed since"


def _why_outdated(states: States, table: str, day: date) -> str:
    receipt, today = states.latest(table, day), states.codes.get(table)
    if receipt is None or today is None:
        return "other code or settings"
    if receipt.entry.built is Built.MERGED:
        kept = receipt.entry.counts.get(KEPT, 0)
        return (
            f"merged: {kept} row(s) stand there that its inputs do not give; an overwrite takes "
            "them away"
        )
    moved = {"code": not today.has_code_of(receipt), "settings": not today.has_settings_of(receipt)}
    return f"made by other {' and '.join(name for name, is_so in moved.items() if is_so)}"


def _listed(states: States, table: str, day: date) -> str:
    absent = [*states.absent(table, day), *states.lacking(table, day)]
    names = dict.fromkeys(name for name, _ in absent)
    listed = [f"{name} {ranges([d for n, d in absent if n == name])}" for name in names]
    return "; ".join(listed) or "they exist now, or an input is incomplete itself"


def holds(lake: Lake, states: States, held: Mapping[str, list[date]]) -> tuple[Hold, ...]:
    """Group held days (per table) by their rollback. Reads only the commits that hold them."""
    of_plans: dict[tuple[str, str], dict[str, list[date]]] = {}
    of_tables: list[Hold] = []
    for table, days in held.items():
        alone: list[date] = []
        latest = {
            d: day_receipt
            for d in sorted(days)
            if (day_receipt := states.latest(table, d)) is not None
        }
        for receipt, dates in writes_of(lake.store, table, latest):
            if receipt is not None and PLAN_TAG in receipt.tags:
                key = (receipt.tags[PLAN_TAG], receipt.tags.get(CHUNK_TAG, ""))
                of_plans.setdefault(key, {}).setdefault(table, []).extend(dates)
            else:
                alone += dates
        of_tables += [Hold({table: tuple(span)}) for span in contiguous(alone)]
    planned = [
        Hold({t: tuple(sorted(d)) for t, d in dates.items()}, *key)
        for key, dates in of_plans.items()
    ]
    return (*planned, *of_tables)


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


@dataclass(frozen=True)
class DayWrite:
    """One write of the day."""

    version: int
    at: datetime  # of its commit (aware)
    receipt: Receipt

    def to_dict(self, day: date) -> dict[str, Any]:
        """Return the write with its entry of `day` as JSON values."""
        entry, receipt = self.receipt.days[day], self.receipt
        write = {"version": self.version, "at": self.at, "days_in_write": len(receipt.days)}
        write |= {
            name: getattr(entry, name) for name in ("rows", "fingerprint", "built", "input_digest")
        }
        write |= {
            name: getattr(receipt, name)
            for name in ("reason", "note", "run_id", "write_id", "frontier")
        }
        write |= {"code": receipt.code_digest, "settings": receipt.settings_digest}
        write |= {"inputs": receipt.inputs, "tags": receipt.tags}
        values: dict[str, Any] = json_of(write)
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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        history = [write.to_dict(self.day) for write in self.history]
        values: dict[str, Any] = json_of(vars(self) | {"history": history})
        return values | {"receipt": history[0] if history else None}


def show(lake: Lake, pipeline: Pipeline, table: str, day: date) -> DayReport:
    """Return the report of a day; raises BackfillError as `find` does."""
    contract = find(lake, pipeline, table, day)
    known = readable_with(lake, pipeline, [table])
    states = known.states(read_view(lake, known.contracts))
    commits = [c for c in lake.store.commits(table) if c.names(day)]
    history = tuple(
        DayWrite(c.version, c.at, c.receipt) for c in reversed(commits) if c.receipt is not None
    )
    reasons = in_full(states, table, day, history[0].receipt if history else None)
    inputs = tuple(_inputs(states, contract, day))
    if not contract.is_landed:
        changing = following(states, needed := needed_days(states))
        again = {name: days | changing[name] for name, days in needed.items()}
        first = first_unready(states, table, day, again, {}) if day in changing[table] else None
        return DayReport(
            table,
            day,
            states.of(table, day),
            reasons,
            inputs,
            history,
            will_change=day in changing[table],
            changes_after=" ".join(map(str, first or ())),
        )
    records = [r for r in read_files(lake.store, contract.source) if day in r.days]
    files = tuple(
        LandedPart(r.path, r.sha256, *r.days[day][:2], r.withdrawn, r.is_as_declared)
        for r in records
    )
    refused = refused_rows(lake, contract.source, day)
    return DayReport(table, day, states.of(table, day), reasons, inputs, history, files, refused)


def find(lake: Lake, pipeline: Pipeline, table: str, day: date) -> Contract:
    """Return the contract of a table; raises BackfillError for an unknown table or a day before the
    first."""
    contract = pipeline.contract(table, "There is nothing to show")
    if day < lake.settings.start_date:
        culprit = f"it lies before the lake's first day, {lake.settings.start_date}"
        raise BackfillError(
            f"the day {day}", culprit, "There is nothing to show", "Ask for a later day"
        )
    return contract


def _inputs(states: States, contract: Contract, day: date) -> list[InputDay]:
    frontier = states.frontier(contract.name)
    required_of = {
        (wanted.table, d): wanted.kind is InputKind.ARRIVALS or is_required(d, day, frontier)
        for wanted in states.digests.inputs_of(contract.name, day)
        for d in input_days(states, wanted, day)
    }
    days = []
    for (table, d), required in sorted(required_of.items()):
        receipt = states.latest(table, d)
        days.append(
            InputDay(
                table, d, states.of(table, d), receipt.entry.rows if receipt else None, required
            )
        )
    return days
