"""A write to a lake in a bucket that is killed, stands still for longer than its leases last, or
whose credentials end, at each of its steps.

Tested here: two machines on a server of moto's, one of them stopped by a signal; a role. Not tested here:
whole lakes (`test_bucket_lake`), and all orders of requests (`kernel.write.test_write_states`).
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.buckets import leases
from backfill_assets.buckets.objects import Objects
from backfill_assets.kernel.log.log import data_file_names
from backfill_assets.kernel.tables import committer, staging
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, content, machine, written
from backfill_assets_tests.faulty_store import end_role
from backfill_assets_tests.processes import PIPES, run, start
from backfill_assets_tests.stores import StoreServer

pytestmark = pytest.mark.long

MOST_WRITES = 20
KILLED = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.end_to_end.test_bucket_stops import DEATHS, leases, written
DEATHS[sys.argv[2]](int(sys.argv[3]))
leases.LOCK_LEASE_SECONDS = leases.WRITE_LEASE_SECONDS = 0.5  # what it holds is another's soon after its death
written(open_lake(Path(sys.argv[1])), 2, 0, 1)
"""


def stops(real: Callable[..., Any], number: int, is_done: bool = False) -> Callable[..., Any]:
    """What gets a signal at its first call, before its work or after it (`is_done`)."""
    signals = [number]

    def stopped(*args: Any, **more: Any) -> None:
        if is_done:
            real(*args, **more)
        if signals:
            os.kill(os.getpid(), signals.pop())
        if not is_done:
            real(*args, **more)

    return stopped


def before_a_file_is_sent(number: int) -> None:
    Objects.send = stops(Objects.send, number)  # type: ignore[method-assign]


def with_one_of_two_files_sent(number: int) -> None:
    Objects.send = stops(Objects.send, number, is_done=True)  # type: ignore[method-assign]


def with_its_files_sent(number: int) -> None:
    leases.Lease.committing = stops(leases.Lease.committing, number)  # type: ignore[method-assign]


def about_to_commit(number: int) -> None:
    leases.Lease.committing = stops(leases.Lease.committing, number, is_done=True)  # type: ignore[method-assign]


def with_its_commit_done(number: int) -> None:
    committer.note_head = stops(committer.note_head, number)  # type: ignore[attr-defined]


def before_tidying_up(number: int) -> None:
    staging.Staged.keep = stops(staging.Staged.keep, number)  # type: ignore[method-assign]


DEATHS = {
    death.__name__: death
    for death in (
        before_a_file_is_sent,
        with_one_of_two_files_sent,
        with_its_files_sent,
        about_to_commit,
        with_its_commit_done,
        before_tidying_up,
    )
}
# Before its files are sent, with them, after its commit; `thorough.py` takes all, and the simulation any.
STILL = (
    DEATHS
    if os.environ.get("BACKFILL_ASSETS_STOPS") == "all"
    else ("before_a_file_is_sent", "about_to_commit", "with_its_commit_done")
)
COMMITTED = ("with_its_commit_done", "before_tidying_up")


@pytest.mark.parametrize("when", DEATHS)
def test_a_killed_write_happened_or_not_and_the_next_goes_on(
    bucket_address: str, tmp_path: Path, when: str
) -> None:
    lake = bare_bucket(bucket_address, tmp_path / "one")
    written(lake, 1, 0)
    killed = run("-c", KILLED, machine(bucket_address, tmp_path / "two"), when, "9", fresh=True)
    assert killed.returncode == -9, killed.stderr
    assert content(lake) == ([(day(0), 2), (day(1), 2)] if when in COMMITTED else [(day(0), 1)])
    written_until_it_is_swept(lake)
    assert_no_file_is_left(lake)


def written_until_it_is_swept(lake: Lake) -> None:
    """Write until the lease of another write is over, and another commit took the version that it
    tried."""
    for value in range(3, 3 + MOST_WRITES):
        written(lake, value, 0, 1)
        assert content(lake) == [(day(0), value), (day(1), value)]
        if not lake.place.names(".staging/staging"):
            break


def assert_no_file_is_left(lake: Lake) -> None:
    versions = range(1, lake.store.head("staging") + 1)
    named = {file.path for version in versions for file in files_of_version(lake, STAGING, version)}
    assert {*data_file_names(lake.table_place("staging"))} == named, (
        "no file is left that no version names, none is gone"
    )


@pytest.mark.slow
@pytest.mark.parametrize("when", STILL)
def test_a_machine_that_stands_still_for_longer_than_its_leases_commits_once_or_is_refused(
    bucket_address: str, tmp_path: Path, when: str
) -> None:
    lake = bare_bucket(bucket_address, tmp_path / "one")
    written(lake, 1, 0)
    words = (
        "-c",
        KILLED,
        machine(bucket_address, tmp_path / "two"),
        when,
        str(int(signal.SIGSTOP)),
    )
    with start(*words, fresh=True, **PIPES) as paused:
        assert os.WIFSTOPPED(os.waitpid(paused.pid, os.WUNTRACED)[1])
        written_until_it_is_swept(lake)
        before = content(lake)
        paused.send_signal(signal.SIGCONT)
        _, said = paused.communicate(timeout=120)
    assert (paused.returncode == 0) == (when in COMMITTED), said
    assert "took it for dead and removed its files" in said or when in COMMITTED
    assert content(lake) == before, "it does not come late"
    written(lake, 99, 1)
    assert content(lake) == [before[0], (day(1), 99)]
    assert_no_file_is_left(lake)


MOST_REQUESTS = 24  # of one write, and a few; every other one is tried


@pytest.mark.usefixtures("processes")
def test_a_role_whose_credentials_end_before_any_request_of_a_write_is_asked_for_new_ones(
    role_proxy: str, moto_server: StoreServer, tmp_path: Path
) -> None:
    lake = bare_bucket(f"{moto_server.new_bucket()}/lake", tmp_path)
    for number in range(1, MOST_REQUESTS, 2):
        end_role(role_proxy, number)
        written(lake, number, 0, 1)
    end_role(role_proxy, 0)
    assert lake.store.head("staging") == MOST_REQUESTS // 2, "one commit each"
    assert content(lake) == [(day(0), number), (day(1), number)]
    assert_no_file_is_left(lake)
