"""The rows of a table against its receipts: a day that differs is named, and no other.

Tested here: `operations.fitness`, on a lake without an engine. Not tested here: what `doctor --deep` and
snapshots make of it.
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.profiles import DayProfile
from backfill_assets.lake.audit import audit_table
from backfill_assets.operations.fitness import differing_days
from backfill_assets_tests.operations.readable_lake import TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_only_days_whose_rows_are_not_those_of_their_receipts_differ(tmp_path: Path) -> None:
    reader = readable_lake(tmp_path / "lake")
    contract = reader.pipeline.contract(TABLE, "")
    entries = {d: s.entry for d, s in reader.lake.store.view(TABLE, contract.day_column).stamps.items()}
    found = dict(audit_table(reader.lake, contract))
    assert differing_days(reader.lake, contract, entries, found) == []
    without = {d: e for d, e in entries.items() if d != date(2024, 3, 1)}
    assert differing_days(reader.lake, contract, without, found) == [date(2024, 3, 1)]


def test_a_day_is_read_again_by_the_columns_of_its_files_before_it_differs(tmp_path: Path) -> None:
    """It may have been made under a contract of other columns."""
    reader = readable_lake(tmp_path / "lake")
    contract = reader.pipeline.contract(TABLE, "")
    entries = {d: s.entry for d, s in reader.lake.store.view(TABLE, contract.day_column).stamps.items()}
    assert differing_days(reader.lake, contract, entries, dict.fromkeys(entries, DayProfile())) == []
