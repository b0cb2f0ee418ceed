"""Whether days of a table are fit to be used: made, from whole inputs, and from what the inputs say today.

Lives here: the judgement of some days, now or at an older version, and what is done about those that are not fit. Does
not live here: the states themselves (`core.states`) and the reading of rows (`readable`).

Held days are fit, because a person put them back, and so are outdated ones, whose inputs are those of today. Of an
older version only its own receipts judge: what has changed since is why one reads it.
"""

import warnings
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Literal

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Built
from backfill_assets.core.states import State, States
from backfill_assets.core.view import TableView
from backfill_assets.operations.why import ranges

Unfit = Literal["refuse", "warn", "take"]
CHOICES: tuple[Unfit, ...] = ("refuse", "warn", "take")
UNFIT = (State.MISSING, State.STALE, State.INCOMPLETE, State.PENDING)
CALLER = 4  # frames between the warning and who asked for rows


class UnfitDays(BackfillError):
    """Days that were asked for are missing, stale, incomplete or pending."""


class UnfitDaysWarning(UserWarning):
    """The same, where the caller said to be warned only."""


def unfit_now(states: States, table: str, days: Iterable[date]) -> dict[date, State]:
    """The days that are not fit by the states of the lake."""
    found = {d: states.of(table, d) for d in days}
    return {d: s for d, s in found.items() if s in UNFIT}


def unfit_then(view: TableView, days: Iterable[date]) -> dict[date, State]:
    """The days that were not fit by the receipts of a version; what another program changed counts as stale."""
    by_receipt = {Built.PENDING: State.PENDING, Built.INCOMPLETE: State.INCOMPLETE}
    found = {}
    for day in days:
        stamp = view.stamps.get(day)
        state = State.MISSING if stamp is None else by_receipt.get(stamp.entry.built)
        state = State.STALE if state is None and day in view.foreign else state
        if state is not None:
            found[day] = state
    return found


def told(unfit: Mapping[date, State]) -> str:
    """The days by their states, in words; empty where all are fit."""
    by_state = {s: [d for d, is_so in unfit.items() if is_so is s] for s in UNFIT}
    return "; ".join(f"{s.value} {ranges(days)}" for s, days in by_state.items() if days)


def settle(contract: Contract, unfit: Mapping[date, State], chosen: Unfit) -> None:
    """Do about unfit days what was chosen: raise UnfitDays, warn (UnfitDaysWarning), or nothing."""
    if chosen not in CHOICES:
        raise ValueError(f"unfit is one of {', '.join(CHOICES)}, got {chosen!r}")
    if not unfit or chosen == "take":
        return
    error = UnfitDays(
        f"the table {contract.name}", f"{len(unfit)} of the days asked for are not fit to be used: {told(unfit)}",
        "Nothing was read" if chosen == "refuse" else "They were read all the same",
        "Run `backfill-assets catch-up`, see `backfill-assets status --why`; or ask with unfit=\"warn\" or \"take\" "
        "(a command: --unfit)",
    )  # fmt: skip
    if chosen == "refuse":
        raise error
    warnings.warn(str(error), UnfitDaysWarning, stacklevel=CALLER)
