"""A folder as a place: syncing, locks that death frees, rights, links; and who still touches files
without a place. Not here: power cuts (`test_commit_steps`), and the hour after which a waiter gives
up."""

import ast
import errno
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.folder import SYNC_ALL_FROM, Folder
from backfill_assets.kernel.place.port import LOCK_SECONDS, AlreadyThere, Held, table_lock
from backfill_assets.kernel.tables.staging import StagedFile
from backfill_assets_tests.processes import PIPES, start
from backfill_assets_tests.sources import PACKAGE, sources

HOLD = """
import sys
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import table_lock
with table_lock(Folder(sys.argv[1]), "raw"):
    print("held", flush=True)
    sys.stdin.readline()
"""
COUNT = """
import sys
from pathlib import Path
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import load_lock, table_lock
lake, kind, counter = Folder(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    with table_lock(lake, "raw") if kind == "table" else load_lock(lake):
        seen = int(counter.read_text())
        counter.write_text("")  # whoever reads now, finds no number
        counter.write_text(str(seen + 1))
"""


@contextmanager
def _process(code: str, *args: object) -> "Iterator[subprocess.Popen[str]]":
    """A Python process that has said its first word; it is killed and waited for at the end."""
    with start("-c", code, *map(str, args), **(PIPES | {"stdin": subprocess.PIPE})) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it ended before its first word"
            yield process
        finally:
            process.kill()


def _is_free(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", ["table", "load"])
def test_two_processes_exclude_each_other(tmp_path: Path, kind: str) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with (
        _process(COUNT, tmp_path, kind, counter) as one,
        _process(COUNT, tmp_path, kind, counter) as other,
    ):
        for process in (one, other):
            assert process.stdin is not None
            print("go", file=process.stdin, flush=True)
        assert [one.wait(60), other.wait(60)] == [0, 0]
    assert counter.read_text() == "20"


@pytest.mark.usefixtures("processes")
def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with _process(HOLD, tmp_path) as holder:
        holder.kill()
        holder.wait(60)
        with table_lock(Folder(str(tmp_path)), "raw"):
            assert not _is_free(tmp_path / ".locks" / "raw.lock")


@pytest.mark.parametrize("many", [3, SYNC_ALL_FROM])
def test_files_are_synced_with_folders_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    files = [tmp_path / "a" / f"{n}.parquet" for n in range(many)]
    files[0].parent.mkdir()
    for file in files:
        file.touch()
    synced: list[str] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())),
    )
    monkeypatch.setattr(os, "sync", lambda: synced.append("all"))
    Folder(str(tmp_path)).sync_new([file.relative_to(tmp_path).as_posix() for file in files])
    each = [str(tmp_path), str(tmp_path / "a"), *map(str, files)]
    assert sorted(synced) == sorted(each if many == 3 else ["all"])


