"""Several tables that change for readers at one moment, whatever stops the change.

Tested here: `lake.switch` on a lake without an engine. Not tested here: what is switched (`operations.test_candidates`,
`operations.test_rollback`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError, TransientError
from backfill_assets.core.view import TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.store import TableStore
from backfill_assets.lake.switch import switch_of, switching
from backfill_assets.lake.view import settled_view
from backfill_assets.operations.status import attention
from backfill_assets_tests.operations.planned import BUILT, DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


def seen(made: Planned, lake: Lake | None = None) -> list[int]:
    """The versions of both tables as a reader sees them."""
    view = settled_view(lake or made.lake, made.pipeline.contracts)
    return [view.table(t).version for t in BUILT]


def write(made: Planned, table: str) -> None:
    made.write(table, dict.fromkeys(range(DAYS), made.view(table).version + 7))


def test_readers_see_both_tables_as_before_until_the_last_one_is_written(made: Planned) -> None:
    contracts = [made.contract(t) for t in BUILT]
    with switching(made.lake, "publish v2", contracts):
        write(made, "staging")
        assert seen(made) == [1, 1]
        write(made, "features")
        assert seen(made) == [1, 1]
        assert "publish v2 runs or was stopped: readers see staging, features" in attention(made.lake.root)[0]
    assert seen(made) == [2, 2]
    assert attention(made.lake.root) == []


def stop(made: Planned, what: str, *written: str) -> None:
    """A switch that stops after these tables were written."""

    def stopped() -> None:
        with switching(made.lake, what, [made.contract(t) for t in BUILT]):
            for table in written:
                write(made, table)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()


def test_a_switch_that_was_stopped_halfway_shows_nothing_until_it_is_done_again(made: Planned) -> None:
    stop(made, "publish v2", "staging")
    assert seen(made) == [1, 1]
    with switching(made.lake, "publish v2", [made.contract(t) for t in BUILT]):
        write(made, "features")
    assert seen(made) == [2, 2]


def test_a_switch_that_was_stopped_before_its_first_commit_leaves_nothing_behind(made: Planned) -> None:
    stop(made, "publish v2")
    assert switch_of(made.lake).what == ""
    write(made, "staging")
    assert seen(made) == [2, 1]


def test_another_switch_waits_for_one_that_was_stopped_unless_it_takes_over(made: Planned) -> None:
    stop(made, "publish v2", "staging")
    with (
        pytest.raises(BackfillError, match=r"publish v2 runs or was stopped.*Nothing was switched"),
        switching(made.lake, "publish v3", [made.contract("staging")]),
    ):
        raise AssertionError("it began")
    with switching(made.lake, "rollback", [made.contract("staging")], takes_over=True):
        assert seen(made) == [1, 1]
        write(made, "staging")
    assert (seen(made), switch_of(made.lake).what) == ([3, 1], "")


@dataclass(frozen=True)
class _Overtaken(TableStore):
    """A store whose lake is switched while its tables are looked at, as often as is `left`."""

    switch: Callable[[], None] = lambda: None
    left: list[int] = field(default_factory=list)

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """The table's view; the lake is switched behind the look at it."""
        found = super().view(table, day_column, version)
        if table == "features" and version is None and self.left and self.left.pop():
            self.switch()
        return found


@dataclass(frozen=True)
class _Watched(Lake):
    """A lake with such a store."""

    held: TableStore | None = None

    @property
    def store(self) -> TableStore:
        """The store that is overtaken."""
        assert self.held is not None
        return self.held


def test_a_look_between_two_switches_is_looked_at_again(made: Planned) -> None:
    def switch() -> None:
        with switching(made.lake, "publish v2", [made.contract(t) for t in BUILT]):
            for table in BUILT:
                write(made, table)

    lake = _Watched(made.lake.root, made.lake.settings, held=_Overtaken(made.lake, switch, [1, 1]))
    first, second = seen(made, lake)
    assert first == second
    always = _Watched(made.lake.root, made.lake.settings, held=_Overtaken(made.lake, switch, [1] * 99))
    with pytest.raises(TransientError, match="switched at every look"):
        seen(made, always)
