"""Checks as people see them: what their specs say, and what their buttons do.

Tested here: `dagster.adapter.checks` without an engine: buttons, and `no_stale_days` by ticks and
runs. Not tested here: the evaluations (`test_verdicts`), the rules (`kernel.write.test_gates`).
"""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.checks import NO_STALE_DAYS, day_checks
from backfill_assets.dagster.adapter.context import LakeContext, Opened
from backfill_assets.dagster.adapter.ticks import late_data_tick
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.gate_bounds import GateSettings, TableGate
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import CHECKS, day
from backfill_assets_tests.dagster.adapter.ticking import Made
from backfill_assets_tests.lakes import run_rebuild
from backfill_assets_tests.planned import DAYS, Planned
from backfill_assets_tests.synthetic import START, build, end_of

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


def button(
    made: Planned, instance: dg.DagsterInstance, only: str = ""
) -> dict[str, tuple[bool, str]]:
    """What the button of all checks of staging gives, or that of one: per check whether it passed,
    and its words."""
    checks = day_checks(Opened(made.lake, made.pipeline), made.contract("staging"))
    wanted = [k for k in checks.check_keys if only in k.name]
    defs = dg.Definitions(
        asset_checks=[checks], jobs=[dg.define_asset_job("j", dg.AssetSelection.checks(*wanted))]
    )
    done = defs.resolve_job_def("j").execute_in_process(instance=instance)
    return {
        e.check_name: (e.passed, str(e.metadata["verdict"].value))
        for e in done.get_asset_check_evaluations()
    }


def test_the_buttons_judge_every_written_day_by_its_receipt(
    made: Planned, instance: dg.DagsterInstance
) -> None:
    assert button(made, instance) == dict.fromkeys(CHECKS, (True, "no written day fails"))
    gates = GateSettings(tables={"staging": TableGate(min_rows=2)})
    made.lake = replace(made.lake, settings=made.lake.settings.model_copy(update={"gates": gates}))
    span = f"{day(0)}..{day(DAYS - 1)}"
    why = f"{DAYS} day(s) warned of: {span}; {day(0)}: 1 rows, fewer than min_rows = 2"
    assert button(made, instance)["row_count"] == (False, why)


def told(lake: Made, instance: dg.DagsterInstance) -> dict[str, tuple[bool, object]]:
    """What one tick tells, kept by the instance as the daemon would: per table passed, and the
    number of stale days."""
    tick = late_data_tick(instance, LakeContext(lake[0].root, tables), end_of(DAYS + 1))
    for verdict in tick.verdicts:
        assert verdict.check_name == NO_STALE_DAYS
        instance.report_runless_asset_event(verdict)
    return {v.asset_key.path[-1]: (v.passed, v.metadata["stale days"].value) for v in tick.verdicts}


def make_stale(lake: Made, *numbers: int) -> None:
    days = [START + ONE_DAY * n for n in numbers]
    build(*lake, "staging", dict.fromkeys(days, 3), digests=dict.fromkeys(days, "older"))


def test_a_table_that_becomes_stale_or_recovers_is_told_once(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    told(lake, instance)
    make_stale(lake, 2)
    assert told(lake, instance)["staging"] == (False, 1)
    assert told(lake, instance) == {}
    build(*lake, "staging", {START + ONE_DAY * 2: 3})
    assert told(lake, instance)["staging"] == (True, 0)


def test_a_verdict_of_an_older_materialization_is_told_again_because_dagster_no_longer_counts_it(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    told(lake, instance)
    instance.report_runless_asset_event(dg.AssetMaterialization("labels", partition=str(START)))
    assert told(lake, instance) == {"labels": (True, 0)}
    assert told(lake, instance) == {}


def test_a_run_tells_the_verdicts_of_its_tables_and_of_others(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    make_stale(lake, 2)  # staging, and so what is made of its content
    last = START + ONE_DAY * (DAYS - 1)
    result = run_rebuild(lake[0], last, last, instance, ["features", "features_as_known"])
    assert result.success
    for table in (c.name for c in lake[1].contracts):
        key = dg.AssetCheckKey(dg.AssetKey(table), NO_STALE_DAYS)
        (row,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=5)
        (newest,) = instance.fetch_materializations(dg.AssetKey(table), limit=1).records or (None,)
        assert row.evaluation is not None
        assert row.evaluation.passed == (table in ("raw", "training")), table
        target = row.evaluation.target_materialization_data
        assert (target.storage_id if target else None) == (newest.storage_id if newest else None)
    assert told(lake, instance) == {}
