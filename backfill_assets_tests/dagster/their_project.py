"""A project with two lakes beside what is its own, as a module that processes of a multiprocess
executor import. Here: definitions of the lake that the environment names, twice under two prefixes,
and of the project. Not here: tests (`test_beside_a_project.py`)."""

import os
from pathlib import Path

import dagster as dg

from backfill_assets.dagster import build_lake_defs

FOLDER = "BACKFILL_ASSETS_TESTS_PROJECT"


@dg.asset
def raw() -> int:
    """Of the project, by a name that every lake has, too."""
    return 7


@dg.asset
def report(raw: int) -> int:
    """Reads what the project's own IO manager keeps."""
    return raw + 1


@dg.sensor(name="late_data", job_name="rebuild")
def late_data() -> dg.SkipReason:
    """A sensor by a name that a lake has, too."""
    return dg.SkipReason("nothing")


def project() -> dg.Definitions:
    """What the project had before."""
    folder = Path(os.environ[FOLDER])
    return dg.Definitions(
        assets=[raw, report],
        jobs=[dg.define_asset_job("rebuild", selection="raw")],
        sensors=[late_data],
        resources={"io_manager": dg.FilesystemIOManager(base_dir=str(folder / "values"))},
        executor=dg.multiprocess_executor,
    )


def merged() -> dg.Definitions:
    """The project with both lakes."""
    folder = Path(os.environ[FOLDER])
    return dg.Definitions.merge(
        project(),
        build_lake_defs(folder / "one", key_prefix="shop"),
        build_lake_defs(folder / "two", key_prefix=["eu", "shop"]),
    )


def as_from_pages() -> dg.JobDefinition:
    """What the buttons on the pages of two assets start: a run without a job of the lake's, by the
    project's executor. (The job that Dagster itself makes for them has a name that no other process
    may ask for.)"""
    selection = dg.AssetSelection.assets(["eu", "shop", "raw"], ["eu", "shop", "staging"])
    job = dg.define_asset_job("as_from_pages", selection=selection)
    return dg.Definitions.merge(merged(), dg.Definitions(jobs=[job])).resolve_job_def(
        "as_from_pages"
    )
