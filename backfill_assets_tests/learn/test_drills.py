"""Faults as they are planted: what cannot be planted is refused by name, and the lake itself is
never touched. Not here: mending them (`learn.test_practice`)."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.learn.drills import PLANTS
from backfill_assets.learn.lab_lakes import (
    copy_lake,
    event_rows,
    first_events,
    leave_half_commit,
    make_lake,
    replace_by_day,
)
from backfill_assets.learn.practice import Watch

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with an event on one day, and no landed file."""
    made = make_lake(tmp_path / "lake", date(2024, 3, 1))
    replace_by_day(
        made, first_events(made), event_rows([(datetime(2024, 3, 1, 12, tzinfo=UTC), 1)])
    )
    return made


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("late-burst", "matches 0 text file"),
        ("bad-code", "rows of 1 day"),
        ("wrong-select", "no `… AS event_ts`"),
    ],
)
def test_a_fault_that_the_lake_has_no_place_for_is_refused(lake: Lake, name: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        PLANTS[name](lake)


def test_a_fault_in_the_copy_leaves_the_lake_as_it_was(lake: Lake, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in lake.root.rglob("*") if p.is_file()}
    watch = Watch(copy_lake(lake.root, tmp_path / "copy").root)
    watch.plant(PLANTS["kill-mid-commit"])
    assert watch.wrong() is None
    assert {p: p.read_bytes() for p in lake.root.rglob("*") if p.is_file()} == before
    with pytest.raises(BackfillError, match="mend"):
        open_lake(watch.root).store.view(first_events(lake).name, first_events(lake).day_column)


def test_a_lake_that_cannot_be_read_is_no_place_to_practise(lake: Lake) -> None:
    leave_half_commit(lake, first_events(lake).name)
    with pytest.raises(SettingsError, match="cannot be read"):
        Watch(lake.root)
