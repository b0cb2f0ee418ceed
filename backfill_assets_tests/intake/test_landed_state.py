"""What is known of a source: days of the ledger that are doubted, and rows that are kept. Not here:
tables beside it (`kernel.tables.test_view`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.view import read_view
from backfill_assets_tests.builders import CONTRACTS, day
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.kernel.tables.test_view import SETTINGS, load_day, note_arrival


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    (tmp_path / "lake.toml").write_text(SETTINGS)
    return open_lake(tmp_path)


def test_a_day_of_the_ledger_that_holds_more_rows_than_its_receipt_says_is_loaded_again(
    lake: Lake,
) -> None:
    """As a load left them that wrote a day twice, which came again as it was
    (`kernel.write.writing`)."""
    load_day(lake, "s", 1)
    note_arrival(lake, 1, 0)
    assert read_view(lake, CONTRACTS).source("raw").doubted_arrivals() == frozenset()
    note_arrival(lake, 1, 0)
    assert read_view(lake, CONTRACTS).source("raw").doubted_arrivals() == {day(1)}


def test_rows_of_the_ledger_are_kept_as_those_of_the_version_that_was_looked_at(lake: Lake) -> None:
    """A load that commits between the look at the ledger's head and the reading of its rows is seen
    next time."""
    load_day(lake, "s", 0)
    note_arrival(lake, 0, 0)
    with doing_before(TableStore.kept, lambda: note_arrival(lake, 1, 0), table="arrivals"):
        assert set(read_view(lake, CONTRACTS).source("raw").arrivals) == {day(0)}
    found = read_view(lake, CONTRACTS).source("raw")
    assert set(found.arrivals) == {day(0), day(1)}
    assert found.doubted_arrivals() == frozenset()
    assert read_view(lake, CONTRACTS).source("raw").arrivals is found.arrivals
