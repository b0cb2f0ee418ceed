"""The process that forks runs: when it is begun, anew or not at all. A small one stands in, which imports nothing.

Tested here: `orchestration.warm_starts`. Not tested here: what forks become (`test_warm_process`), and runs
(`test_run_launcher`).
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engine.processes import Process
from backfill_assets.orchestration.warm_starts import CAN_FORK, Begun, WarmStarts
from backfill_assets_tests.processes import until

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(not CAN_FORK, reason="forks are asked for on Linux only"),
]

SMALL = (
    "import os, socket, sys; from backfill_assets.orchestration import warm_process as w\n"
    "asked, line = w.serve(socket.socket(fileno=int(sys.argv[1])))\n"
    "os._exit(int(asked['words'][0]) if line.recv(9) == w.GO else 99)"
)
COMMAND = (sys.executable, "-c", SMALL)


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[WarmStarts]:
    """One that keeps the small process, for a package of one file."""
    (tmp_path / "module.py").touch()
    made = WarmStarts(COMMAND, tmp_path)
    yield made
    made.close()


def ended(begun: Begun | None) -> int | None:
    """How a process ended that was let run."""
    assert begun is not None
    begun.go()
    return begun.wait()


def test_each_process_is_a_fork_of_one_that_is_kept(starts: WarmStarts) -> None:
    assert [ended(starts.begin([code])) for code in ("0", "3")] == [0, 3]
    kept = starts.pid
    assert ended(starts.begin(["0"])) == 0
    assert starts.pid == kept


def test_an_environment_may_be_as_large_as_the_system_lets_it_be(starts: WarmStarts) -> None:
    assert ended(starts.begin(["6"], env={f"V{n}": "x" * 100_000 for n in range(20)})) == 6


def test_a_process_that_was_not_let_run_ends_without_having_run(starts: WarmStarts) -> None:
    begun = starts.begin(["0"])
    assert begun is not None
    begun.line.shutdown(1)  # as if who asked had ended
    assert begun.wait() == 99


def test_several_threads_get_a_process_each(starts: WarmStarts) -> None:
    found: list[int | None] = []
    threads = [threading.Thread(target=lambda n=n: found.append(ended(starts.begin([str(n)])))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(str(code) for code in found) == ["0", "1", "2", "3", "4", "5"]


def test_an_edited_file_of_the_package_counts_from_the_next_process_on(starts: WarmStarts, tmp_path: Path) -> None:
    running = starts.begin(["4"])
    before = starts.pid
    os.utime(tmp_path / "module.py", (1, 1))
    assert ended(starts.begin(["0"])) == 0
    assert starts.pid != before
    assert ended(running) == 4, "what runs already goes on, and its end is told"


def test_a_kept_process_that_was_killed_is_begun_anew(starts: WarmStarts) -> None:
    assert ended(starts.begin(["0"])) == 0
    killed = starts.pid
    assert killed
    os.kill(killed, signal.SIGKILL)
    assert ended(starts.begin(["5"])) == 5
    assert starts.pid != killed


def test_where_none_can_be_kept_nothing_is_begun_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_vain = WarmStarts((sys.executable, "-c", "import os; os._exit(1)"), tmp_path)
    assert [in_vain.begin(["0"]) for _ in range(3)] == [None] * 3
    assert len([told for told in caplog.messages if "Runs start as ever" in told]) == 1


OWNER = """
import os, sys, signal
from pathlib import Path
from backfill_assets.orchestration.warm_starts import WarmStarts
starts = WarmStarts((sys.executable, "-c", sys.argv[1]), Path(sys.argv[2]))
starts.begin(["0"])
print(starts.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, SMALL, str(tmp_path)]
    owner = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    until(lambda: Process.of(int(owner.stdout)) is None, tmp_path / "no.log", 20)