def test_a_size_that_the_disk_does_not_give_is_an_error_and_not_a_file_that_is_gone(
    tmp_path: Path,
) -> None:
    """A commit once named the size 0, and was refused by every reader, because one `stat` had met
    an error."""
    place = Folder(str(tmp_path))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert place.size("gone") is None
    with pytest.raises(OSError, match="symbolic links"):
        place.size("loop")
    with pytest.raises(OSError, match="symbolic links"):
        assert StagedFile(place, "loop", None).size
    with pytest.raises(FileNotFoundError, match="gone"):
        assert StagedFile(place, "gone", None).size


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_a_new_file_appears_whole_and_replaces_none(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    place = Folder(str(tmp_path))
    place.write("folder/1.json", b"first", if_absent=True)
    with pytest.raises(AlreadyThere):
        place.write("folder/1.json", b"second", if_absent=True)
    place.link("folder/2.json", place, "folder/1.json")
    found = {p.name: p.read_bytes() for p in (tmp_path / "folder").iterdir() if p.name != ".lock"}
    assert found == {"1.json": b"first", "2.json": b"first"}


@pytest.mark.parametrize("condition", ["none", "if_absent", "if_unchanged"])
def test_what_a_condition_is_named_for_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, synced = Folder(str(tmp_path)), list[bytes | str]()

    def sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(
            "the folder"
            if path.is_dir()
            else path.read_bytes() + str(path == tmp_path / "a").encode()
        )

    before = place.write("a", b"1") if condition == "if_unchanged" else None
    monkeypatch.setattr(os, "fsync", sync)
    place.write("a", b"2", if_absent=condition == "if_absent", if_unchanged=before)
    assert synced == ([] if condition == "none" else [b"2False", "the folder"])


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_finished_file_is_on_the_disk_before_it_has_its_name_unless_many_are_synced_later(
    tmp_path: Path, is_synced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, synced = Folder(str(tmp_path)), list[str]()
    (finished := tmp_path / "scratch").write_bytes(b"1")
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
    )
    place.put("a", finished, is_synced=is_synced)
    assert (place.names(), synced) == (["a"], ["scratch", tmp_path.name] if is_synced else [])


def test_a_private_file_is_for_its_owner_alone_and_a_link_is_no_file_of_the_place(
    tmp_path: Path,
) -> None:
    place, before = Folder(str(tmp_path / "lake")), os.umask(0o022)
    try:
        for name in ("a", "b"):
            place.write(name, b"", is_private=name == "b")
    finally:
        os.umask(before)
    assert [(tmp_path / "lake" / name).stat().st_mode & 0o077 == 0 for name in "ab"] == [
        False,
        True,
    ]
    (tmp_path / "lake" / "theirs").symlink_to(tmp_path)
    (tmp_path / "lake" / "c").symlink_to(tmp_path / "lake" / "a")
    assert place.below() == ["a", "b"]
    place.refuse_link("none/at/all")
    with pytest.raises(BackfillError, match="a link leads out of"):
        place.refuse_link("theirs")


# Modules that touch files without a place. `kernel.place.folder` alone opens, lists, links and
# syncs a lake's content: these calls are left, and each list may only become shorter. A new module
# is written against `Lake.place`.
CONTENT: dict[str, int] = {
    "intake/content_store": 2
}  # its scratch, and its local copy that is proven
LEFT, MODULES_ELSEWHERE = 2, 32
# What users own (code, landing folders, exports, tables of others), scratch of engines, Dagster's
# home.
ELSEWHERE = [
    "plans/code",
    "plans/expect",
    "assets/contracts",
    "intake/declared",
    "intake/files",
    "intake/limited_decoding",
    "intake/listing",
    "intake/tasks",
    "kernel/write/code",
    "kernel/tables/embedded",
    "engines/engine_paths",
    "kernel/tables/folder",
    "intake/forgotten",
    "kernel/tables/home",
    "kernel/write/model",
    "intake/source_log",
    "erasure/traces",
    "engines/frame_files",
    "erasure/landed_files",
    "compare/recompute",
    "candidates/candidates",
    "compare/prove",
    "reconcile/reconcile",
    "upkeep/doctor",
    "learn/example_lakes",
    "export/export",
    "learn/first_lake",
    "learn/first_source",
    "reconcile/reconcile_sides",
    "reading/sql",
    "pipeline/chosen",
    "pipeline/own_files",
]
OF_PATHS = (
    "exists",
    "is_file",
    "is_dir",
    "is_symlink",
    "mkdir",
    "unlink",
    "rmdir",
    "rename",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "open",
    "glob",
    "rglob",
    "iterdir",
    "stat",
    "lstat",
    "touch",
    "symlink_to",
    "hardlink_to",
    "chmod",
)
OF_MODULES: dict[str, tuple[str, ...]] = {
    "os": (
        "open",
        "listdir",
        "scandir",
        "stat",
        "lstat",
        "unlink",
        "remove",
        "rename",
        "replace",
        "makedirs",
        "mkdir",
        "rmdir",
        "fsync",
        "sync",
        "link",
        "symlink",
        "access",
        "utime",
        "fdopen",
        "walk",
    ),
    "shutil": ("rmtree", "copyfile", "copytree", "copy", "move"),
    "tempfile": ("mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"),
    "glob": ("glob", "iglob"),
}
NO_FILE = re.compile(
    r"(\w+\.)*((place|content\.store|file\.store|lake_context|tarfile|packed)\.open)"
)
TOUCHING = (
    "backfill",
    "dagster",
    "lake",
    "landing",
    "load",
    "operations",
    "orchestration",
    "pipeline",
    "plans",
)


def _touches_files(call: ast.Call) -> bool:
    """Whether a call opens, lists, makes, renames or deletes files without a place."""
    if isinstance(call.func, ast.Name):
        return call.func.id in ("open", "FileLock")
    if not isinstance(call.func, ast.Attribute):
        return False
    on, name = ast.unparse(call.func.value), call.func.attr
    if on in OF_MODULES:
        return name in OF_MODULES[on]
    is_replace = (
        name == "replace" and len(call.args) == 1 and not call.keywords
    )  # of a path; of a text it has two
    if name == "exists" and call.args:
        return False  # a place's verb, and Spark's function: a path's takes no argument
    return (name in OF_PATHS or is_replace) and not NO_FILE.fullmatch(f"{on}.{name}")


def test_a_lakes_content_is_touched_by_one_room_and_who_else_does_becomes_fewer() -> None:
    room = {f"{PACKAGE}/lake/{name}.py" for name in ("files", "bucket", "local_copies")}
    counted = {
        f.place.removeprefix(f"{PACKAGE}/").removesuffix(".py"): sum(
            map(_touches_files, f.of(ast.Call))
        )
        for f in sources(PACKAGE)
        if f.room in TOUCHING and f.place not in room
    }
    offences = {
        n: count for n, count in counted.items() if count > CONTENT.get(n, 0) and n not in ELSEWHERE
    }
    assert not offences, "go through `Lake.place`"
    assert sum(CONTENT.values()) <= LEFT, "it only becomes less"
    assert len(ELSEWHERE) <= MODULES_ELSEWHERE, "it only becomes less"


def test_the_search_for_touched_files_finds_them_and_nothing_else() -> None:
    found = ("(lake.root / 'x').exists()", "path.replace(target)", "os.scandir(path)", "open(path)")
    others = (
        "text.replace('a', 'b')",
        "replace(receipt, day=1)",
        "lake.store.exists('raw')",
        "place.open('x')",
    )
    calls = {code: ast.parse(code, mode="eval").body for code in (*found, *others)}
    assert {
        code for code, call in calls.items() if isinstance(call, ast.Call) and _touches_files(call)
    } == {*found}


def test_a_folder_answers_always_and_frees_the_locks_of_the_dead_itself(tmp_path: Path) -> None:
    place = Folder(str(tmp_path))
    place.refuse_loss(OSError("Generic S3 error: the object store did not answer"), "x")
    assert place.keeping_copies("/elsewhere") is place
    with place.lock("x.lock", "the table x"):
        place.clear_locks()
        with pytest.raises(Held), place.lock("x.lock", "the table x", seconds=0):
            raise AssertionError
    assert 0 < place.patience < LOCK_SECONDS
