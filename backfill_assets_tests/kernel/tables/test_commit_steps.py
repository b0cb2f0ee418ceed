"""A commit broken off at every step, by SIGKILL and by a power cut: before or after, never half,
never unnoticed. Not here: what a commit refuses (`test_committer`), races of processes
(`end_to_end.test_races`)."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.cli.findings import Level
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables import committer, store
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.staging import WRITES, Staged
from backfill_assets.upkeep.doctor_tables import examine_table
from backfill_assets.upkeep.inspection import mend_table
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.processes import run

pytestmark = pytest.mark.usefixtures("storages")

Content = list[tuple[Any, Any]]
BEFORE, AFTER = [(day(0), 1)], [(day(0), 2), (day(1), 2)]
KILLED = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.kernel.tables.test_commit_steps import STEPS, written
STEPS[sys.argv[2]][0]()
written(open_lake(Path(sys.argv[1])), 2, 0, 1)
"""


def written(lake: Lake, value: int, *numbers: int) -> None:
    """This value on these days, published."""
    publish_by_hand(
        lake, STAGING, [{"entity": "A", "value": value, "event_date": day(n)} for n in numbers]
    )


def content(lake: Lake) -> Content:
    """What the table holds, by delta-rs; none where there is no table. Raises what the store's own
    view raises."""
    if lake.store.view("staging", "event_date").version < 0:
        return []
    found = DeltaTable(str(lake.table_place("staging").local())).to_pyarrow_table().to_pylist()
    return sorted((r["event_date"], r["value"]) for r in found)


def log_of(lake: Lake) -> Path:
    return lake.table_place("staging").local() / "_delta_log"


def mended(lake: Lake, told: str) -> None:
    """What the told command does."""
    assert "`backfill-assets mend staging --yes`" in told
    mend_table(lake, STAGING, Provenance("test"))


