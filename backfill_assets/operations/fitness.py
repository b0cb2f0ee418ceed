"""Fit days: complete, computed from today's inputs, with the rows that their receipts name.

Held and outdated days are fit. An older version is judged by its own receipts only. Not here: the states
(`core.states`) and reading rows (`reader`).
"""

import warnings
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Literal

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import ranges
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import State, States
from backfill_assets.core.view import TableView
from backfill_assets.lake.audit import audit_as_written
from backfill_assets.lake.home import Lake

Unfit = Literal["refuse", "warn", "take"]
CHOICES: tuple[Unfit, ...] = ("refuse", "warn", "take")
UNFIT = (State.MISSING, State.STALE, State.INCOMPLETE, State.PENDING)
CALLER = 4  # frames between the warning and the code that asked for rows


class UnfitDays(BackfillError):
    """Requested days are missing, stale, incomplete or pending."""


class UnfitDaysWarning(UserWarning):
    """The same, for callers that chose a warning."""


def unfit_days_now(states: States, table: str, days: Iterable[date]) -> dict[date, State]:
    """Return the days that are not fit by the states of the lake."""
    state_of = {d: states.of(table, d) for d in days}
    return {d: s for d, s in state_of.items() if s in UNFIT}


def unfit_days_then(view: TableView, days: Iterable[date]) -> dict[date, State]:
    """Return the days that were not fit by the receipts of a version; a day that another program changed is stale."""
    by_receipt = {Built.PENDING: State.PENDING, Built.INCOMPLETE: State.INCOMPLETE}
    unfit = {}
    for day in days:
        stamp = view.stamps.get(day)
        state = State.MISSING if stamp is None else by_receipt.get(stamp.entry.built)
        state = State.STALE if state is None and day in view.foreign else state
        if state is not None:
            unfit[day] = state
    return unfit


def unfit_text(unfit: Mapping[date, State]) -> str:
    """List unfit days by state, in words; empty where all are fit."""
    by_state = {s: [d for d, is_so in unfit.items() if is_so is s] for s in UNFIT}
    return "; ".join(f"{s.value} {ranges(days)}" for s, days in by_state.items() if days)


def settle(contract: Contract, unfit: Mapping[date, State], chosen: Unfit) -> None:
    """Raise UnfitDays for unfit days (`refuse`), warn with UnfitDaysWarning (`warn`), or do nothing (`take`)."""
    if chosen not in CHOICES:
        raise ValueError(f"unfit is one of {', '.join(CHOICES)}, got {chosen!r}")
    if not unfit or chosen == "take":
        return
    error = UnfitDays(
        f"the table {contract.name}", f"{len(unfit)} of the days asked for are not fit to be used: {unfit_text(unfit)}",
        "Nothing was read" if chosen == "refuse" else "They were read all the same",
        "Run `backfill-assets catch-up`, see `backfill-assets status --why`; or ask with unfit=\"warn\" or \"take\" "
        "(a command: --unfit)",
    )  # fmt: skip
    if chosen == "refuse":
        raise error
    warnings.warn(str(error), UnfitDaysWarning, stacklevel=CALLER)


def differing_days(
    lake: Lake, contract: Contract, entries: Mapping[date, DayEntry], profiles: Mapping[date | None, DayProfile]
) -> list[date]:
    """Return the days, ascending, whose rows differ from their receipts.

    `entries` are the days' entries in receipts, `profiles` the profiles of the rows that were read.
    """
    days = {*entries, *(d for d in profiles if d is not None)}
    wrong = [d for d in days if d not in entries or not entries[d].agrees_with(profiles.get(d, DayProfile()))]
    if wrong:  # the days may come from a contract with other columns
        stored = audit_as_written(lake, contract, wrong)
        wrong = [d for d in wrong if d not in entries or not entries[d].agrees_with(stored.get(d, DayProfile()))]
    return sorted(wrong)
