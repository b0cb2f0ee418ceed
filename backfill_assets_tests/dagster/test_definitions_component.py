"""`LakeComponent` in a project: found by its entry point, scaffolded with a lake that runs, loaded
from a `defs.yaml`.

Tested here: by Dagster's own test tools for components, and by the commands of `dg` where they are
installed (they are no dependency of ours). Not tested here: the definitions
(`dagster.test_definitions`).
"""

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

import backfill_assets
from backfill_assets.dagster import LakeComponent
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.lakes import make_lake
from backfill_assets_tests.sources import CHECKOUT

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("storages")]
DG_PROJECT = """\
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
"""
DG_DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
TABLES = {"raw", "staging", "features", "features_as_known", "labels", "training"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path / "lake", [], "2024-03-01")


def test_the_entry_point_names_a_module_that_shows_the_class() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["dagster_dg_cli.registry_modules"] == {
        "backfill_assets": "backfill_assets"
    }
    assert "LakeComponent" in dir(backfill_assets)
    assert backfill_assets.LakeComponent is LakeComponent


def test_a_scaffold_makes_a_file_and_a_lake_that_loads() -> None:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=LakeComponent, defs_path="my-sales", scaffold_params={"lake": "data/lake"}
        )
        assert (path / "defs.yaml").exists()
        assert (sandbox.project_root / "data/lake/lake.toml").exists()
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            assert isinstance(component, LakeComponent)
            assert component.lake == "data/lake"
            specs = {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}
            assert {f"my_sales/{t}" for t in TABLES} <= set(specs)
            assert {s.group_name for s in specs.values()} == {"my_sales"}
            assert not any("No lake yet" in (s.description or "") for s in specs.values())


def test_every_field_reaches_the_definitions(lake: Lake) -> None:
    attributes = {
        "lake": str(lake.root),
        "key_prefix": ["eu", "shop"],
        "group_name": "sales",
        "owners": ["team:sales"],
        "tags": {"tier": "gold"},
        "kinds": ["delta"],
        "pool": "spark",
        "op_tags": {"memory": "2g"},
        "automation": "sensors",
        "mappings": "windows",
    }
    assert set(attributes) == set(LakeComponent.model_fields)
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=LakeComponent,
            defs_path="sales",
            scaffold_params={"lake": str(lake.root)},
            defs_yaml_contents={"type": "backfill_assets.LakeComponent", "attributes": attributes},
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            asset = defs.resolve_assets_def(dg.AssetKey(["eu", "shop", "features"]))
            (spec,) = asset.specs
            assert (spec.group_name, spec.owners, spec.kinds) == (
                "sales",
                ["team:sales"],
                {"delta"},
            )
            assert (spec.tags["tier"], asset.op.pool, asset.op.tags["memory"]) == (
                "gold",
                "spark",
                "2g",
            )
            assert {type(d.partition_mapping) for d in spec.deps} == {dg.TimeWindowPartitionMapping}
            sensor = defs.resolve_sensor_def("eu__shop__late_data")
            assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


@pytest.mark.usefixtures("processes")
def test_the_commands_of_dg_find_scaffold_and_check_a_lake(tmp_path: Path) -> None:
    if find_spec("dagster_dg_cli") is None:
        pytest.skip(
            "no dagster-dg-cli here: pip install dagster-dg-cli, and this package by its metadata "
            "of today"
        )
    package = tmp_path / "src" / "shop"
    (package / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(DG_PROJECT)
    (package / "definitions.py").write_text(DG_DEFINITIONS)
    for folder in (package, package / "defs"):
        (folder / "__init__.py").touch()

    def dg_command(*words: str) -> str:
        program = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            "from dagster_dg_cli.cli import main; main()",
            *words,
        ]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path])}
        run = subprocess.run(
            program, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    assert "backfill_assets.LakeComponent" in dg_command(
        "list", "components", "--package", "backfill_assets"
    )
    dg_command("scaffold", "defs", "backfill_assets.LakeComponent", "sales", "--lake", "data/lake")
    assert (tmp_path / "data/lake/lake.toml").exists()
    assert "All definitions loaded successfully" in dg_command("check", "defs")
    listed = dg_command("list", "defs", "--json")
    assert all(f'"sales/{table}"' in listed for table in TABLES)
