"""The job `maintain` from the browser's launchpad, which looks until it may act, and the runs of
Dagster that it ends. No JVM.

Not tested here: what goes (`upkeep.test_maintain`).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.history import superseded_runs
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.model import Table
from backfill_assets.upkeep.in_dagster import maintain_job
from backfill_assets_tests.builders import CONTRACTS
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")
SOON = datetime.now(UTC) + timedelta(days=1)
DAILY = dg.StaticPartitionsDefinition(["2024-03-01", "2024-03-02"])


@dg.asset(partitions_def=DAILY)
def staging() -> None:
    """A table of two days."""


def tables(_: Any) -> tuple[Table, ...]:
    return tuple(Table(c) for c in CONTRACTS[:3])


def make(instance: dg.DagsterInstance, day: str, lake: str = "here") -> str:
    done = dg.materialize([staging], instance=instance, partition_key=day, tags={LAKE_TAG: lake})
    return done.run_id


def test_runs_go_whose_days_were_all_made_again(instance: dg.DagsterInstance) -> None:
    old, only = make(instance, "2024-03-01"), make(instance, "2024-03-02")
    newest, elsewhere = make(instance, "2024-03-01"), make(instance, "2024-03-02", "elsewhere")
    assert superseded_runs(instance, "here", SOON) == sorted([old, only])
    assert elsewhere not in superseded_runs(instance, "here", SOON)
    assert newest not in superseded_runs(instance, "here", SOON)
    assert superseded_runs(instance, "here", datetime.now(UTC) - timedelta(days=1)) == [], (
        "they are too young"
    )


def upkeep(made: Planned, instance: dg.DagsterInstance, *, act: bool) -> str:
    job = maintain_job(LakeContext(made.lake.root, tables))
    config = {"ops": {"delete_unneeded": {"config": {"act": act}}}}
    done = job.execute_in_process(instance=instance, run_config=config)
    [told] = [e for e in done.all_events if e.event_type_value == "STEP_OUTPUT"]
    return str(told.step_output_data.metadata["done"].value)


def test_the_job_looks_until_told_to_act_and_prunes_runs(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    made = Planned(tmp_path / "lake")
    made.chunk(1, (1, 2), 2)
    with (made.lake.root / FILE_NAME).open("a") as toml:
        toml.write("[retention]\nrun_days = 30\n")
    lake = str(made.lake.root)
    first, again = (make(instance, "2024-03-01", lake) for _ in range(2))
    with set_to(Clock(off=timedelta(days=120))):
        assert "1 run(s) of Dagster" in upkeep(made, instance, act=False)
        assert instance.get_run_by_id(first) is not None
        assert "staging: 2 replaced data file(s)" in upkeep(made, instance, act=True)
    assert instance.get_run_by_id(first) is None
    assert instance.get_run_by_id(again) is not None
