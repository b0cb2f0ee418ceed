"""Everything known about one day of one table: state and reasons, receipt, inputs, landed files, quarantine, history.

Not here: the rows of the table, which any Delta reader shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.digests import is_required
from backfill_assets.core.downstream import will_change
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.json_values import json_of
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.states import State, States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import read_files
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.rejected import refused_rows
from backfill_assets.operations.why import in_full, input_days


@dataclass(frozen=True)
class InputDay:
    """One day of an input: its state, the rows of its newest receipt (None: no receipt), and whether it is required."""

    table: str
    day: date
    state: State
    rows: int | None
    required: bool


@dataclass(frozen=True)
class LandedPart:
    """The rows of an arrival day in a landed file, how many of them are unusable, and whether the file was held against
    a manifest and is what that declares."""

    path: str
    sha256: str
    rows: int
    bad_rows: int
    withdrawn: bool
    as_declared: bool = False


@dataclass(frozen=True)
class DayWrite:
    """One write of the day: its version, when it was committed (aware), and its receipt."""

    version: int
    at: datetime
    receipt: Receipt

    def to_dict(self, day: date) -> dict[str, Any]:
        """Return the write with its entry of `day` as JSON values."""
        entry, said = self.receipt.days[day], self.receipt
        write = {"version": self.version, "at": self.at, "days_in_write": len(said.days)}
        write |= {name: getattr(entry, name) for name in ("rows", "fingerprint", "built", "input_digest")}
        write |= {name: getattr(said, name) for name in ("reason", "note", "run_id", "write_id", "frontier")}
        write |= {"code": said.code_digest, "settings": said.settings_digest, "inputs": said.inputs, "tags": said.tags}
        values: dict[str, Any] = json_of(write)
        return values


@dataclass(frozen=True)
class DayReport:
    """One day of one table. `history` is newest first: its first entry is the receipt in force."""

    table: str
    day: date
    state: State
    reasons: tuple[str, ...]
    inputs: tuple[InputDay, ...]
    history: tuple[DayWrite, ...]
    files: tuple[LandedPart, ...] = ()
    quarantine: Mapping[str, int] = field(default_factory=dict)
    will_change: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        history = [write.to_dict(self.day) for write in self.history]
        values: dict[str, Any] = json_of(vars(self) | {"history": history})
        return values | {"receipt": history[0] if history else None}


def show(lake: Lake, pipeline: Pipeline, table: str, day: date) -> DayReport:
    """Return the report of a day; raises BackfillError as `find` does."""
    contract = find(lake, pipeline, table, day)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    commits = [c for c in lake.store.commits(table) if c.names(day)]
    history = tuple(DayWrite(c.version, c.at, c.receipt) for c in reversed(commits) if c.receipt is not None)
    reasons = in_full(states, table, day, history[0].receipt if history else None)
    inputs, follows = tuple(_inputs(states, contract, day)), day in will_change(states)[table]
    if not contract.is_landed:
        return DayReport(table, day, states.of(table, day), reasons, inputs, history, will_change=follows)
    records = [r for r in read_files(lake.store, contract.source) if day in r.days]
    files = tuple(LandedPart(r.path, r.sha256, *r.days[day][:2], r.withdrawn, r.is_as_declared) for r in records)
    refused = refused_rows(lake, contract.source, day)
    return DayReport(table, day, states.of(table, day), reasons, inputs, history, files, refused, follows)


def find(lake: Lake, pipeline: Pipeline, table: str, day: date) -> Contract:
    """Return the contract of a table; raises BackfillError for an unknown table or a day before the first."""
    contract = pipeline.contract(table, "There is nothing to show")
    if day < lake.settings.start_date:
        culprit = f"it lies before the lake's first day, {lake.settings.start_date}"
        raise BackfillError(f"the day {day}", culprit, "There is nothing to show", "Ask for a later day")
    return contract


def _inputs(states: States, contract: Contract, day: date) -> list[InputDay]:
    frontier = states.frontier(contract.name)
    found = {
        (wanted.table, d): wanted.basis is Basis.ARRIVALS or is_required(d, day, frontier)
        for wanted in contract.inputs
        for d in input_days(states, wanted, day)
    }
    days = []
    for (table, d), required in sorted(found.items()):
        stamp = states.stamp(table, d)
        days.append(InputDay(table, d, states.of(table, d), stamp.entry.rows if stamp else None, required))
    return days
