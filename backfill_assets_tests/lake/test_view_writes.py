"""Days of one write are told together, with its receipt.

Tested here: `lake.view.writes_of`, on logs written by hand. Not tested here: what is made of
receipts (`load.test_recompute`, `operations.test_held`, `backfill.test_layers`).
"""

from datetime import date
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.core.view import DayReceipt
from backfill_assets.lake.store import TableStore
from backfill_assets.lake.view import writes_of
from backfill_assets_tests.builders import receipt

WITHOUT_RECEIPT = 0


class _Read:
    """A store that knows one table of six versions."""

    def receipt(self, table: str, version: int) -> Receipt | None:
        """A receipt that names its version, but for one."""
        assert table == "staging"
        return None if version == WITHOUT_RECEIPT else receipt(table, {}, run_id=str(version))


def _day_receipt(version: int) -> DayReceipt:
    return DayReceipt(DayEntry(1, "", ""), version, "", "", "", "")


@given(st.dictionaries(st.dates(date(2024, 1, 1), date(2024, 2, 29)), st.integers(0, 5)))
def test_every_day_is_told_once_with_the_receipt_of_its_write(versions: dict[date, int]) -> None:
    read, latest = _Read(), {d: _day_receipt(v) for d, v in versions.items()}
    found = list(writes_of(cast(TableStore, read), "staging", latest))
    assert len(found) == len(set(versions.values()))
    assert {d: s for _, days in found for d, s in days.items()} == latest
    assert sum(len(days) for _, days in found) == len(latest)
    for told, days in found:
        wanted = {"" if told is None else told.run_id}
        assert {"" if s.version == WITHOUT_RECEIPT else str(s.version) for s in days.values()} == wanted
