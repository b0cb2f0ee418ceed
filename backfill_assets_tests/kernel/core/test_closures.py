"""A receipt says up to which day its table is closed. Not here: who is refused
(`closing.test_closing`)."""

import pytest

from backfill_assets.kernel.core.closures import (
    CLOSE,
    CLOSED_UNTIL,
    REOPEN,
    closure_of,
    moves_closure,
)
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets_tests.builders import day

CLOSING = Receipt(
    "w", "revenue", CLOSE, {}, note="reported", tags={CLOSED_UNTIL: str(day(3)), "by": "ann"}
)


def test_the_named_day_is_the_last_closed_one() -> None:
    closure = closure_of(CLOSING, 7)
    assert closure is not None
    assert (closure.note, closure.by) == ("reported", "ann")
    assert [closure.holds(day(3) + n * ONE_DAY) for n in (-1, 0, 1)] == [True, True, False]


def test_a_receipt_that_names_no_day_opens_the_table() -> None:
    assert closure_of(Receipt("w", "revenue", REOPEN, {}), 8) is None


def test_only_closing_and_opening_move_it() -> None:
    assert moves_closure(CLOSING)
    assert not moves_closure(Receipt("w", "revenue", "manual", {}, tags=CLOSING.tags))


def test_a_day_that_is_none_is_refused_with_the_version() -> None:
    wrong = Receipt("w", "revenue", CLOSE, {}, tags={CLOSED_UNTIL: "end of March"})
    with pytest.raises(BackfillError, match=r"version 9 of the table revenue.*'end of March'"):
        closure_of(wrong, 9)