def dies(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_before_the_commit() -> None:
    store.commit_files = dies  # type: ignore[attr-defined, assignment]


def dies_with_its_data_synced() -> None:
    committer._commit_actions = dies  # type: ignore[assignment]


def dies_with_its_commit_unsynced() -> None:
    committer.sync_log = dies  # type: ignore[attr-defined]


def dies_before_tidying_up() -> None:
    Staged.keep = dies  # type: ignore[method-assign]


STEPS: dict[str, tuple[Callable[[], None], Content]] = {
    "staged": (dies_before_the_commit, BEFORE),
    "data synced": (dies_with_its_data_synced, BEFORE),
    "committed": (dies_with_its_commit_unsynced, AFTER),
    "commit synced": (dies_before_tidying_up, AFTER),
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("step", sorted(STEPS))
def test_whatever_step_a_process_is_killed_at_the_next_writer_finds_a_whole_table(
    lake: Lake, step: str
) -> None:
    written(lake, 1, 0)
    killed = run("-c", KILLED, lake.root, step, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert content(lake) == STEPS[step][1]
    for _ in range(2):
        written(lake, 2, 0, 1)
        assert content(lake) == AFTER
        (told,) = examine_table(lake, STAGING, landed="raw")
        assert (told.level, "log whole" in told.what) == (Level.OK, True), (
            "nothing of the killed write is left"
        )


def test_what_a_commit_left_half_way_to_its_name_is_no_commit(lake: Lake) -> None:
    written(lake, 1, 0)
    whole = (log_of(lake) / f"{1:020d}.json").read_bytes()
    (log_of(lake) / f"{2:020d}.json#1").write_bytes(
        whole[:100]
    )  # killed between delta-rs's two steps
    assert content(lake) == BEFORE
    written(lake, 2, 0, 1)
    assert content(lake) == AFTER
    assert next(examine_table(lake, STAGING, landed="raw")).level is Level.OK


class Disk:
    """What the disk holds of a folder: contents and lists of names as they were when they were last
    synced."""

    def __init__(self, root: Path) -> None:
        self.root, self.contents, self.names = root, dict[Path, bytes](), dict[Path, set[str]]()
        self.sync_all()

    def sync_all(self) -> None:
        """Everything there is, as `os.sync` does."""
        for path in (self.root, *self.root.rglob("*")):
            self.sync(path)

    def sync(self, path: Path) -> None:
        """One file, or one folder's list of names."""
        if path.is_dir():
            self.names[path] = {p.name for p in path.iterdir()}
        elif path.exists():
            self.contents[path] = path.read_bytes()

    def cut(self, target: Path, names_first: bool, early: str = "") -> Lake:
        """The lake as a power cut leaves it. `names_first`: the file system wrote names that nobody
        asked it to; `early`: files whose contents it wrote, too."""
        self._rebuild(self.root, target, names_first)
        for file in self.root.rglob(early) if early else ():
            (target / file.relative_to(self.root)).write_bytes(file.read_bytes())
        return open_lake(target)

    def _rebuild(self, folder: Path, target: Path, names_first: bool) -> None:
        target.mkdir(parents=True)
        there = {p.name for p in folder.iterdir()}
        for name in there & (there if names_first else self.names.get(folder, set())):
            path = folder / name
            if path.is_dir():
                self._rebuild(path, target / name, names_first)
            else:
                (target / name).write_bytes(self.contents.get(path, b""))


@pytest.fixture
def cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Lake, Callable[[], None]], list[Lake]]:
    """Does something to a lake; gives the lakes that power cuts would leave, three after each sync
    and at the end."""

    def after(lake: Lake, work: Callable[[], None]) -> list[Lake]:
        disk, left = Disk(lake.root), list[Lake]()

        def cut() -> None:
            for early, names_first in (("", False), ("*.checkpoint.parquet", True), ("", True)):
                left.append(disk.cut(tmp_path / f"cut-{len(left)}", names_first, early))

        def synced(descriptor: int) -> None:
            disk.sync(Path(f"/proc/self/fd/{descriptor}").readlink())
            cut()

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", synced)
            patch.setattr(os, "sync", disk.sync_all)
            work()
        cut()
        return left

    return after


def outcome(lake: Lake) -> Content:
    """What a lake holds; of a torn newest commit, after the command that is told."""
    try:
        return content(lake)
    except BackfillError as torn:
        mended(lake, torn.fix)
        return content(lake)


def test_a_power_cut_at_any_moment_leaves_the_table_as_before_or_as_after(
    tmp_path: Path, cuts: Callable[[Lake, Callable[[], None]], list[Lake]]
) -> None:
    lake = bare_lake(tmp_path / "lake")
    written(lake, 1, 0)
    left = cuts(lake, lambda: written(lake, 2, 0, 1))
    assert len(left) > 10
    found = [outcome(each) for each in left]
    assert found[-2:] == [AFTER, AFTER], "what was acknowledged is there"
    assert all(f in (BEFORE, AFTER) for f in found)
    assert found[0] == BEFORE
    for each in left[-4:]:
        written(each, 2, 0, 1)
        assert content(each) == AFTER


def test_a_power_cut_after_the_first_commit_of_a_new_table_does_not_take_the_table(
    tmp_path: Path, cuts: Callable[[Lake, Callable[[], None]], list[Lake]]
) -> None:
    lake = bare_lake(tmp_path / "lake")
    found = [outcome(each) for each in cuts(lake, lambda: written(lake, 1, 0))]
    assert found[-2:] == [BEFORE, BEFORE]
    assert all(f in ([], BEFORE) for f in found)


def test_a_power_cut_at_a_checkpoint_leaves_a_table_that_can_be_read(
    tmp_path: Path, cuts: Callable[[Lake, Callable[[], None]], list[Lake]]
) -> None:
    lake = bare_lake(tmp_path / "lake")
    for n in range(committer.CHECKPOINT_EVERY - 3):
        written(lake, n, 0)
    written(lake, 1, 0)
    left = cuts(lake, lambda: written(lake, 2, 0, 1))
    assert list(log_of(lake).glob("*.checkpoint.parquet"))
    assert all(outcome(each) in (BEFORE, AFTER) for each in left)
    assert [outcome(each) for each in left[-2:]] == [AFTER, AFTER]
    for each in left:
        _written_or_mended(each)
        assert content(each) == AFTER


def _written_or_mended(lake: Lake) -> None:
    try:
        written(lake, 2, 0, 1)
    except BackfillError as torn:
        mended(lake, torn.fix)
        written(lake, 2, 0, 1)


def test_a_commit_is_on_the_disk_before_its_checkpoint_may_be_there(
    tmp_path: Path, cuts: Callable[[Lake, Callable[[], None]], list[Lake]]
) -> None:
    lake = bare_lake(tmp_path / "lake")
    for n in range(committer.CHECKPOINT_EVERY - 2):
        written(lake, n, 0)
    for each in cuts(lake, lambda: written(lake, 2, 0, 1)):
        if list(log_of(each).glob("*.checkpoint.parquet")):
            assert content(each) == AFTER


def test_a_sweep_leaves_alone_what_a_write_of_this_process_has_not_published_yet(
    lake: Lake,
) -> None:
    staged = stage_by_hand(lake, STAGING, [{"entity": "A", "value": 1, "event_date": day(3)}])
    written(lake, 1, 0)  # another write, which sweeps first
    assert [Path(f.path).exists() for f in staged.files] == [True]
    staged.drop()
    assert len(list((lake.table_place("staging").local() / WRITES).iterdir())) == 1
