"""Jobs of one step: a launchpad that is filled in, and lines that the page of their run shows.

Not tested here: what such jobs do (`test_in_dagster` of the rooms that add them).
"""

from pathlib import Path

import dagster as dg

from backfill_assets.dagster.adapter.context import Appearance, LakeContext, Naming
from backfill_assets.dagster.adapter.jobs import one_op_job, show_lines
from backfill_assets.dagster.adapter.runs import LAKE_TAG


class Chosen(dg.Config):
    """A launchpad of one field."""

    what: str = "tea"


@dg.op
def say(context: dg.OpExecutionContext, config: Chosen) -> None:
    """Say what was chosen."""
    show_lines(context, [config.what, "done"])


def test_a_job_bears_its_lake_and_the_projects_names_and_shows_its_lines(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    shop = LakeContext(tmp_path, lambda _: (), Appearance(Naming.below("shop")))
    job = one_op_job(shop, "talk", say, Chosen(what="milk"), "Talks.", {"loud": "no"})
    assert job.name == "shop__talk"
    assert (job.run_config or {})["ops"] == {"say": {"config": {"what": "milk"}}}
    done = job.execute_in_process(instance=instance)
    assert {LAKE_TAG: str(tmp_path), "loud": "no"}.items() <= done.dagster_run.tags.items()
    [told] = [e for e in done.all_events if e.event_type_value == "STEP_OUTPUT"]
    assert told.step_output_data.metadata["done"].value == "- milk\n- done"
