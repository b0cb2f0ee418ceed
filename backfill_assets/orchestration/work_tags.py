"""`Work` as tags of Dagster's runs, and back; and the days that a run keeps back, remembered in its tags.

A run remembers in its tags why it kept days back, and its last steps fail with that once all others are done. A step
that raises keeps the steps after it from running, and no check step can raise in its place: each check in a run costs
an event per day. So a step whose table kept days back ends well if tables made from it follow; the last ones raise for
it. Not here: which days need it (`core.needs`), requests of sensors and their attempts (`backfill_requests`), and which
days are kept back (`load.judging`).
"""

import json
from collections.abc import Mapping

import dagster as dg

from backfill_assets.core.contracts import InputKind
from backfill_assets.core.days import DayRange, SomeDays, days_text
from backfill_assets.core.errors import ALSO, DaysKeptBack
from backfill_assets.core.ownership import BY, through_dagster, whoami
from backfill_assets.core.plans import CHUNK_TAG, CODE_TAG, KEEP_GOOD, MANUAL, MODE_TAG, ON_BAD_DAYS_TAG, PLAN_TAG, Work
from backfill_assets.load.judging import OnBadDays, chosen_mode
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.context import Opened, table_made_by
from backfill_assets.orchestration.runs import BY_TAG, EXACT_DAYS_TAG, NOTE_TAG, REASON_TAG, TAG_CHARS, range_tags

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


KEPT_BACK = ".dagster/kept_back."  # then the table: hidden, as the text of its error is long
TABLE_CHARS = TAG_CHARS - len("kept_.")


def on_bad_days(context: dg.AssetExecutionContext, opened: Opened, table: str, asked: str) -> OnBadDays:
    """What the run does with bad days of a table: as `asked`, else as its tag or the lake's settings say. After a table
    that kept days back the next ones make the days that they can, too."""
    mode = chosen_mode(asked or context.run.tags.get(ON_BAD_DAYS_TAG, ""), opened.lake.settings, table)
    return KEEP_GOOD if remembered(context, opened) else mode


def remember(context: dg.AssetExecutionContext, opened: Opened, rebuild: Rebuild) -> None:
    """Where days are kept back, the run's tags keep the error, for the steps that follow in whichever process."""
    if (error := rebuild.kept_back.error) is not None:
        context.instance.add_run_tags(context.run.run_id, {_tag(opened, rebuild.table.name): json.dumps(error.args)})


def remembered(context: dg.AssetExecutionContext, opened: Opened) -> list[DaysKeptBack]:
    """The errors of the lake's tables of which the run kept days back so far."""
    run = context.instance.get_run_by_id(context.run.run_id)
    names = (_tag(opened, contract.name) for contract in opened.pipeline.contracts)
    return [DaysKeptBack(*json.loads(run.tags[name])) for name in names if run is not None and name in run.tags]


def _tag(opened: Opened, table: str) -> str:
    return KEPT_BACK + opened.naming.output(table)[-TABLE_CHARS:]


def raise_at_the_end(context: dg.AssetExecutionContext, opened: Opened, table: str) -> None:
    """Raise DaysKeptBack for all tables of the run that kept days back, unless a table made from `table` follows."""
    made = _tables_of_run(context, opened)
    following = (c for c in opened.pipeline.contracts if c.name in made)
    if any(i.table == table and i.kind is not InputKind.FILES for c in following for i in c.inputs):
        return
    if errors := remembered(context, opened):
        first, *others = errors
        more = "".join(f".{ALSO}{error}"[: -len(".")] for error in others)
        raise DaysKeptBack(first.object, first.culprit, first.consequence, first.fix + more)


def _tables_of_run(context: dg.AssetExecutionContext, opened: Opened) -> set[str | None]:
    """The lake's tables that the run makes; a run that is executed again makes the tables of its chosen steps."""
    run = context.run
    if run.step_keys_to_execute is not None:
        return {table_made_by(key) for key in run.step_keys_to_execute}
    keys = run.asset_selection or context.job_def.asset_layer.executable_asset_keys
    return {opened.naming.table_of(key) for key in keys}


def names_kept_back(failure: dg.DagsterEvent) -> bool:
    """Whether a step that failed was made, and failed for the days that its run kept back."""
    shown = failure.step_failure_data.user_failure_data
    kind = shown.metadata.get("kind") if shown is not None else None
    return kind is not None and kind.value == DaysKeptBack.__name__
