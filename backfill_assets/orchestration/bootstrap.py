"""Bootstrap: what a fresh checkout shows in the browser before there is a lake, and the job that makes the sample lake.

Lives here: the stand-in that the tables are shown by, and `make_sample_lake`. Does not live here: the sample
(`operations.example_lakes`), and loading it: the sensors of the lake do that, as they load whatever lands.
"""

from pathlib import Path

import dagster as dg

from backfill_assets.core.clock import utc_today
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import pipeline_of
from backfill_assets.lake.settings import FILE_NAME
from backfill_assets.operations.example_lakes import days_until, make_sample, sample_settings
from backfill_assets.orchestration.context import LakeContext, Opened
from backfill_assets.orchestration.io_manager import as_failure
from backfill_assets.orchestration.runs import LAKE_TAG

MAKE_SAMPLE = "make_sample_lake"


def is_there(root: Path) -> bool:
    """Whether the folder holds a lake, whatever its settings."""
    return (root / FILE_NAME).exists()


def no_lake(root: Path) -> SettingsError:
    """What is missing, and both ways to make it."""
    return SettingsError(
        f"the lake {root}",
        f"it has no {FILE_NAME}",
        "Nothing was done",
        f"Run the job `{MAKE_SAMPLE}` for a sample with made-up orders, or `backfill-assets init` for your own files",
    )


def stand_in(lake_context: LakeContext) -> Opened:
    """The tables as the sample lake would have them if it were made today."""
    lake = Lake(lake_context.root, sample_settings(days_until(utc_today())))
    return Opened(lake, pipeline_of(lake, lake_context.tables_of(lake.settings)), no_lake(lake_context.root))


def sample_job(root: Path) -> dg.JobDefinition:
    """The job `make_sample_lake`. Refuses a folder that holds anything."""

    @dg.op(name="make_files", description="Write the files of a small lake_context's last 30 days, and the settings.")
    def make_files(context: dg.OpExecutionContext) -> None:
        """Files and settings; no engine is started."""
        days = days_until(utc_today())
        try:
            make_sample(root, days)
        except BackfillError as error:
            raise as_failure(error) from None
        context.log.info(
            f"Made the sample lake {root}: {days}, {len(days)} days. The sensors load it now, a table after the other; "
            "press Reload on the page Deployment so that the tables no longer say that there is no lake."
        )
        context.add_output_metadata({"lake": dg.MetadataValue.path(str(root)), "days": str(days)})

    @dg.job(
        name=MAKE_SAMPLE, executor_def=dg.in_process_executor, tags={LAKE_TAG: str(root)},
        description="Makes a lake with 30 days of made-up orders, which the sensors then load. For a first look.",
    )  # fmt: skip
    def make_sample_lake() -> None:
        """The sample as a job of its own."""
        make_files()

    return make_sample_lake
