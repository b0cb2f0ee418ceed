"""Files that nothing needs any more: those go, and no version that is promised loses one.

Tested here: `lake.housekeeping` on real tables, without an engine. Not tested here: which tables, and since when
(`operations.test_maintain`).
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.lake.committer import commit_receipt
from backfill_assets.lake.home import Lake
from backfill_assets.lake.housekeeping import find_unneeded, remove_unneeded
from backfill_assets.lake.log import commits
from backfill_assets.lake.log_state import LOGS
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.restore import RestoreRequest, restore_partitions
from backfill_assets.lake.staging import sweep
from backfill_assets_tests.builders import STAGING, day, receipt
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")

LATER = datetime.now(UTC) + timedelta(days=100)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging has three days, of which the second was written three times."""
    made = bare_lake(tmp_path)
    publish(made, {0: 1, 1: 1, 2: 1})
    publish(made, {1: 2})
    publish(made, {1: 3})
    return made


def publish(lake: Lake, values: dict[int, int]) -> None:
    rows = [{"entity": "A", "value": v, "event_date": day(n)} for n, v in values.items()]
    publish_by_hand(lake, STAGING, rows, digest=str(values))


def content(lake: Lake, version: int | None = None) -> dict[Any, Any]:
    found = DeltaTable(str(lake.table_path("staging")), version=version).to_pyarrow_table().to_pylist()
    return {r["event_date"]: r["value"] for r in found}


def data_files(lake: Lake) -> list[Path]:
    return sorted(lake.table_path("staging").glob("writes/**/*.parquet"))


def age(path: Path, days: int) -> None:
    then = datetime.now(UTC).timestamp() - 86_400 * days
    os.utime(path, (then, then))


def test_files_replaced_before_the_time_go_and_the_newest_version_keeps_its_rows(lake: Lake) -> None:
    before, all_files = content(lake), data_files(lake)
    sizes = {f: f.stat().st_size for f in all_files}
    gone = remove_unneeded(lake, STAGING, LATER)
    assert (len(all_files), len(gone.replaced), len(data_files(lake))) == (5, 2, 3)
    assert content(lake) == before
    assert gone.bytes == sum(sizes[f] for f in gone.replaced)
    assert remove_unneeded(lake, STAGING, LATER).paths == (), "once more, there is nothing"


def test_a_file_that_no_version_names_goes_when_it_is_old_enough(lake: Lake) -> None:
    young, old = (lake.table_path("staging") / "writes" / "elsewhere" / f"{n}.parquet" for n in ("young", "old"))
    young.parent.mkdir()
    for file in (young, old):
        file.write_bytes(b"12345")
    age(old, 3)
    gone = remove_unneeded(lake, STAGING, datetime.now(UTC) - timedelta(days=2))
    assert (gone.no_version, gone.bytes) == ((old,), 5)
    assert young.exists()
    assert not old.exists()


def test_a_write_under_way_keeps_its_files_however_old_they_are(lake: Lake) -> None:
    staged = stage_by_hand(lake, STAGING, [{"entity": "A", "value": 9, "event_date": day(4)}])
    age(staged.files[0].path, 400)
    assert remove_unneeded(lake, STAGING, LATER).no_version == ()
    assert staged.files[0].path.exists()
    staged.drop()
    sweep(lake, STAGING.name)


def test_a_link_in_place_of_the_folder_of_writes_is_refused(lake: Lake, tmp_path: Path) -> None:
    writes = lake.table_path("staging") / "writes"
    writes.rename(tmp_path / "elsewhere")
    writes.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="a link leads out of"):
        remove_unneeded(lake, STAGING, LATER)


def test_old_checkpoints_go_and_every_version_opens(lake: Lake) -> None:
    for n in range(57):
        commit_receipt(lake.table_path("staging"), receipt(write_id=f"w{n}"))
    log = lake.table_path("staging") / "_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) == 3
    gone = remove_unneeded(lake, STAGING, datetime.now(UTC) - timedelta(days=1))
    assert [f.name for f in gone.checkpoints] == [f"{19:020d}.checkpoint.parquet"]
    assert [content(lake, v)[day(1)] for v in (1, 2, 30, 60)] == [1, 2, 3, 3]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 99), st.booleans()), min_size=2, max_size=9),
    st.integers(0, 10),
    st.integers(0, 3),
)
@settings(max_examples=examples(10), deadline=None)
def test_no_version_since_the_time_loses_a_file(
    writes: Sequence[tuple[int, int, bool]], newest: int, stopped_after: int
) -> None:
    with TemporaryDirectory() as folder:
        lake = bare_lake(Path(folder))
        publish(lake, {0: 1, 1: 1, 2: 1})
        for number, value, back in writes:
            stamps = LOGS.state(lake.table_path("staging"), "event_date").stamps
            if back and stamps[day(number)].version > 1:
                wanted = RestoreRequest(STAGING, {day(number): 1}, {day(number): stamps[day(number)].version})
                restore_partitions(lake, wanted, Provenance("back"))
            elif stamps[day(number)].entry.built != "held":
                publish(lake, {number: value})
        history = list(commits(lake.table_path("staging")))
        since = history[min(newest, len(history) - 1)].at
        held = {c.version: content(lake, c.version) for c in history[1:]}
        for file in find_unneeded(lake, STAGING, since).paths[:stopped_after]:
            file.unlink()
        remove_unneeded(lake, STAGING, since)
        promised = [v for v, after in pairwise(history[1:]) if after.at >= since] + history[-1:]
        for commit in promised:
            assert content(lake, commit.version) == held[commit.version]
