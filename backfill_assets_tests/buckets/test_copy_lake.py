"""A lake copied to another folder: every byte, from wherever it is taken up again, and never as of
two moments. Not here: buckets, and work on the copy (`end_to_end.test_copy_lake`)."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

import pytest

from backfill_assets.buckets.copy_lake import AT_ONCE, UNFINISHED_COPY_FILE, copy_lake
from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import RUNS, Held, Token
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER, FORGOTTEN
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.staging import fill_staging
from backfill_assets.reading.kept_snapshots import find_snapshot
from backfill_assets_tests.builders import day
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.planned import BUILT, Planned

pytestmark = pytest.mark.usefixtures("storages")


class Killed(BaseException):
    """A process that dies."""


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    made = Planned(tmp_path / "lake")
    made.write("features", {3: 7})
    create_snapshot(
        made.lake, made.pipeline, SnapshotRequest("spring", ("features",), unfit="take")
    )
    for name in (
        f"{DAGSTER_FOLDER}/runs.db",
        f"{RUNS}/instance/run",
        ".venv/lib.py",
        f"{FORGOTTEN}/key",
        "sql/a.sql",
    ):
        made.lake.place.write(name, name.encode(), is_private=name.startswith(FORGOTTEN))
    return made


def files(root: Path) -> dict[str, str]:
    """The digest of each file that a copy has."""
    found = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file()}
    gone = (".locks/", ".runs/", ".dagster/", ".venv/", ".staging/", UNFINISHED_COPY_FILE)
    candidates = {n: n.split("/", 2)[-1] if n.startswith(".candidates/") else n for n in found}
    kept = {
        n: p
        for n, p in found.items()
        if not n.startswith(gone) and not candidates[n].startswith(gone)
    }
    return {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in kept.items()}


def test_a_copy_has_every_byte_of_the_lake_and_nothing_of_the_machine(
    made: Planned, tmp_path: Path
) -> None:
    CandidateWorld.of(made, *BUILT).build_all(5)
    copied = copy_lake(made.lake, tmp_path / "copy")
    assert files(tmp_path / "copy") == files(made.root)
    assert {p.name for p in (tmp_path / "copy").iterdir()} & {
        ".dagster",
        ".runs",
        ".venv",
        UNFINISHED_COPY_FILE,
    } == set()
    assert (copied.files, copied.copied) == (len(files(made.root)), len(files(made.root)) - 1)
    assert (tmp_path / "copy" / FORGOTTEN / "key").stat().st_mode & 0o077 == 0, (
        "for its owner alone"
    )
    again = Planned.reopened(tmp_path / "copy")
    assert again.states().view == made.states().view
    assert find_snapshot(again.lake, "spring") == find_snapshot(made.lake, "spring")
    again.write("features", {3: 8})
    assert again.states().of("features", day(3)) is State.FRESH


def watched(lake: Lake, opening: Callable[[str], None]) -> Lake:
    """The lake, with a call before one of its files is opened."""

    class Watched(Folder):
        def open(self, name: str, **how: bool) -> BufferedReader:
            opening(name)
            return super().open(name, **how)

    class WatchedLake(Lake):
        @property
        def place(self) -> Watched:
            return Watched(str(self.root))

    return WatchedLake(**vars(lake))


def test_a_copy_that_was_killed_at_any_file_is_no_lake_and_the_same_command_goes_on(
    made: Planned, tmp_path: Path
) -> None:
    kills, other = 0, Planned(tmp_path / "other")
    for step in range(0, 300, 9):
        target, opened = tmp_path / f"copy{step}", list[str]()

        def dies(name: str, opened: list[str] = opened, step: int = step) -> None:
            opened.append(name)
            if len(opened) > step:
                raise Killed

        try:
            copy_lake(watched(made.lake, dies), target)
        except Killed:
            kills += 1
        else:
            break
        assert not (target / FILE_NAME).exists()
        with pytest.raises(BackfillError, match="begins there"):
            copy_lake(other.lake, target)
        copied = copy_lake(made.lake, target)
        assert files(target) == files(made.root)
        assert copied.copied <= copied.files - step // 2 + AT_ONCE, (
            "what was there already is not brought again"
        )
    assert 3 < kills < 34


def test_a_copy_that_was_killed_when_it_held_all_is_finished_and_keeps_what_was_written_there_since(
    made: Planned, tmp_path: Path
) -> None:
    copy_lake(made.lake, tmp_path / "copy")
    (tmp_path / "copy" / UNFINISHED_COPY_FILE).write_text(json.dumps({"from": str(made.root)}))
    again = Planned.reopened(tmp_path / "copy")
    again.write("features", {3: 8})
    now = files(tmp_path / "copy")
    assert copy_lake(made.lake, tmp_path / "copy").copied == 0
    assert files(tmp_path / "copy") == now
    assert not (tmp_path / "copy" / UNFINISHED_COPY_FILE).exists()


def test_one_command_at_a_time_copies_to_a_target(made: Planned, tmp_path: Path) -> None:
    def also_copies(name: str) -> None:
        if name == FILE_NAME:
            with pytest.raises(Held, match="the copy to"):
                copy_lake(made.lake, tmp_path / "copy")

    copy_lake(watched(made.lake, also_copies), tmp_path / "copy")
    assert files(tmp_path / "copy") == files(made.root)
    with pytest.raises(BackfillError, match="it is not empty"):
        copy_lake(made.lake, tmp_path / "copy")


def test_what_is_written_during_a_round_comes_with_the_next_and_a_restless_lake_is_refused(
    made: Planned, tmp_path: Path
) -> None:
    values = iter(range(10, 99))

    def writing(times: list[int]) -> Callable[[str], None]:
        def write(name: str) -> None:
            if name == FILE_NAME and times[0] > 0:  # once a round
                times[0] -= 1
                made.write("features", {2: next(values)})

        return write

    def is_copied(target: Path, times: int) -> bool:
        copy_lake(watched(made.lake, writing([times])), target)
        return files(target) == files(made.root)

    assert is_copied(tmp_path / "copy", 1)
    with pytest.raises(BackfillError, match="it was written during each of 3 rounds"):
        is_copied(tmp_path / "restless", 9)
    assert not (tmp_path / "restless" / FILE_NAME).exists()
    assert is_copied(tmp_path / "restless", 0)


def test_a_write_under_way_is_waited_for(made: Planned, tmp_path: Path) -> None:
    with fill_staging(made.lake, made.pipeline.contract("features", "")) as staged:
        with pytest.raises(BackfillError, match="another command writes features"):
            copy_lake(made.lake, tmp_path / "copy")
        staged.drop()
    copy_lake(made.lake, tmp_path / "copy")


def test_targets_and_lakes_that_no_copy_can_be_made_of_are_refused_by_name(
    made: Planned, tmp_path: Path
) -> None:
    other = Planned(tmp_path / "other")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    candidate = CandidateWorld.of(made, *BUILT).there.lake
    for lake, target, words in (
        (made.lake, other.root, "it is not empty"),
        (made.lake, tmp_path / "full", "it is not empty"),
        (made.lake, tmp_path / "file", "is a file"),
        (made.lake, made.root / "copy", "lies in it"),
        (made.lake, tmp_path, "lies in it"),
        (made.lake, other.root / ".candidates" / "copy", "it lies in the lake"),
        (
            replace(made.lake, root=local_root("s3://shop/lake")),
            local_root("s3://shop/lake/copy"),
            "lies in it",
        ),
        (
            replace(made.lake, root=local_root("s3://shop/lake")),
            local_root("s3://shop"),
            "lies in it",
        ),
        (candidate, tmp_path / "copy", "it is a candidate"),
    ):
        before = files(made.root) | files(other.root)
        with pytest.raises(BackfillError, match=words):
            copy_lake(lake, target)
        assert files(made.root) | files(other.root) == before
    (made.root / "tables" / "orders").mkdir()
    (made.root / "tables" / "orders" / "others-1").symlink_to(tmp_path)
    with pytest.raises(BackfillError, match="orders is read from the folder of others by a link"):
        copy_lake(open_lake(made.root), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def begun(made: Planned, target: Path) -> Path:
    """A folder that says of itself that a copy of the lake begins there, as this command leaves
    one."""
    target.mkdir(mode=0o755)
    (target / UNFINISHED_COPY_FILE).write_text(json.dumps({"from": str(made.root)}))
    return target


@pytest.mark.parametrize(
    "name", ["tables", "tables/features", "lake.toml", ".locks", ".locks/copy-lake.lock", "x"]
)
def test_a_target_with_a_link_is_refused_and_what_lies_behind_stays(
    made: Planned, tmp_path: Path, name: str
) -> None:
    other, target = Planned(tmp_path / "other"), begun(made, tmp_path / "copy")
    (target / name).parent.mkdir(exist_ok=True)
    (target / name).symlink_to(other.root / name)
    before = files(other.root)
    with pytest.raises(BackfillError, match="is a link"):
        copy_lake(made.lake, target)
    assert files(other.root) == before


def test_a_target_that_others_may_write_is_refused_whatever_it_says_of_itself(
    made: Planned, tmp_path: Path
) -> None:
    for number, folder in enumerate(("", "tables", "tables/features")):
        target = begun(made, tmp_path / f"copy{number}")
        (target / "tables" / "features").mkdir(parents=True)
        (target / folder).chmod(0o777)
        with pytest.raises(BackfillError, match="may be written by everyone"):
            copy_lake(made.lake, target)
        assert not (target / FILE_NAME).exists()


@pytest.mark.parametrize(
    "name", ["pipeline.py", "sql", "tables/features/part.parquet", ".plans/p.json", "landing"]
)
def test_a_link_or_pipe_in_a_lake_is_refused_by_name_and_nothing_is_copied(
    made: Planned, tmp_path: Path, name: str
) -> None:
    for make in (lambda path: path.symlink_to(tmp_path), os.mkfifo):
        path = made.root / ".." / "lake" / name
        path = path if not path.exists() else path / "below"
        path.parent.mkdir(exist_ok=True)
        make(path)
        with pytest.raises(BackfillError, match=f"{name}.* is a link, or no regular file"):
            copy_lake(made.lake, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        path.unlink()


def test_links_that_a_lake_can_do_without_are_left_out(made: Planned, tmp_path: Path) -> None:
    for name in (".stock/file.parquet", ".venv/lib"):
        (made.root / name).parent.mkdir(exist_ok=True)
        (made.root / name).symlink_to(tmp_path)
    copy_lake(made.lake, tmp_path / "copy")
    assert files(tmp_path / "copy") == files(made.root)


@pytest.mark.parametrize(
    "name", ["../escaped", "tables/../../escaped", "/escaped", "sql//escaped", "sql/"]
)
def test_an_object_whose_name_leads_out_of_a_folder_is_refused_by_name(
    made: Planned, tmp_path: Path, name: str
) -> None:
    class Named(Folder):
        def below(self, folder: str = "") -> list[str]:
            return [*super().below(folder), name]

        def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
            return {n: Token((1,), 1, 1.0) for n in self.below(folder)}

    class NamedLake(Lake):
        @property
        def place(self) -> Named:
            return Named(str(self.root))

    with pytest.raises(BackfillError, match="is no name of a file"):
        copy_lake(NamedLake(**vars(made.lake)), tmp_path / "copy")
    assert {p.name for p in tmp_path.iterdir()} <= {"lake", "copy"}
