"""Locks between processes: one writer at a time, freed by the death of a holder, not before its JVM has ended too.

Tested here: `lake.lock` with real processes that speak over their pipes; nothing here sleeps or measures time. Not
tested here: what is done under a lock, and the hour after which a waiter gives up.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from filelock import FileLock, Timeout

from backfill_assets.lake.lock import Committer, load_lock, table_lock, this_committer
from backfill_assets_tests.processes import CHECKOUT

HOLD = """
import sys
from pathlib import Path
from backfill_assets.lake.lock import table_lock, this_committer
with table_lock(Path(sys.argv[1]), "raw", this_committer(None)):
    print("held", flush=True)
    sys.stdin.readline()
"""
COUNT = """
import sys
from pathlib import Path
from backfill_assets.lake.lock import Committer, load_lock, table_lock
locks, kind, counter = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
shared = Committer(1, 0.0, shared=True)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    with table_lock(locks, "raw", shared) if kind == "table" else load_lock(locks):
        seen = int(counter.read_text())
        counter.write_text("")  # whoever reads now, finds no number
        counter.write_text(str(seen + 1))
"""
ORPHAN = "import sys; print('up', flush=True); sys.stdin.readline()"


@contextmanager
def _process(code: str, *args: object) -> "Iterator[subprocess.Popen[str]]":
    """A Python process that has said its first word; it is killed and waited for at the end."""
    command = [sys.executable, "-c", code, *map(str, args)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it ended before its first word"
            yield process
        finally:
            process.kill()


def _record(locks: Path, committer: Committer) -> Path:
    locks.mkdir(exist_ok=True)
    path = locks / "raw.committer.json"
    path.write_text(json.dumps([committer.pid, committer.started, committer.shared]))
    return path


def _is_free(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


ME = this_committer(None)


@pytest.mark.parametrize("kind", ["table", "load"])
def test_two_processes_exclude_each_other(tmp_path: Path, kind: str) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with _process(COUNT, tmp_path, kind, counter) as one, _process(COUNT, tmp_path, kind, counter) as other:
        for process in (one, other):
            assert process.stdin is not None
            print("go", file=process.stdin, flush=True)
        assert [one.wait(60), other.wait(60)] == [0, 0]
    assert counter.read_text() == "20"


def test_a_held_lock_keeps_others_out_and_its_record_names_the_holder(tmp_path: Path) -> None:
    with _process(HOLD, tmp_path) as holder:
        assert not _is_free(tmp_path / "raw.lock")
        pid, started, shared = json.loads((tmp_path / "raw.committer.json").read_text())
        assert (pid, started, shared) == (holder.pid, psutil.Process(holder.pid).create_time(), False)
        holder.communicate("done\n", timeout=60)
    assert _is_free(tmp_path / "raw.lock")
    assert not (tmp_path / "raw.committer.json").exists()


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with _process(HOLD, tmp_path) as holder:
        holder.kill()
        holder.wait(60)
        assert (tmp_path / "raw.committer.json").exists(), "it had no time to tidy up"
        with table_lock(tmp_path, "raw", ME):
            assert json.loads((tmp_path / "raw.committer.json").read_text())[0] == os.getpid()


def _enter_with_a_waiter(locks: Path, look: Callable[[], bool], meanwhile: Callable[[], object]) -> bool:
    """What `look` says the moment a waiter got the table lock; `meanwhile` runs once it holds the file lock."""
    seen: list[bool] = []

    def enter() -> None:
        with table_lock(locks, "raw", ME):
            seen.append(look())

    waiter = threading.Thread(target=enter)
    waiter.start()
    while waiter.is_alive() and _is_free(locks / "raw.lock"):
        pass
    meanwhile()
    waiter.join(60)
    assert not waiter.is_alive()
    return seen[0]


def test_a_recorded_orphan_is_waited_for(tmp_path: Path) -> None:
    with _process(ORPHAN) as orphan:
        _record(tmp_path, Committer(orphan.pid, psutil.Process(orphan.pid).create_time(), shared=False))
        assert _enter_with_a_waiter(tmp_path, lambda: orphan.poll() is not None, orphan.kill)


def test_an_orphan_that_nobody_has_buried_yet_counts_as_ended(tmp_path: Path) -> None:
    with _process(ORPHAN) as orphan:
        _record(tmp_path, Committer(orphan.pid, psutil.Process(orphan.pid).create_time(), shared=False))
        assert orphan.stdin is not None
        orphan.stdin.close()
        os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(orphan.pid).status() == psutil.STATUS_ZOMBIE
        with table_lock(tmp_path, "raw", ME):
            assert orphan.returncode is None


def test_the_server_that_both_writers_share_is_not_waited_for(tmp_path: Path) -> None:
    with _process(ORPHAN) as server:
        shared = this_committer(server.pid)
        _record(tmp_path, shared)
        with table_lock(tmp_path, "raw", shared):
            assert server.poll() is None


def test_a_process_that_merely_has_the_orphans_number_is_not_waited_for(tmp_path: Path) -> None:
    with _process(ORPHAN) as stranger:
        _record(tmp_path, Committer(stranger.pid, psutil.Process(stranger.pid).create_time() - 1000, shared=False))
        with table_lock(tmp_path, "raw", ME):
            assert stranger.poll() is None


@pytest.mark.parametrize("content", ["", "[1", "{}", "7", "[1, 2]", "null"])
def test_a_broken_record_does_not_keep_anyone_out(tmp_path: Path, content: str) -> None:
    """A record is written before the first commit under its lock: a torn one tells of no commit."""
    _record(tmp_path, ME).write_text(content)
    with table_lock(tmp_path, "raw", ME):
        assert not _is_free(tmp_path / "raw.lock")


def test_an_error_under_the_lock_frees_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), table_lock(tmp_path, "raw", ME):
        raise KeyError
    assert _is_free(tmp_path / "raw.lock")
    assert not (tmp_path / "raw.committer.json").exists()


def test_tables_and_the_load_have_locks_of_their_own(tmp_path: Path) -> None:
    with table_lock(tmp_path, "raw", ME), table_lock(tmp_path, "staging", ME), load_lock(tmp_path):
        assert {p.name for p in tmp_path.glob("*.lock")} == {"raw.lock", "staging.lock", "load.lock"}
        assert not any(map(_is_free, tmp_path.glob("*.lock")))


def test_who_commits_is_the_shared_server_if_there_is_one_else_this_process(tmp_path: Path) -> None:
    with _process(ORPHAN) as server:
        started = psutil.Process(server.pid).create_time()
        assert this_committer(server.pid) == Committer(server.pid, started, shared=True)
    assert (ME.pid, ME.shared) == (os.getpid(), False)
