"""What Dagster is told of one run: programs, sensors and pages of others find events, labels and
tags by their names.

Tested here: events in their order, labels of their metadata, tags of the run, and what definitions
say of each asset, for a lake's own tables and for assets of a project; pinned in
`dagster_events.txt`. Not tested here: the values, each of which has its own test.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

import dagster as dg
import pandas as pd

from backfill_assets import testing
from backfill_assets.dagster import Input, LakeIOManager, build_lake_defs, daily_table, lake_checks
from backfill_assets_tests.lakes import delivery, make_lake
from backfill_assets_tests.pins import hold_pin

PINNED = Path(__file__).with_name("dagster_events.txt")
FIRST, LAST = "2024-03-01", "2024-03-02"
WRITTEN = TextWrapper(100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
# The others are Dagster's own, of steps and resources.
OF_THE_LAKE = (
    dg.DagsterEventType.LOADED_INPUT,
    dg.DagsterEventType.HANDLED_OUTPUT,
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_OBSERVATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
)
KEPT_IN_TEXT = "backfill_assets/internals"  # one entry whose text is JSON


def orders_of(days: Sequence[str]) -> pd.DataFrame:
    """An order of each day."""
    return pd.DataFrame({"day": pd.to_datetime(days).date, "id": "a", "cents": 5})


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition(FIRST),
    backfill_policy=dg.BackfillPolicy.single_run(),
    metadata={"partition_expr": "day"},
    code_version="1",
)
def orders(context: dg.AssetExecutionContext) -> pd.DataFrame:
    """Orders by day."""
    return orders_of(context.partition_keys)


@daily_table(inputs=[Input("orders", before=1)], start=FIRST, unique=["day"], code_version="1")
def totals(context: dg.AssetExecutionContext, orders: pd.DataFrame) -> pd.DataFrame:
    """The sum of two days."""
    return pd.DataFrame(
        {"day": pd.to_datetime(context.partition_keys).date, "cents": int(orders["cents"].sum())}
    )


def labels_of(metadata: Mapping[str, Any]) -> str:
    """The labels of metadata in their order, with the keys of the entry that is JSON."""
    inner = metadata.get(KEPT_IN_TEXT)
    found = getattr(inner, "value", None)
    keys = json.loads(found) if isinstance(found, str) else found or {}
    return ", ".join([*metadata, *(f"internals.{key}" for key in keys)])


def told_by(event: dg.DagsterEvent) -> str:
    """The event's type, its asset or check with the day, and the labels of its metadata."""
    words = [event.event_type_value]
    if event.asset_key is not None:
        words += [event.asset_key.to_user_string(), event.partition or ""]
    data: Any = event.event_specific_data
    evaluated = getattr(data, "check_name", "")
    stated = getattr(data, "metadata", None) or getattr(
        getattr(data, "materialization", None), "metadata", {}
    )
    return f"{' '.join([*words, evaluated]).rstrip()}: {labels_of(stated)}".rstrip(": ")


def told_of(name: str, result: dg.ExecuteInProcessResult) -> Iterator[str]:
    """The tags of a run, then what it told of assets, their checks and their inputs, in its
    order."""
    yield f"{name}: tags: {', '.join(sorted(result.dagster_run.tags))}"
    yield from (f"{name}: {told_by(e)}" for e in result.all_events if e.event_type in OF_THE_LAKE)


def definitions_of(lake: Path) -> Iterator[str]:
    """What the lake's definitions say of assets, checks, jobs, sensors and schedules, by name."""
    defs = build_lake_defs(lake)
    for spec in sorted(defs.resolve_all_asset_specs(), key=lambda spec: spec.key.to_user_string()):
        said = f"group {spec.group_name}, kinds {sorted(spec.kinds)}, tags {sorted(spec.tags)}"
        labels = labels_of(dict(sorted(spec.metadata.items())))
        yield f"definitions: asset {spec.key.to_user_string()}: {said}: {labels}"
    for key in sorted(defs.resolve_asset_graph().asset_check_keys):
        yield f"definitions: check {key.asset_key.to_user_string()} {key.name}"
    repository = defs.get_repository_def()
    yield from sorted(f"definitions: job {job.name}" for job in repository.get_all_jobs())
    yield from sorted(f"definitions: sensor {sensor.name}" for sensor in repository.sensor_defs)
    yield from sorted(
        f"definitions: schedule {schedule.name}" for schedule in repository.schedule_defs
    )


def test_dagster_is_told_of_runs_in_the_words_that_others_know(
    spark: object, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    deliveries = [
        delivery(1, f"{FIRST}T05:00:00Z", None, "a"),
        delivery(2, f"{LAST}T05:00:00Z", None, "b"),
    ]
    lake = make_lake(tmp_path / "own", deliveries, FIRST)
    project = {"io_manager": LakeIOManager(lake=str(tmp_path / "project"))}
    checked = [
        orders,
        totals,
        *lake_checks(orders, unique=["id", "day"], rules={"is_paid": "cents > 0"}),
    ]
    found = [*definitions_of(lake.root)]
    for name in ("first run", "again"):
        found += told_of(
            f"own tables, {name}", testing.run_days(lake, FIRST, LAST, instance=instance)
        )
        done = testing.materialize(checked, FIRST, LAST, resources=project, instance=instance)
        found += told_of(f"project, {name}", done)
    hold_pin(PINNED, [line for told in found for line in WRITTEN.wrap(told)])
