"""Runs of two lakes in a project that has its own IO manager, executor, asset `raw`, job and
sensor.

Tested here: a run of a lake's job in one process, one from an asset's page by the project's
multiprocess executor, the sensors' requests under a prefix, and that nothing of the project's is
other than before. Not tested here: definitions alone (`dagster.test_definitions`).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.runs import LAKE_TAG, RANGE_END, RANGE_START, markers_of
from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.dagster import their_project
from backfill_assets_tests.lakes import delivery, land, make_lake, snapshot

pytestmark = pytest.mark.usefixtures("storages", "processes")
FIRST, LAST = "2024-03-01", "2024-03-03"
DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
SHOP, EU = ["shop"], ["eu", "shop"]
SPAN = {RANGE_START: FIRST, RANGE_END: LAST}


def keys(prefix: list[str], *tables: str) -> list[dg.AssetKey]:
    return [dg.AssetKey([*prefix, table]) for table in tables]


def made(instance: dg.DagsterInstance, key: dg.AssetKey) -> set[str]:
    """The days of an asset that Dagster shows as materialized."""
    return set(instance.get_materialized_partitions(key))


class Beside:
    """The project, its two lakes of the same deliveries, and its instance, a home without our
    classes."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
        self.one, self.two = (make_lake(folder / name, rows, FIRST) for name in ("one", "two"))
        self.instance = instance
        os.umask(0o022)  # what the project's processes have
        self.defs = their_project.merged()
        self.first = self.run("shop__rebuild", keys(SHOP, "raw", "staging"))
        self.umask = os.umask(0o022)
        every = [
            *keys(SHOP, "raw", "staging"),
            *keys([], "raw", "staging"),
            *keys(EU, "raw", "staging"),
        ]
        self.made = {key.to_user_string(): made(instance, key) for key in every}
        self.rows = snapshot_of(self.one)

    def run(self, job: str, chosen: list[dg.AssetKey]) -> dg.ExecuteInProcessResult:
        found = self.defs.resolve_job_def(job)
        return found.execute_in_process(
            instance=self.instance, tags=SPAN, asset_selection=chosen, raise_on_error=False
        )

    def tick(self, sensor: str) -> Any:
        repository = self.defs.get_repository_def()
        with dg.build_sensor_context(instance=self.instance, repository_def=repository) as context:
            return repository.get_sensor_def(sensor).evaluate_tick(context)


@pytest.fixture(scope="module")
def beside(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder, home = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("home")
    before = os.umask(0o022)
    with (
        pytest.MonkeyPatch.context() as patch,
        dg.DagsterInstance.local_temp(str(home)) as instance,
    ):
        patch.setenv(their_project.FOLDER, str(folder))
        yield Beside(folder, instance)
        for name in ("one", "two"):
            stop_server(folder / name, force=True)
    os.umask(before)


def test_a_run_of_the_lakes_job_is_told_under_its_keys_and_gives_the_process_its_umask_back(
    beside: Beside,
) -> None:
    assert beside.first.success
    told = {name: days for name, days in beside.made.items() if days}
    assert told == {"shop/raw": set(DAYS), "shop/staging": set(DAYS)}
    run = beside.instance.get_run_by_id(beside.first.run_id)
    assert run is not None
    assert (run.tags[LAKE_TAG], run.tags["tables"]) == (str(beside.one.root), "raw, staging")
    steps = {e.step_key or "" for e in beside.first.all_events if e.is_step_success}
    assert {step for step in steps if "make_" in step} == {"shop__make_raw", "shop__make_staging"}
    assert all(step.startswith("shop__") for step in steps)
    assert beside.umask == 0o022


def test_a_run_from_an_assets_page_has_the_projects_executor_a_process_per_step(
    beside: Beside,
) -> None:
    with dg.execute_job(
        dg.reconstructable(their_project.as_from_pages), instance=beside.instance, tags=SPAN
    ) as result:
        assert result.success
        started = [e for e in result.all_events if e.event_type_value == "STEP_WORKER_STARTING"]
        assert {e.step_key for e in started} >= {"eu__shop__make_raw", "eu__shop__make_staging"}
    assert made(beside.instance, dg.AssetKey(["eu", "shop", "staging"])) == set(DAYS)
    assert snapshot_of(beside.two) == beside.rows
    marked = beside.two.place.names(markers_of(beside.instance, beside.two).folder)
    assert not marked, "a step's process that ends does not end the run"


def snapshot_of(lake: Lake) -> dict[str, Any]:
    """Rows and fingerprints of the days of the tables that were made."""
    return {name: days for name, days in snapshot(lake).items() if name in ("raw", "staging")}


def test_late_data_is_requested_by_the_lakes_own_job_and_keys(beside: Beside) -> None:
    late = delivery(90, f"{LAST} 11:00:00", f"{FIRST} 10:00:00", "late")
    land(beside.one, "late.jsonl", [late])
    scan = beside.tick("shop__landing").run_requests
    assert [r.job_name for r in scan] == ["shop__scan_landing"]
    assert (
        beside.defs.resolve_job_def("shop__scan_landing")
        .execute_in_process(instance=beside.instance)
        .success
    )
    (load,) = beside.tick("shop__landing").run_requests
    assert (load.job_name, load.asset_selection, load.partition_key) == (
        "shop__rebuild",
        keys(SHOP, "raw"),
        LAST,
    )
    beside.run("shop__rebuild", keys(SHOP, "raw"))
    asked = beside.tick("shop__late_data").run_requests
    assert next((r.job_name, r.asset_selection[0], r.tags[RANGE_START]) for r in asked) == (
        "shop__rebuild",
        dg.AssetKey(["shop", "staging"]),
        FIRST,
    )
    of_the_other = beside.tick("eu__shop__late_data").run_requests or []
    assert {tuple(k.path[:2]) for r in of_the_other for k in r.asset_selection} <= {tuple(EU)}
