"""Closed books: the last day of a table that no run may write any more, as receipts without days
say.

Not here: closing a table and opening it again, and what came late into its closed days (`closing`);
a hold, which is of single days that a rollback put back (`Built.HELD`).
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.receipts import Receipt

CLOSE, REOPEN = "close", "reopen"  # reasons of receipts
CLOSED_UNTIL = "closed_until"  # their tag, which a table that is open from its first day on lacks


@dataclass(frozen=True, slots=True)
class Closure:
    """A table's closed days: all up to `until`, which is one of them."""

    until: date
    note: str = ""  # why
    by: str = ""  # who closed it; "": not known

    def holds(self, day: date) -> bool:
        """Whether a day is closed."""
        return day <= self.until


def closure_receipt(
    table: str, until: date | None, note: str, tags: Mapping[str, str], *, opens: bool
) -> Receipt:
    """The receipt by which all days up to `until` are closed from now on (None: none is); `opens`:
    whether that opens days. `tags` say who does it."""
    if until is not None:
        tags = {**tags, CLOSED_UNTIL: str(until)}
    reason = REOPEN if opens else CLOSE
    return Receipt(
        write_id=uuid.uuid4().hex, table=table, reason=reason, days={}, note=note, tags=tags
    )


def moves_closure(receipt: Receipt) -> bool:
    """Whether a receipt says up to which day its table is closed."""
    return receipt.reason in (CLOSE, REOPEN)


def closure_of(receipt: Receipt, version: int) -> Closure | None:
    """The closure that such a receipt, committed at `version`, leaves in force; None where the
    table is open from its first day on. Raises BackfillError for a tag that is no day."""
    until = receipt.tags.get(CLOSED_UNTIL)
    if until is None:
        return None
    try:
        return Closure(date.fromisoformat(until), receipt.note, receipt.tags.get(BY, ""))
    except ValueError:
        raise BackfillError(
            f"version {version} of the table {receipt.table}",
            f"its receipt closes all days up to {until!r}, which is no day",
            "Nothing was read or written",
            "Look who wrote that commit: `backfill-assets doctor`",
        ) from None
