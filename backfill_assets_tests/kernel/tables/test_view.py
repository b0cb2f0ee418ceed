"""Reading the view of a lake: tables, receipts and ledgers at one moment, without a JVM.
Not here: what follows from it (`kernel.core.test_states`)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.view import levels_of, read_view
from backfill_assets_tests.builders import (
    CONTRACTS,
    START,
    Story,
    day,
    make_commit,
    receipt,
    write_rows,
)
from backfill_assets_tests.faults import doing_before

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)

SETTINGS = f"""start_date = {START}
as_of = 2024-03-01T12:00:00
[source]
files = "*.csv"
format = "csv"
select = "seq"
[features]
cutoff_grace_hours = 6
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    (tmp_path / "lake.toml").write_text(SETTINGS)
    return open_lake(tmp_path)


def note_arrival(lake: Lake, number: int, raw_version: int, **facts: Any) -> None:
    row = {
        "arrival_date": day(number),
        "event_date": day(number),
        "arrival_month": "2024-02",
        "fingerprint": "F",
    }
    counts = {"deliveries": 2, "keys": 2, "moved_keys": 0, "greatest_lateness_s": 5}
    said = receipt(
        "arrivals", {day(number): DayEntry(1, "F", "R")}, inputs={"raw": raw_version}, **facts
    )
    write_rows(lake.table_place("arrivals").local(), ARRIVALS, [{**row, **counts}], said)


def load_day(lake: Lake, sha: str, number: int) -> None:
    digest = Story(as_of=NOON).land(day(number), sha).digest("raw", day(number))
    make_commit(
        lake.table_place("raw").local(), 0, receipt("raw", {day(number): DayEntry(2, "R", digest)})
    )


@pytest.mark.parametrize("table", [*(c.name for c in CONTRACTS), "arrivals"])
def test_no_table_is_seen_as_newer_than_what_it_was_made_from(lake: Lake, table: str) -> None:
    """Another run makes all tables, upstream first, between the looks at two heads, wherever that
    is."""

    def made() -> None:
        load_day(lake, "s", 0)
        note_arrival(lake, 0, 0)
        for contract in CONTRACTS[1:]:
            make_commit(
                lake.table_place(contract.name).local(),
                0,
                receipt(contract.name, {day(0): DayEntry(1, "F", "D")}),
            )

    with doing_before(TableStore.view, made, table=table):
        seen = {name: found.version for name, found in read_view(lake, CONTRACTS).tables.items()}
    assert max(seen.values()) == 0
    for contract in CONTRACTS[1:]:
        for name in (i.table for i in contract.inputs):
            assert seen[contract.name] <= min(seen[name], seen["arrivals"]), (contract.name, name)


def test_tables_that_are_read_at_once_are_made_from_none_of_each_other_nor_of_earlier_ones() -> (
    None
):
    levels = levels_of(CONTRACTS)
    at = {c.name: number for number, level in enumerate(levels) for c in level}
    assert sorted(at) == sorted(c.name for c in CONTRACTS)
    reads = [(at[c.name], at[i.table]) for c in CONTRACTS for i in c.inputs if i.table in at]
    assert reads
    assert [(own, read) for own, read in reads if own >= read] == []
