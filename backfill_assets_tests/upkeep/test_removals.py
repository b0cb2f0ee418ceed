"""What upkeep knows of a table from one time to the next: whatever happened to the table, to what is
remembered and to the clock, no promised version loses a file, and in the end nothing is left over.
Not here: which files go of a table without a history (`upkeep.test_housekeeping`)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.log.log import commit_name, data_file_names
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place, table_lock
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.table_places import SNAPSHOT_FILE, SNAPSHOTS
from backfill_assets.plans.restore import RestoreRequest, restore_partitions
from backfill_assets.upkeep.housekeeping import find_unneeded, remove_unneeded
from backfill_assets.upkeep.remembered import UPKEEP, remember
from backfill_assets.upkeep.removals import Removal, Removals, follow_commits, known_removals
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import commits
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")
MEMORY = f"{UPKEEP}/staging.json.gz"
YEARS = timedelta(days=2000)


def publish(lake: Lake, number: int, value: int) -> None:
    row = {"entity": "A", "value": value, "event_date": day(number)}
    publish_by_hand(lake, STAGING, [row], digest=f"{number} {value}")


def put_back(lake: Lake, number: int, version: int) -> None:
    latest = LOGS.state(lake.table_place("staging"), "event_date").latest[day(number)].version
    wanted = RestoreRequest(STAGING, {day(number): version}, {day(number): latest})
    restore_partitions(lake, wanted, Provenance("back"))


def rows_of(lake: Lake, version: int) -> dict[str | None, bytes]:
    """The bytes of each day in a version; raises Gone where a file is."""
    table = lake.table_place("staging")
    return {f.partition: table.read(f.path) for f in files_of_version(lake, STAGING, version)}


@dataclass
class History:
    """A table, what was done to it, and the latest instant from which on upkeep kept versions."""

    lake: Lake
    clock: Clock
    since: datetime
    rows: dict[int, Any] = field(default_factory=dict)  # of each version
    pinned: set[str] = field(default_factory=set)
    memory: bytes | None = None  # an old content of what upkeep remembered

    @property
    def table(self) -> Place:
        return self.lake.table_place("staging")

    def noted(self) -> None:
        head = LOGS.head(self.table)
        self.rows[head] = rows_of(self.lake, head)

    def do(self, step: str, number: int) -> None:
        getattr(self, f"_{step}")(number)

    def _write(self, number: int) -> None:
        latest = LOGS.state(self.table, "event_date").latest.get(day(number % 3))
        if latest is None or latest.entry.built != "held":
            publish(self.lake, number % 3, len(self.rows))
            self.noted()

    def _back(self, number: int) -> None:
        """Put a day back to any version that still has its file."""
        versions = sorted(self.rows)
        try:
            put_back(self.lake, number % 3, versions[number % len(versions)])
        except BackfillError:
            return
        self.noted()

    def _upkeep(self, number: int) -> None:
        history = list(commits(self.table))
        since = history[number % len(history)].at
        self.since = max(self.since, since)
        remove_unneeded(self.lake, STAGING, since)

    def _killed(self, number: int) -> None:
        """An upkeep that deleted some files and died before it remembered that."""
        history = list(commits(self.table))
        since = history[number % len(history)].at
        self.since = max(self.since, since)
        for name in find_unneeded(self.lake, STAGING, since).names[: number % 3]:
            self.table.delete(name)

    def _forget(self, number: int) -> None:
        self.lake.place.delete(MEMORY)

    def _keep(self, number: int) -> None:
        self.memory = self.lake.place.read(MEMORY) if self.lake.place.exists(MEMORY) else None

    def _older(self, number: int) -> None:
        """What another machine wrote, or a backup has."""
        if self.memory is not None:
            self.lake.place.write(MEMORY, self.memory)

    def _pin(self, number: int) -> None:
        files = [f"tables/staging/{f.path}" for f in files_of_version(self.lake, STAGING)]
        self.pinned |= {*files}
        body = {"tables": {"staging": {"pinned": True, "data_files": [[f, "", 0] for f in files]}}}
        name = f"{SNAPSHOTS}/s{number}-{len(self.pinned)}/{SNAPSHOT_FILE}"
        self.lake.place.write(name, json.dumps(body).encode())

    def _orphan(self, number: int) -> None:
        """What a killed program of another kind left."""
        self.table.write(f"writes/lost{number}/part.parquet", b"PAR1")

    def _clock(self, number: int) -> None:
        self.clock.off += timedelta(days=(-400, -1, 0, 1, 400)[number % 5])

    def promised(self) -> Iterator[int]:
        """The versions that readers may ask for, by the latest time of the commits so far."""
        latest = 0
        for one, after in pairwise(commits(self.table)):
            latest = max(latest, one.timestamp_ms, after.timestamp_ms)
            if latest >= self.since.timestamp() * 1000:
                yield one.version
        yield LOGS.head(self.table)


STEPS = ["write", "write", "back", "upkeep", "upkeep", "killed", "forget", "keep", "older", "pin"]


@given(
    st.lists(
        st.tuples(st.sampled_from([*STEPS, "orphan", "clock"]), st.integers(0, 30)), max_size=14
    )
)
@settings(max_examples=examples(15), deadline=None)
def test_no_promised_or_pinned_version_loses_a_file_and_in_the_end_nothing_is_left(
    steps: Sequence[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder, set_to(Clock()) as clock:
        lake = bare_lake(Path(folder))
        for number in range(3):
            publish(lake, number, 0)
        made = History(lake, clock, next(commits(lake.table_place("staging"))).at)
        made.noted()
        for step, number in steps:
            made.do(step, number)
        for version in made.promised():
            if version in made.rows:
                assert rows_of(lake, version) == made.rows[version]
        assert all(lake.place.exists(name) for name in made.pinned)
        clock.off = 2 * YEARS
        remove_unneeded(lake, STAGING, utc_now())
        clock.off = 4 * YEARS
        remove_unneeded(lake, STAGING, utc_now())
        left = {f"tables/staging/{name}" for name in data_file_names(made.table)}
        live = {f"tables/staging/{f.path}" for f in files_of_version(lake, STAGING)}
        assert left == live | made.pinned


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging has a day that was written twice."""
    made = bare_lake(tmp_path)
    for value in (1, 2):
        publish(made, 0, value)
    return made


