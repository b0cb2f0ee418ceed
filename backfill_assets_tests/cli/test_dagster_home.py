"""Which Dagster instance the commands mean where nobody named one. No run is started.
Not here: `dagster dev`."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from backfill_assets.cli.dagster_home import (
    instance_of,
    lake_option_text,
    silence_dagster,
    ui_place,
)
from backfill_assets.cli.dagster_names import EVENT_STORAGE, SETTINGS_OF_A_LAKE
from backfill_assets.dagster.adapter.event_storage import BatchedEventLogStorage
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.process import LAKE_VARIABLE
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.sources import CHECKOUT
from backfill_assets_tests.strangers import give_away
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")

# Of the checkout: what a lake remembers lies beside its file.
BY_FOLDER = ("run_storage:", "schedule_storage:", "local_artifact_storage:", "compute_logs:")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake of programs that were installed from a wheel: there is no checkout around them, and no
    home is named."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return synthetic_lake(tmp_path / "lake", 1)[0]


@contextmanager
def instance_in(lake: Lake) -> Iterator[dg.DagsterInstance]:
    """What a command opens that is typed in another folder."""
    with silence_dagster(), instance_of(lake, project=lake.root.parent / "elsewhere") as instance:
        yield instance


def test_an_installed_package_says_of_dagster_what_the_checkout_says() -> None:
    ours, lakes = (
        (p.read_text(encoding="utf-8")).split("\n\n")
        for p in (CHECKOUT / "dagster.yaml", SETTINGS_OF_A_LAKE)
    )
    ours = [
        s.replace("base_dir: .dagster/storage/history/runs", "home: { env: DAGSTER_HOME }")
        for s in ours
    ]
    assert lakes[1:] == [section for section in ours[1:] if not section.startswith(BY_FOLDER)]


def test_the_events_of_a_lake_lie_beside_its_settings_wherever_it_is_moved(installed: Lake) -> None:
    with instance_in(installed) as instance:
        assert isinstance(instance.event_log_storage, BatchedEventLogStorage)
    assert (installed.root / ".dagster" / "history" / "runs" / "index.db").is_file()
    moved = replace(installed, root=installed.root.rename(installed.root.with_name("moved")))
    with instance_in(moved) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
        assert instance.get_latest_materialization_event(dg.AssetKey("a"))
    assert not installed.root.exists()


@pytest.mark.parametrize("named_by", ["doctor", "production"])
def test_dagster_opens_our_event_storage_by_what_commands_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    (tmp_path / "dagster.yaml").write_text(
        EVENT_STORAGE if named_by == "doctor" else run("production").stdout
    )
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert isinstance(instance.event_log_storage, BatchedEventLogStorage)
        assert instance.run_retries_enabled is (named_by == "production")


def test_commands_write_the_events_of_a_home_that_names_no_storage_by_ours_and_dagster_reads_them(
    installed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get() as dagsters:
        dagsters.report_runless_asset_event(dg.AssetMaterialization("before"))
    with silence_dagster(), instance_of(installed) as instance:
        assert isinstance(instance.event_log_storage, BatchedEventLogStorage)
        assert instance.get_latest_materialization_event(dg.AssetKey("before"))
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
    with dg.DagsterInstance.get() as dagsters:
        assert not isinstance(dagsters.event_log_storage, BatchedEventLogStorage)
        assert dagsters.get_latest_materialization_event(dg.AssetKey("a"))


@pytest.mark.parametrize("more", ["", "schedules: {use_threads: true}\n"])
def test_a_home_that_names_its_storage_keeps_it(
    installed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    (tmp_path / "dagster.yaml").write_text(f"{more}storage:\n  sqlite: {{base_dir: {tmp_path}}}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with silence_dagster(), instance_of(installed) as instance:
        assert not isinstance(instance.event_log_storage, BatchedEventLogStorage)


def test_the_instance_of_a_lake_queues_and_watches_its_runs(installed: Lake) -> None:
    with instance_in(installed) as instance:
        assert Path(instance.root_directory) == installed.root / ".dagster"
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled
        assert (limits := instance.get_concurrency_config().run_queue_config)
        assert limits.max_concurrent_runs == 2


def test_what_a_person_wrote_for_the_instance_of_a_lake_stays(installed: Lake) -> None:
    home = installed.root / ".dagster"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with instance_in(installed) as instance:
        assert not instance.run_monitoring_enabled
    assert (home / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"


def test_a_lake_that_may_only_be_read_is_looked_at_without_an_instance(
    installed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path) != installed.root
    )  # root may write everything
    with instance_in(installed) as instance:
        assert instance.is_ephemeral
    assert not (installed.root / ".dagster").exists()


@pytest.mark.parametrize("named", [True, False], ids=["by DAGSTER_HOME", "of the lake"])
def test_a_full_disk_under_the_storage_of_runs_is_one_line(
    installed: Lake, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    home = installed.root / ".dagster"
    if named:
        home.mkdir(exist_ok=True)
        monkeypatch.setenv("DAGSTER_HOME", str(home))
    full = sqlite3.OperationalError("database or disk is full")
    with (
        pytest.raises(
            BackfillError, match=r"home .*: database or disk is full\. The run was not finished"
        ) as caught,
        instance_in(installed),
    ):
        raise sa.exc.OperationalError("INSERT INTO event_logs", {}, full)
    assert str(home) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, SettingsError), "exit code 1"


def test_the_instance_of_a_project_is_that_of_its_own_lake_and_no_other_lake_is_shown_there(
    installed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    own, _ = synthetic_lake(tmp_path / "own", 1)
    monkeypatch.setenv(LAKE_VARIABLE, str(own.root))
    homes = {}
    for lake in (own, installed):
        with silence_dagster(), instance_of(lake, project=project) as instance:
            homes[lake.root] = Path(instance.root_directory)
    assert homes == {own.root: project, installed.root: installed.root / ".dagster"}
    assert ui_place(own, project) == (project, {}, True)
    with monkeypatch.context() as patch, silence_dagster():
        give_away(project / "dagster.yaml", patch)
        with instance_of(
            own, project=project
        ) as instance:  # whoever wrote it might have it run anything
            assert Path(instance.root_directory) == own.root / ".dagster"
    (project / "dagster.yaml").unlink()
    (project / "dagster.yaml").touch()
    assert (lake_option_text(own), lake_option_text(installed)) == ("", f"--lake {installed.root} ")


@pytest.mark.parametrize("named", [False, True])
def test_pages_never_start_in_a_folder_where_another_user_may_have_put_modules(
    named: bool, installed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" if named else installed.root / ".dagster"
    if named:
        monkeypatch.setenv("DAGSTER_HOME", str(home))
    elsewhere = (home, {LAKE_VARIABLE: str(installed.root), "DAGSTER_HOME": str(home)}, False)
    for mode in (0o755, 0o1777):
        (folder := tmp_path / f"{mode}").mkdir()
        folder.chmod(mode)
        assert ui_place(installed, folder) == (
            (folder, {LAKE_VARIABLE: str(installed.root)}, True)
            if named and mode == 0o755
            else elsewhere
        )
    (folder / "dagster.yaml").touch()
    monkeypatch.setenv(LAKE_VARIABLE, str(installed.root))
    with monkeypatch.context() as patch:
        folder.chmod(0o755)
        give_away(folder, patch)
        assert ui_place(installed, folder) == elsewhere
