"""Runs that keep days back: a run remembers why in its tags, and its last steps fail with it once all others are done.

Not here: which days are kept back (`load.good_days`). A step that raises keeps the steps after it from running, and no
check step can raise in its place: each check in a run costs an event per day. So a step whose table kept days back ends
well if tables made from it follow; the last ones raise for it.
"""

import json

import dagster as dg

from backfill_assets.core.contracts import InputKind
from backfill_assets.core.errors import ALSO, DaysKeptBack
from backfill_assets.core.plans import KEEP_GOOD, ON_BAD_DAYS_TAG
from backfill_assets.load.good_days import OnBadDays, chosen_mode
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.naming import table_made_by
from backfill_assets.orchestration.runs import TAG_CHARS

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
