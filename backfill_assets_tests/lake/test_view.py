"""Reading the view of a lake: tables, receipts and ledgers at one moment, without a JVM.

Tested here: `lake.view`, on logs written by hand and ledgers written without Spark. Not tested here: what follows from
it (`core.test_states`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.core.states import State, States
from backfill_assets.core.view import DayReceipt, LandedDay, TableView
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, LANDED
from backfill_assets.lake.store import TableStore
from backfill_assets.lake.view import Known, read_view, writes_of
from backfill_assets_tests.builders import CONTRACTS, START, Story, day, make_commit, receipt, write_rows
from backfill_assets_tests.operations.synthetic import START as FIRST
from backfill_assets_tests.operations.synthetic import build, synthetic_lake

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


def _land(lake: Lake, sha: str, number: int) -> None:
    times = {"first_scan": NOON, "recorded_at": NOON, "counted_by": "s", "home_day": day(number)}
    row = {"event": LANDED, "path": f"{sha}.csv", "sha256": sha, "arrival_date": day(number), **times}
    counts = {"rows": 3, "bad_rows": 1, "usable_rows": 2, "size": 1, "mtime_ns": 1, "note": None}
    write_rows(lake.table_place("files").local(), FILES, [{**row, **counts}], receipt("files", {}))


def _arrive(lake: Lake, number: int, raw_version: int, **facts: Any) -> None:
    row = {"arrival_date": day(number), "event_date": day(number), "arrival_month": "2024-02", "fingerprint": "F"}
    counts = {"deliveries": 2, "keys": 2, "moved_keys": 0, "greatest_lateness_s": 5}
    said = receipt("arrivals", {day(number): DayEntry(1, "F", "R")}, inputs={"raw": raw_version}, **facts)
    write_rows(lake.table_place("arrivals").local(), ARRIVALS, [{**row, **counts}], said)


def _load(lake: Lake, sha: str, number: int) -> None:
    digest = Story(as_of=NOON).land(day(number), sha).digest("raw", day(number))
    make_commit(lake.table_place("raw").local(), 0, receipt("raw", {day(number): DayEntry(2, "R", digest)}))


def test_receipts_files_and_arrivals_are_put_together(lake: Lake) -> None:
    _land(lake, "sha", 0)
    _load(lake, "sha", 0)
    _arrive(lake, 0, raw_version=0, frontier=NOON)
    view = read_view(lake, CONTRACTS)
    assert view.source("raw").landed == {day(0): LandedDay(frozenset({"sha"}), 2)}
    assert view.source("raw").arrivals == {day(0): ((day(0), "F"),)}
    assert view.table("raw").latest[day(0)].entry.rows == 2
    assert (view.table("arrivals").inputs, view.table("arrivals").frontier) == ({"raw": 0}, NOON)
    assert States(CONTRACTS, view, {}).of("raw", day(0)) is State.FRESH


def test_a_day_of_the_ledger_that_holds_more_rows_than_its_receipt_says_is_loaded_again(lake: Lake) -> None:
    """As a load left them that wrote a day twice, which came again as it was (`lake.writing`)."""
    _load(lake, "s", 1)
    _arrive(lake, 1, 0)
    assert read_view(lake, CONTRACTS).source("raw").doubted_arrivals() == frozenset()
    _arrive(lake, 1, 0)
    assert read_view(lake, CONTRACTS).source("raw").doubted_arrivals() == {day(1)}


@dataclass(frozen=True)
class _Overtaken(TableStore):
    """A store on which another process does what is `left`, right before the first call of a method for a table."""

    method: str = ""
    table: str = ""
    left: list[Callable[[], None]] = field(default_factory=list)

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """The table's head, once the other process is done."""
        self._let("view", table)
        return super().view(table, day_column, version)

    def kept(self, table: str, name: str, read: Callable[[], Any], version: int | None = None) -> Any:
        """What is read of the table, once the other process is done."""
        self._let("kept", table)
        return super().kept(table, name, read, version)

    def _let(self, method: str, table: str) -> None:
        if (method, table) == (self.method, self.table) and self.left:
            self.left.pop()()


@dataclass(frozen=True)
class _Watching(Lake):
    """A lake that is looked at through such a store."""

    held: TableStore | None = None

    @property
    def store(self) -> TableStore:
        """The store that is overtaken."""
        assert self.held is not None
        return self.held


def _overtaken(lake: Lake, method: str, table: str, done: Callable[[], None]) -> Lake:
    held = _Overtaken(lake, method, table, [done])
    return _Watching(lake.root, lake.settings, lake.source, held=held)


def test_rows_of_the_ledger_are_kept_as_those_of_the_version_that_was_looked_at(lake: Lake) -> None:
    """A load that commits between the look at the ledger's head and the reading of its rows is seen next time."""
    _load(lake, "s", 0)
    _arrive(lake, 0, 0)
    overtaken = _overtaken(lake, "kept", "arrivals", lambda: _arrive(lake, 1, 0))
    assert set(read_view(overtaken, CONTRACTS).source("raw").arrivals) == {day(0)}
    found = read_view(lake, CONTRACTS).source("raw")
    assert set(found.arrivals) == {day(0), day(1)}
    assert found.doubted_arrivals() == frozenset()
    assert read_view(lake, CONTRACTS).source("raw").arrivals is found.arrivals


@pytest.mark.parametrize("table", [*(c.name for c in CONTRACTS), "arrivals"])
def test_no_table_is_seen_as_newer_than_what_it_was_made_from(lake: Lake, table: str) -> None:
    """Another run makes all tables, upstream first, between the looks at two heads, wherever that is."""

    def made() -> None:
        _load(lake, "s", 0)
        _arrive(lake, 0, 0)
        for contract in CONTRACTS[1:]:
            make_commit(
                lake.table_place(contract.name).local(), 0, receipt(contract.name, {day(0): DayEntry(1, "F", "D")})
            )

    overtaken = _overtaken(lake, "view", table, made)
    seen = {name: found.version for name, found in read_view(overtaken, CONTRACTS).tables.items()}
    assert max(seen.values()) == 0
    for contract in CONTRACTS[1:]:
        for name in (i.table for i in contract.inputs):
            assert seen[contract.name] <= min(seen[name], seen["arrivals"]), (contract.name, name)


def test_what_others_write_beside_a_run_it_knows_once_it_looks_again(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 9)
    known = Known(lake, pipeline)
    before = known.states
    for table in ("staging", "labels"):
        build(lake, pipeline, table, {FIRST: 3}, digests={FIRST: "older"})
    assert known.states is before
    known.wrote("staging")
    moved = [known.states.view.table(table) != before.view.table(table) for table in ("staging", "labels")]
    assert moved == [True, False]
    assert known.states.of("staging", FIRST) is State.STALE
    assert known.read().view.table("labels") != before.view.table("labels")
    assert known.states is known.read(), "no log moved"


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
