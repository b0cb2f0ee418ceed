"""Checks as people see them: what their specs say, and what their buttons do.

Tested here: `orchestration.checks` without an engine. Not tested here: the evaluations (`test_verdicts`), the rules
(`lake.test_gates`), `no_stale_days` (`test_no_stale_days`).
"""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.contracts import Rule
from backfill_assets.lake.gates import RULES, GateSettings, TableGate, gates_of
from backfill_assets.orchestration.checks import WHEN, day_checks
from backfill_assets.orchestration.context import Opened
from backfill_assets_tests.builders import CHECKS, day
from backfill_assets_tests.operations.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


def button(made: Planned, instance: dg.DagsterInstance, only: str = "") -> dict[str, tuple[bool, str]]:
    """What the button of all checks of staging gives, or that of one: per check whether it passed, and its words."""
    checks = day_checks(Opened(made.lake, made.pipeline), made.contract("staging"))
    wanted = [k for k in checks.check_keys if only in k.name]
    defs = dg.Definitions(asset_checks=[checks], jobs=[dg.define_asset_job("j", dg.AssetSelection.checks(*wanted))])
    done = defs.resolve_job_def("j").execute_in_process(instance=instance)
    return {e.check_name: (e.passed, str(e.metadata["what"].value)) for e in done.get_asset_check_evaluations()}


def test_a_table_has_its_four_checks_and_rules_where_its_contract_has_any(made: Planned) -> None:
    opened, staging = Opened(made.lake, made.pipeline), made.contract("staging")
    specs = {s.name: s for s in day_checks(opened, staging).check_specs}
    assert set(specs) == set(CHECKS)
    assert [s.description for s in specs.values()] == [f"{g.description(staging)} {WHEN}" for g in gates_of(staging)]
    ruled = replace(staging, rules=(Rule("positive", "value > 0", "no refunds"),))
    assert str({s.name: s for s in day_checks(opened, ruled).check_specs}[RULES].description).startswith(
        "The day's rows keep the rules of the contract: positive: no refunds (`value > 0`). "
        "Blocks the write, but for rules that only warn. "
    )


def test_the_buttons_judge_every_written_day_by_its_receipt(made: Planned, instance: dg.DagsterInstance) -> None:
    assert button(made, instance) == dict.fromkeys(CHECKS, (True, "no written day fails"))
    gates = GateSettings(tables={"staging": TableGate(min_rows=2)})
    made.lake = replace(made.lake, settings=made.lake.settings.model_copy(update={"gates": gates}))
    span = f"{day(0)}..{day(DAYS - 1)}"
    why = f"{DAYS} day(s) warned of: {span}; {day(0)}: 1 rows, fewer than min_rows = 2"
    assert button(made, instance)["row_count"] == (False, why)


def test_the_button_of_one_check_gives_that_check_alone(made: Planned, instance: dg.DagsterInstance) -> None:
    assert set(button(made, instance, "profile")) == {"profile"}
