"""A lake's definitions merge with those of a project, twice, and nothing of the project's is other
than before.

Tested here: `build_lake_defs` as definitions, without an engine. Not tested here: names as values
(`dagster.adapter.test_context`), and our own project (`dagster.adapter.test_assemble`).
"""

import gc
import os
import stat
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.dagster import build_lake_defs
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.dagster.their_project import late_data, raw, report
from backfill_assets_tests.lakes import make_lake

pytestmark = pytest.mark.usefixtures("storages")
TABLES = ["raw", "staging", "features", "features_as_known", "labels", "training"]
LEDGERS = ["arrivals", "quarantine", "too_late"]
START = "2024-03-01"
STOPPED, RUNNING = dg.DefaultSensorStatus.STOPPED, dg.DefaultSensorStatus.RUNNING


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake into which nothing has landed."""
    return make_lake(tmp_path / "lake", [], START)


def project() -> dg.Definitions:
    """A project that has what projects have, under the names that a lake alone would take."""
    return dg.Definitions(
        assets=[raw, report],
        jobs=[dg.define_asset_job("rebuild", selection="raw")],
        sensors=[late_data],
        resources={
            "io_manager": dg.mem_io_manager,
            "lake_io_manager": dg.mem_io_manager,
            "pyspark": 5,
        },
        executor=dg.multiprocess_executor,
    )


def test_two_lakes_merge_with_a_project_whose_names_are_those_of_a_lake(lake: Lake) -> None:
    theirs = project()
    lakes = (
        build_lake_defs(lake.root, key_prefix="shop"),
        build_lake_defs(lake.root, key_prefix=["eu", "shop"]),
    )
    merged = dg.Definitions.merge(theirs, *lakes)
    dg.Definitions.validate_loadable(merged)
    keys = {k.to_user_string() for k in merged.resolve_asset_graph().get_all_asset_keys()}
    assert keys == {"raw", "report"} | {
        f"{p}/{t}" for p in ("shop", "eu/shop") for t in TABLES + LEDGERS
    }
    mine, before = dict(merged.resources or {}), dict(theirs.resources or {})
    assert {name: mine[name] for name in before} == before
    assert merged.executor is dg.multiprocess_executor


def test_runs_of_the_project_keep_its_executor_and_a_lakes_jobs_bring_their_own(lake: Lake) -> None:
    merged = dg.Definitions.merge(project(), build_lake_defs(lake.root, key_prefix="shop"))
    executors = {j.name: j.executor_def.name for j in merged.get_repository_def().get_all_jobs()}
    assert {n for n, e in executors.items() if e == "multiprocess"} == {"rebuild", "__ASSET_JOB"}
    assert {e for n, e in executors.items() if n.startswith("shop__")} == {"in_process"}


def test_nothing_runs_by_itself_unless_it_is_asked_for(lake: Lake) -> None:
    off = build_lake_defs(lake.root).get_repository_def()
    assert {s.default_status for s in off.sensor_defs} == {STOPPED}
    assert {s.default_status.value for s in off.schedule_defs} == {"STOPPED"}
    on = build_lake_defs(lake.root, automation="sensors").get_repository_def()
    assert {s.name for s in on.sensor_defs if s.default_status is RUNNING} == {
        f"lake__{name}" for name in ("landing", "late_data", "plans", "controls")
    }
    assert {s.name for s in on.schedule_defs if s.default_status.value == "RUNNING"} == {
        "lake__daily_load"
    }


def test_what_dagsters_own_decorator_takes_is_passed_on(lake: Lake) -> None:
    eager = dg.AutomationCondition.eager()
    words = {
        "group_name": "sales",
        "owners": ["team:sales"],
        "tags": {"tier": "gold"},
        "kinds": {"delta"},
    }
    defs = build_lake_defs(
        lake.root,
        group_name="sales",
        owners=["team:sales"],
        tags={"tier": "gold"},
        kinds={"delta"},
        automation_condition=eager,
        pool="spark",
        op_tags={"memory": "2g"},
    )
    for table in TABLES:
        asset = defs.resolve_assets_def(table)
        (spec,) = asset.specs
        assert {name: getattr(spec, name) for name in ("group_name", "owners", "tags")} | {
            "kinds": spec.kinds
        } == {**words, "tags": {**spec.tags, "tier": "gold"}}
        assert spec.automation_condition == eager
        assert (asset.op.pool, asset.op.tags["memory"]) == ("spark", "2g")
    ledgers = {
        s.key.path[-1]: s for s in defs.resolve_all_asset_specs() if s.key.path[-1] in LEDGERS
    }
    assert {(s.group_name, *s.owners, s.tags["tier"]) for s in ledgers.values()} == {
        ("sales", "team:sales", "gold")
    }
    assert {s.automation_condition for s in ledgers.values()} == {None}


def mappings(defs: dg.Definitions) -> dict[tuple[str, str], dg.PartitionMapping]:
    """The mapping of each input of each table."""
    found = {}
    for spec in defs.resolve_all_asset_specs():
        for dep in spec.deps if spec.key.path[-1] in TABLES else ():
            assert dep.partition_mapping is not None
            found[spec.key.path[-1], dep.asset_key.path[-1]] = dep.partition_mapping
    return found


def test_inputs_are_shown_day_to_same_day_or_with_their_windows(lake: Lake) -> None:
    assert set(map(type, mappings(build_lake_defs(lake.root)).values())) == {
        dg.IdentityPartitionMapping
    }
    shown = mappings(build_lake_defs(lake.root, mappings="windows"))
    assert isinstance(shown["staging", "raw"], dg.IdentityPartitionMapping), (
        "a delivery can be for any day"
    )
    windows = {
        edge: (m.start_offset, m.end_offset)
        for edge, m in shown.items()
        if isinstance(m, dg.TimeWindowPartitionMapping)
    }
    assert windows == {
        ("features", "staging"): (-2, 0),
        ("features_as_known", "staging"): (-2, 0),
        ("labels", "features_as_known"): (0, 0),
        ("labels", "staging"): (0, 1),
        ("training", "features_as_known"): (0, 0),
        ("training", "labels"): (0, 0),
    }


def test_making_the_definitions_changes_nothing_in_the_process_nor_in_the_lake(lake: Lake) -> None:
    (lake.root / "tables").mkdir()
    (lake.root / "tables").chmod(0o755)
    before = os.umask(0o022)
    try:
        process = gc.get_threshold(), dict(os.environ), set(lake.root.rglob("*"))
        dg.Definitions.validate_loadable(build_lake_defs(lake.root, key_prefix="shop"))
        assert os.umask(0o022) == 0o022
        assert (gc.get_threshold(), dict(os.environ), set(lake.root.rglob("*"))) == process
        assert stat.S_IMODE((lake.root / "tables").stat().st_mode) == 0o755
    finally:
        os.umask(before)
