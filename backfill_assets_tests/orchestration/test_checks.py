"""Checks as people see them: what their specs say, and what a button without a partition finds in the newest day.

Tested here: `orchestration.checks` on real files without an engine. Not tested here: the rules (`lake.test_gates`),
and what days are judged against (`load.test_judging`).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.core.contracts import Rule
from backfill_assets.lake.gates import NOT_NULL, RULES, Finding, gates_of
from backfill_assets.orchestration.checks import WHERE, check_specs, day_evaluation, newest_day_results
from backfill_assets.orchestration.context import Opened
from backfill_assets_tests.builders import CHECKS, STAGING, day, write_rows
from backfill_assets_tests.operations.planned import DAYS, Planned

PARTITIONS = dg.DailyPartitionsDefinition(start_date=str(day(0)), timezone="UTC")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


def found(made: Planned, table: str = "staging") -> dict[str, tuple[bool, dict[str, Any]]]:
    """Per check whether it passed, and what it says."""
    return {str(r.check_name): (r.passed, facts(r)) for r in results(made, table)}


def results(made: Planned, table: str) -> list[dg.AssetCheckResult]:
    return list(newest_day_results(Opened(made.lake, made.pipeline), made.contract(table)))


def facts(result: dg.AssetCheckResult) -> dict[str, Any]:
    return {name: value.value for name, value in (result.metadata or {}).items()}


def test_a_table_has_its_four_checks_per_day_and_rules_where_its_contract_has_any() -> None:
    specs = {s.name: s for s in check_specs(STAGING, PARTITIONS)}
    assert {n: s.blocking for n, s in specs.items()} == dict(CHECKS)
    assert [s.description for s in specs.values()] == [f"{g.description(STAGING)} {WHERE}" for g in gates_of(STAGING)]
    ruled = replace(STAGING, rules=(Rule("positive", "value > 0", "no refunds"),))
    rules = {s.name: s for s in check_specs(ruled, PARTITIONS)}[RULES]
    assert rules.blocking
    assert rules.description == (
        "The day's rows keep the rules of the contract: positive: no refunds (`value > 0`). "
        f"Blocks the write, but for rules that only warn. {WHERE}"
    )


@pytest.mark.parametrize(
    ("passed", "refuses", "told"),
    [
        (True, False, None),
        (False, True, f"then `backfill-assets backfill --from {day(1)} --to {day(1)} --tables staging`"),
        (False, False, "If the day is right, do nothing, or move its bound in [gates.tables.staging]"),
    ],
)
def test_a_failing_check_says_how_to_look_and_what_mends_it(passed: bool, refuses: bool, told: str | None) -> None:
    finding = Finding(NOT_NULL, day(1), passed, refuses, "2 rows")
    said = {name: v.value for name, v in day_evaluation("staging", finding, None, {}).metadata.items()}
    assert ("next" in said) == (told is not None)
    if told:
        assert str(said["next"]).startswith(f"Look with `backfill-assets show staging {day(1)}`")
        assert told in str(said["next"])


def test_a_button_judges_the_newest_day_that_has_rows_against_its_receipt(made: Planned) -> None:
    told = found(made)
    assert set(told) == set(CHECKS)
    assert all(passed for passed, _ in told.values())
    assert {(said["day"], said["equals its receipt"]) for _, said in told.values()} == {(str(day(DAYS - 1)), True)}


def test_a_day_that_is_not_as_it_was_written_fails_every_check(made: Planned) -> None:
    row = {"entity": "B", "value": 2, "event_date": day(DAYS - 1)}
    write_rows(made.lake.table_path("staging"), made.contract("staging"), [row])
    found = results(made, "staging")
    assert not any(r.passed for r in found)
    assert {r.severity for r in found} == {dg.AssetCheckSeverity.ERROR}
    assert not any(facts(r)["equals its receipt"] for r in found)
    verify = f"backfill-assets verify --tables staging --from {day(DAYS - 1)}"
    assert all(verify in facts(r)["next"] for r in found)


def test_a_table_without_a_day_that_has_rows_passes_and_says_so(made: Planned) -> None:
    for log in (made.lake.table_path("features") / "_delta_log").iterdir():
        log.unlink()
    told = found(made, "features")
    assert {passed for passed, _ in told.values()} == {True}
    assert {said["what"] for _, said in told.values()} == {"no day has rows yet"}
