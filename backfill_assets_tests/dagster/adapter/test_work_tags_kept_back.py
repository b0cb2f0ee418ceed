"""A run that keeps days back: good days green, bad ones red, later steps run, and the run fails at
its end.

Tested here: `dagster.adapter.backfill_requests` and its way through `assets` and `io_manager`, on a
toy pipeline. Not tested here: which days are kept back (`kernel.write.test_good_days`).
"""

from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.history import evaluations_of, newest_runs
from backfill_assets.dagster.adapter.reconcile import record_missed_commits
from backfill_assets.dagster.adapter.runs import REBUILD, range_tags
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets_tests.dagster.adapter.ticking import seen
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.kernel.write.test_good_days import (
    ALL,
    SPAN,
    START,
    copied,
    landed,
    twice,
)
from backfill_assets_tests.lakes import backfill, configure, land, snapshot, toy

__all__ = ["landed"]
BAD = sorted(ALL)[3]
KEEP = {"on_bad_days": "keep_good"}


@pytest.fixture
def lake(landed: Path, tmp_path: Path) -> Lake:
    made = copied(landed, str(tmp_path))
    land(made, "again.jsonl", twice([BAD]))
    backfill(made, START, SPAN.last, ["raw"], toy())
    return made


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with opened_home(tmp_path) as made:
        yield made


def run(
    lake: Lake,
    instance: dg.DagsterInstance,
    tables: Collection[str],
    config: dict[str, Any],
    kind: str = "twice",
) -> dg.ExecuteInProcessResult:
    """One run of the job `rebuild` over the range, with this configuration of each table."""
    job = assemble(lake.root, toy(kind), tables).resolve_job_def(REBUILD)
    ops = {f"make_{table}": {"config": config} for table in tables}
    return job.execute_in_process(
        instance=instance, tags=range_tags(SPAN), run_config={"ops": ops}, raise_on_error=False
    )


def shown(instance: dg.DagsterInstance, table: str) -> dict[str, str]:
    """Per status the days of a table as Dagster shows them."""
    partitions = dg.DailyPartitionsDefinition(str(START), end_date=str(SPAN.end))
    found = instance.get_status_by_partition(dg.AssetKey(table), [str(d) for d in SPAN], partitions)
    assert found is not None
    by_status: dict[str, list[Any]] = {}
    for day in SPAN:
        status = found[str(day)]
        by_status.setdefault(status.value if status else "MISSING", []).append(day)
    return {status: ranges_text(days) for status, days in by_status.items()}


def failed_checks(instance: dg.DagsterInstance, run_id: str) -> list[dg.AssetCheckEvaluation]:
    """The checks that refused days in a run."""
    found = [e for e in evaluations_of(instance, run_id) if not e.passed]
    return [e for e in found if e.severity is dg.AssetCheckSeverity.ERROR]


def why_not_written(instance: dg.DagsterInstance, table: str, day: date) -> object:
    """What Dagster shows of the day that was not written."""
    red = dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[str(day)])
    (shown_of_day,) = instance.fetch_observations(red, limit=2).records
    assert shown_of_day.asset_observation is not None
    return shown_of_day.asset_observation.metadata["not written"].value


def test_good_days_are_green_bad_ones_red_and_the_run_fails(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    result = run(lake, instance, ["echo", "sums"], KEEP)
    assert not result.success
    good = ranges_text(ALL - {BAD})
    assert (
        shown(instance, "echo")
        == shown(instance, "sums")
        == {"MATERIALIZED": good, "FAILED": str(BAD)}
    )
    assert snapshot(lake, toy())["sums"].keys() == ALL - {BAD}
    assert [e.step_key for e in result.all_events if e.is_step_failure] == ["make_sums"], (
        "the last step fails for all"
    )
    (told,) = newest_runs(instance, str(lake.root))
    assert (told.status, told.tables) == ("failure", ("echo", "sums"))
    assert f"the table echo: unique_key fails on 1 of 6 day(s), first {BAD}: " in told.cause
    assert '{"event_key":"k4"}' in told.cause
    without = (
        f"Also: the table sums: inputs of 1 of 6 day(s) are missing, {BAD}: it is made from echo "
        f"for {BAD}, "
    )
    assert without in told.cause
    (failed,) = failed_checks(instance, result.run_id)
    assert failed.check_name == "unique_key"
    assert "k4" in str(failed.metadata["sample_keys"].value)
    lacks = f"it is made from echo for {BAD}, which were never made"
    assert why_not_written(instance, "sums", BAD) == lacks

    record_missed_commits(instance, *seen(lake, make_pipeline(toy("twice")(lake.settings))))
    assert shown(instance, "echo") == {"MATERIALIZED": good, "FAILED": str(BAD)}, (
        "no reconcile paints it green"
    )
    assert run(lake, instance, ["echo", "sums"], KEEP, "good").success
    assert shown(instance, "echo") == shown(instance, "sums") == {"MATERIALIZED": ranges_text(ALL)}


def test_a_tables_setting_is_enough_and_readers_make_what_they_can(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    configure(lake.root, START, gates={"tables": {"echo": {"on_bad_days": "keep_good"}}})
    assert not run(open_lake(lake.root), instance, ["echo", "sums"], {}).success
    assert snapshot(lake, toy())["sums"].keys() == ALL - {BAD}
    assert not run(lake, instance, ["echo"], {"on_bad_days": "refuse"}).success


def test_a_run_makes_the_days_of_its_range_that_its_config_names(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    text = f"{START},{SPAN.last}"
    result = run(lake, instance, ["echo", "sums"], {"days": text}, "good")
    assert result.success
    assert shown(instance, "echo") == {
        "MATERIALIZED": f"{START}, {SPAN.last}",
        "MISSING": ranges_text(ALL - {START, SPAN.last}),
    }
    assert snapshot(lake, toy())["echo"].keys() == {START, SPAN.last}
    assert len([c for c in lake.store.commits("echo") if c.receipt is not None]) == 1
    (told,) = instance.get_runs()
    assert told.tags["days"] == f"{START}, {SPAN.last}"
    beyond = run(lake, instance, ["echo"], {"days": "2024-03-01,2025-01-01"}, "good")
    assert "2025-01-01 are not in its range" in str(
        next(e for e in beyond.all_events if e.is_step_failure).step_failure_data.user_failure_data
    )


def test_steps_that_are_executed_again_alone_raise_for_their_own_days(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    job = assemble(lake.root, toy("twice"), ["echo", "sums"]).resolve_job_def(REBUILD)
    config = {"ops": {"make_echo": {"config": KEEP}}}
    result = job.execute_in_process(
        instance=instance,
        tags=range_tags(SPAN),
        run_config=config,
        raise_on_error=False,
        op_selection=["make_echo"],
    )
    assert [e.step_key for e in result.all_events if e.is_step_failure] == ["make_echo"]
    assert shown(instance, "echo") == {"MATERIALIZED": ranges_text(ALL - {BAD}), "FAILED": str(BAD)}