def later(days: int = 100) -> datetime:
    return utc_now() + timedelta(days=days)


def test_a_file_that_is_put_back_between_the_look_and_the_deletion_stays(lake: Lake) -> None:
    (file_of_first,) = [f.path for f in files_of_version(lake, STAGING, 1)]
    assert find_unneeded(lake, STAGING, later()).replaced == (file_of_first,)
    with doing_before(table_lock, lambda: put_back(lake, 0, 1)):
        (gone,) = remove_unneeded(lake, STAGING, later()).replaced
    assert gone != file_of_first, "it is that of version 2, which was taken out for it"
    assert rows_of(lake, 1) == rows_of(lake, 3)


def test_a_commit_is_read_once_in_its_life(lake: Lake) -> None:
    table = lake.table_place("staging")
    with set_to(Clock(timedelta(days=100))):
        assert len(remove_unneeded(lake, STAGING, utc_now()).replaced) == 1
    known = known_removals(lake.place, table)
    assert known is not None
    assert (known.version, known.waiting) == (2, {})
    publish(lake, 0, 3)
    table.write(commit_name(1), b"damaged")
    followed = follow_commits(known, table, LOGS.head(table))
    assert (followed.version, len(followed.waiting)) == (3, 1), "without a look at older commits"


@pytest.mark.parametrize(
    "known",
    [
        Removals(1, "of another log", 0.0, {}),
        Removals(99, "of a version that is not there", 0.0, {}),
    ],
)
def test_what_is_remembered_of_another_log_counts_for_nothing(lake: Lake, known: Removals) -> None:
    remember(lake.place, "staging", known)
    assert known_removals(lake.place, lake.table_place("staging")) is None
    assert len(remove_unneeded(lake, STAGING, later()).replaced) == 1


def test_a_live_file_stays_whatever_is_remembered(lake: Lake) -> None:
    table = lake.table_place("staging")
    known = follow_commits(Removals(), table, LOGS.head(table))
    (live,) = [f.path for f in files_of_version(lake, STAGING)]
    false = Removals(
        known.version, known.commit, 0.0, {live: Removal(0.0, 1), "../x": Removal(0.0, 1)}
    )
    remember(lake.place, "staging", false)
    remove_unneeded(lake, STAGING, later())
    assert rows_of(lake, 2)


def test_a_log_that_lacks_a_new_commit_is_refused_and_nothing_is_deleted(lake: Lake) -> None:
    remove_unneeded(lake, STAGING, later(-100))
    for value in (3, 4):
        publish(lake, 0, value)
    table = lake.table_place("staging")
    table.delete(commit_name(3))
    files = data_file_names(table)
    with pytest.raises(BackfillError, match="its log lacks version 3"):
        remove_unneeded(lake, STAGING, later())
    assert data_file_names(table) == files


def test_the_files_of_many_are_listed_again_after_a_week_or_by_a_clock_that_was_ahead() -> None:
    now = utc_now()
    for days, is_due in ((0, False), (6, False), (7, True), (-1, True)):
        listed = Removals(listed_at=now - timedelta(days=days))
        assert listed.is_listing_due(now) is is_due
    assert Removals().is_listing_due(now), "few are listed each time"
