"""Days replaced in files that hold several of them: the other days' rows stay, whatever is replaced, in any order.

Tested here: `lake.writing` through `publish`, on the ledger `arrivals`. Not tested here: tables laid out by day.
"""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import strategies as st

from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.audit import audit
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS
from backfill_assets.lake.replace import Provenance, Write, replace_days
from backfill_assets_tests.files import bare_lake, stage_by_hand

pytestmark = pytest.mark.usefixtures("storages")

START = date(2024, 1, 28)  # days of two months
numbers = st.integers(0, 7)
loads = st.lists(
    st.dictionaries(numbers, st.lists(numbers, unique=True, max_size=3), min_size=1), min_size=1, max_size=4
)


def row(arrived: date, happened: date) -> dict[str, Any]:
    return {
        "arrival_date": arrived, "event_date": happened, "deliveries": 1, "keys": 1, "moved_keys": 0,
        "greatest_lateness_s": None, "fingerprint": "F", "arrival_month": f"{arrived:%Y-%m}",
    }  # fmt: skip


def replace(lake: Lake, content: dict[date, list[date]], digest: str) -> None:
    staged = stage_by_hand(lake, ARRIVALS, [row(a, d) for a, days in content.items() for d in days])
    found = audit(lake, staged.paths, ARRIVALS)
    entries = {
        a: DayEntry(found[a].rows, found[a].fingerprint, digest) if a in found else DayEntry(0, "0", digest)
        for a in content
    }
    replace_days(
        lake, Write(ARRIVALS, staged, entries, -1, Provenance("test")), lambda days: dict.fromkeys(days, digest)
    )


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.table_place("arrivals").local()))


def test_a_day_that_comes_again_as_it_was_beside_one_that_changed_is_there_once(tmp_path: Path) -> None:
    """A load brings rows of every day that it may have changed; found by two sources that landed out of order."""
    lake, tenth, twelfth = bare_lake(tmp_path), date(2024, 3, 10), date(2024, 3, 12)
    replace(lake, {tenth: [tenth]}, "same")
    replace(lake, {tenth: [tenth], twelfth: [twelfth]}, "same")
    assert sorted(r["arrival_date"] for r in table(lake).to_pyarrow_table().to_pylist()) == [tenth, twelfth]


def test_months_that_are_not_touched_keep_their_files(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    january, february = START, date(2024, 2, 1)
    replace(lake, {january: [january], february: [february]}, "one")
    before = set(table(lake).file_uris())
    replace(lake, {february: [january, february]}, "two")
    after = set(table(lake).file_uris())
    assert len(before & after) == 1
    assert all("arrival_month=2024-01" in f for f in before & after)
