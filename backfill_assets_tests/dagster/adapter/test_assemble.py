"""The definitions of a lake: assets, checks and the job exist as Dagster's UI expects them, and no
engine was started.

Tested here: what `assemble` makes of our pipeline and of a toy. Not tested here: runs
(`test_runs`).
"""

from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.assemble import assemble, rebuild_job
from backfill_assets.dagster.adapter.context import ALONE, PLAIN, Naming, Opened
from backfill_assets.dagster.adapter.runs import REBUILD
from backfill_assets.engines.server import server_status
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Table
from backfill_assets.pipeline.lake_pipeline import pipeline_of
from backfill_assets.pipeline.tables import tables as our_tables
from backfill_assets_tests.builders import CHECKS
from backfill_assets_tests.lakes import make_lake, run_rebuild, toy
from backfill_assets_tests.processes import run_python
from backfill_assets_tests.synthetic import START as SYNTHETIC
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
TABLES = ["raw", "staging", "features", "features_as_known", "labels", "training"]
START = "2024-03-01"


@pytest.fixture
def definitions(tmp_path: Path) -> dg.Definitions:
    return assemble(make_lake(tmp_path, [], START).root, our_tables)


def assets_of(definitions: dg.Definitions) -> dict[str, dg.AssetsDefinition]:
    found = [a for a in definitions.assets or () if isinstance(a, dg.AssetsDefinition)]
    return {a.key.path[-1]: a for a in found}


def test_every_table_is_an_asset_of_days_that_runs_ranges(
    definitions: dg.Definitions, tmp_path: Path
) -> None:
    assets = assets_of(definitions)
    assert list(assets) == TABLES
    for name, asset in assets.items():
        days = asset.partitions_def
        assert isinstance(days, dg.DailyPartitionsDefinition)
        assert (days.start.date(), days.end, days.timezone) == (
            date.fromisoformat(START),
            None,
            "UTC",
        )
        assert asset.backfill_policy == dg.BackfillPolicy.single_run()
        (spec,) = asset.specs
        assert spec.code_version
        assert spec.kinds == {"spark", "deltalake"}
        assert {"dagster/column_schema", "dagster/uri", "dagster/table_name"} <= set(spec.metadata)
        assert spec.metadata["dagster/uri"] == (tmp_path / "tables" / name).as_uri()
    assert server_status(tmp_path) is None


def test_every_table_has_a_check_per_gate_and_one_standing_fact_never_per_day(
    definitions: dg.Definitions, tmp_path: Path
) -> None:
    specs = [
        s
        for c in definitions.asset_checks or ()
        if isinstance(c, dg.AssetsDefinition)
        for s in c.check_specs
    ]
    wanted = {(t, c) for t in TABLES for c in (*CHECKS, "no_stale_days")}
    tables = our_tables(read_lake(tmp_path).settings)
    wanted |= {(table.name, rule.name) for table in tables for rule in table.contract.rules}
    assert {(s.asset_key.path[-1], s.name) for s in specs} == wanted
    assert all(s.description and not s.partitions_def for s in specs)
    assert not any(asset.check_specs for asset in assets_of(definitions).values())


def test_the_job_holds_all_tables_and_plans_no_check_in_one_process(
    definitions: dg.Definitions,
) -> None:
    job = definitions.resolve_job_def(REBUILD)
    assert {k.path[-1] for k in job.asset_layer.executable_asset_keys} == set(TABLES)
    assert {n.name for n in job.nodes} == {PLAIN.step(t) for t in TABLES}
    assert job.executor_def is dg.in_process_executor
    assert definitions.executor is dg.in_process_executor


def test_a_commands_job_has_the_names_of_the_project_that_shows_the_lake(tmp_path: Path) -> None:
    lake, looks = make_lake(tmp_path, [], START), replace(ALONE, naming=Naming.below("shop"))
    opened = Opened(lake, pipeline_of(lake, toy()(lake.settings)), appearance=looks)
    job = rebuild_job(opened, ["sums"], lambda *_: None)
    assert (job.name, job.executor_def.name) == ("shop__rebuild", "in_process")
    assert set(job.asset_layer.executable_asset_keys) == {dg.AssetKey(["shop", "sums"])}
    assert [node.name for node in job.nodes] == ["shop__make_sums"]


def test_a_run_reads_the_settings_once_so_that_its_steps_cannot_mix_two(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 3)
    opened: list[LakeSettings] = []

    def counted(settings: LakeSettings) -> tuple[Table, ...]:
        opened.append(settings)
        return our_tables(settings)

    with dg.DagsterInstance.ephemeral() as instance:
        result = run_rebuild(
            lake, SYNTHETIC, SYNTHETIC, instance, ["staging", "features", "labels"], counted
        )
    assert result.success
    assert opened == [lake.settings]


@pytest.mark.usefixtures("processes")
def test_a_code_server_that_loads_the_definitions_prints_no_warning_of_dagsters_own(
    tmp_path: Path,
) -> None:
    make_lake(tmp_path, [], START)
    code = """
import warnings
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    from backfill_assets.definitions import defs
    defs.get_repository_def()
print([str(w.message) for w in heard if "Dagster" in type(w.message).__name__ or "beta" in str(w.message)])
"""
    assert run_python(code, env={"BACKFILL_ASSETS_LAKE": str(tmp_path)}, fresh=True) == "[]\n"
