"""`Work` as tags of Dagster's runs, and back: buttons, sensors, commands and plans meet here.

Not here: which days need it (`core.needs`), requests of sensors and their attempts (`backfill_requests`).
"""

from collections.abc import Mapping

import dagster as dg

from backfill_assets.core.days import DayRange, SomeDays, days_text
from backfill_assets.core.ownership import BY, through_dagster, whoami
from backfill_assets.core.plans import CHUNK_TAG, CODE_TAG, MODE_TAG, ON_BAD_DAYS_TAG, PLAN_TAG
from backfill_assets.core.work import MANUAL, Work
from backfill_assets.orchestration.runs import BY_TAG, EXACT_DAYS_TAG, NOTE_TAG, REASON_TAG, range_tags

FORCE_TAG = "backfill_assets/force"  # tables, comma-separated, whose days are made although they are right
# What Dagster's console log would say is in the lake; it would bury the progress.
SILENCE = {"console": {"config": {"log_level": "CRITICAL"}}}
RECEIPT_TAGS = (
    "dagster/backfill", "dagster/sensor_name", "dagster/schedule_name", PLAN_TAG, CHUNK_TAG, MODE_TAG, CODE_TAG,
)  # fmt: skip


def run_rebuild(
    job: dg.JobDefinition, instance: dg.DagsterInstance, run_id: str, work: Work
) -> dg.ExecuteInProcessResult:
    """Run a job that makes tables in this process, for the user of now."""
    return job.execute_in_process(
        instance=instance, run_id=run_id, tags={BY_TAG: whoami(), **tags_of(work)}, run_config={"loggers": SILENCE},
        raise_on_error=False,
    )  # fmt: skip


def tags_of(work: Work) -> dict[str, str]:
    """The tags of a run. Days with gaps get a range around them, and the run makes only the days."""
    exactly = days_text(work.days) if isinstance(work.days, SomeDays) else ""
    values = {REASON_TAG: work.reason, NOTE_TAG: work.note, FORCE_TAG: ",".join(sorted(work.force)),
              EXACT_DAYS_TAG: exactly, **work.tags}  # fmt: skip
    return {**range_tags(work.days), **{name: value for name, value in values.items() if value}}


def work_of(tags: Mapping[str, str], days: DayRange, table: str, by: str = "") -> Work:
    """The work of a run's step, by the run's tags. Its receipts name `by`, the user of the command; else Dagster, with
    its sensor or schedule. No tag is trusted to name a person: everybody who reaches Dagster's port can set it."""
    known = {name: tags[name] for name in (*RECEIPT_TAGS, ON_BAD_DAYS_TAG) if name in tags}
    return Work(
        days, (table,), tags.get(REASON_TAG, MANUAL), tags.get(NOTE_TAG, ""), {BY: by or through_dagster(), **known},
        frozenset(filter(None, tags.get(FORCE_TAG, "").split(","))),
    )  # fmt: skip
