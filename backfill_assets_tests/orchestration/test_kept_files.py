"""Dagster's sqlite files: a run's file copied from the one that was kept, an engine of the runs that stays.

Tested here: `orchestration.kept_files` on files that Dagster made. Not tested here: events (`test_quick_events`).
"""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.orchestration.kept_files import is_made, keep, make, quick_runs
from backfill_assets.orchestration.quick_events import quick_events

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


@dg.op
def nothing() -> None:
    """Nothing."""


@dg.job
def idle() -> None:
    """A run of one op."""
    nothing()


def ran(instance: dg.DagsterInstance) -> str:
    run_id = str(uuid.uuid4())
    with quick_events(instance):
        assert idle.execute_in_process(instance=instance, run_id=run_id).success
    return run_id


def layout(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as opened:
        told = opened.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
        mode = opened.execute("PRAGMA journal_mode").fetchone()
        return [*told, mode, *opened.execute("SELECT version_num FROM alembic_version").fetchall()]


def test_the_file_of_the_next_run_is_as_dagster_makes_it(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    runs = tmp_path / "history" / "runs"
    with instance.event_log_storage.run_connection("by-dagster"):  # type: ignore[attr-defined]
        pass
    first = ran(instance)
    (kept,) = runs.glob("empty-*.template")
    with closing(sqlite3.connect(kept)) as opened:  # so that a copy shows
        opened.execute("CREATE TABLE copied (n)")
    second = ran(instance)
    assert layout(runs / f"{first}.db") == layout(runs / "by-dagster.db")
    of_second = layout(runs / f"{second}.db")
    assert [t for t in of_second if "copied" not in t] == layout(runs / "by-dagster.db")
    assert len(of_second) == len(layout(runs / "by-dagster.db")) + 1
    assert instance.all_logs(second)
    assert not list(runs.glob("*.part"))


def test_a_kept_file_that_a_power_cut_emptied_is_not_used(tmp_path: Path) -> None:
    (tmp_path / f"empty-{dg.__version__}.template").touch()
    assert not make(tmp_path / "run.db")
    assert not (tmp_path / "run.db").exists()


def test_a_file_that_another_process_made_first_stays(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    with closing(sqlite3.connect(ours)) as opened:
        opened.executescript("CREATE TABLE alembic_version (version_num); INSERT INTO alembic_version VALUES ('a')")
    keep(ours)
    with closing(sqlite3.connect(theirs)) as opened:
        opened.execute("CREATE TABLE theirs (n)")
    assert not make(theirs)  # without a revision yet: Dagster waits for who makes it
    assert not is_made(theirs)
    assert is_made(ours)


def test_looks_at_runs_share_an_engine_within_the_block_only(instance: dg.DagsterInstance) -> None:
    storage: Any = instance.run_storage

    def engines() -> set[int]:
        with storage.connect() as one, storage.connect() as another:
            return {id(one.engine), id(another.engine)}

    with quick_runs(instance), quick_runs(instance):
        assert len(engines()) == 1
        assert instance.get_runs() == []
    assert len(engines()) == 2
    assert "connect" not in vars(storage)


def test_other_storages_are_left_alone() -> None:
    with dg.DagsterInstance.ephemeral() as instance, quick_runs(instance):
        assert instance.get_runs() == []
