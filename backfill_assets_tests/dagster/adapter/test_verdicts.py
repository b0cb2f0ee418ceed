"""A check's page fails while any day of the table stands failed, says which and why, and recovers
when they pass.

Tested here: `dagster.adapter.verdicts` on lakes of logs. Not tested here: the runs that log
evaluations (`test_runs`, `end_to_end.test_fault_refusals`), what a tick records
(`test_event_repair`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.verdicts import RunFindings, Standing, Verdicts
from backfill_assets.kernel.core.profiles import Finding
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.reading.check_history import OTHER_ROWS
from backfill_assets_tests.dagster.adapter.ticking import Made, day
from backfill_assets_tests.synthetic import build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
DAYS = 20


def judged(
    lake: Made,
    instance: dg.DagsterInstance,
    run: RunFindings | None = None,
    *,
    afresh: bool = False,
) -> dict[str, dg.AssetCheckEvaluation]:
    """The evaluations of staging after a run, recorded as they come."""
    made, pipeline = open_lake(lake[0].root), lake[1]
    states = pipeline.states(read_view(made, pipeline.contracts))
    found = {}
    for verdict in Verdicts(instance, made, states).of(
        states.contracts["staging"], run, afresh=afresh
    ):
        instance.report_runless_asset_event(verdict)
        found[verdict.check_name] = verdict
    return found


class Counting(States):
    """States that count the days which are judged by their receipts."""

    days: ClassVar[list[date]] = []

    def missing_inputs(self, table: str, day: date) -> list[tuple[str, date]]:
        self.days.append(day)
        return super().missing_inputs(table, day)


def judged_days(lake: Made, instance: dg.DagsterInstance) -> int:
    """How many days are judged by their receipts for one more evaluation, which is not recorded."""
    made, pipeline = open_lake(lake[0].root), lake[1]
    states = pipeline.states(read_view(made, pipeline.contracts))
    counting = Counting(states.contracts.values(), states.view, states.codes)
    Counting.days.clear()
    list(Verdicts(instance, made, counting).of(states.contracts["staging"]))
    return len(Counting.days)


def rows(numbers: Sequence[int], *, refuses: bool = True, passed: bool = False) -> list[Finding]:
    """Findings of row_count in some days."""
    return [Finding("row_count", day(n), passed, refuses and not passed, "0 rows") for n in numbers]


def facts(evaluation: dg.AssetCheckEvaluation) -> dict[str, Any]:
    return {name: value.value for name, value in evaluation.metadata.items()}


def test_a_refused_day_fails_its_check_alone_and_says_what_to_do(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    found = judged(lake, instance, RunFindings(rows([3]), samples=["k1", "k2"]))
    assert {name for name, e in found.items() if not e.passed} == {"row_count"}
    refused = found["row_count"]
    assert refused.severity is dg.AssetCheckSeverity.ERROR
    said = facts(refused)
    assert said["verdict"] == f"1 day(s) refused: {day(3)}; {day(3)}: 0 rows"
    assert f"| {day(3)} | refused | `0 rows` |" in said["days"]
    assert said["next"].startswith(f"Look with `backfill-assets show staging {day(3)}")
    assert (
        f"backfill-assets backfill --from {day(3)} --to {day(3)} --tables staging" in said["next"]
    )
    assert said["sample_keys"] == {str(day(3)): ["k1", "k2"]}
    assert "sample_keys" not in facts(found["profile"])


def test_days_that_pass_later_do_not_hide_one_that_stands_refused(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    judged(lake, instance, RunFindings(rows([3, 4])))
    good = judged(lake, instance, RunFindings(rows([5], passed=True), written=[day(5)]))[
        "row_count"
    ]
    assert not good.passed
    assert list(Standing.of(good).refused) == [day(3), day(4)]
    half = judged(lake, instance, RunFindings(rows([3], passed=True), written=[day(3)]))[
        "row_count"
    ]
    assert list(Standing.of(half).refused) == [day(4)]
    assert judged(lake, instance, RunFindings(rows([4], passed=True), written=[day(4)]))[
        "row_count"
    ].passed


def test_a_refused_day_is_right_again_by_any_newer_write_of_it(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    judged(lake, instance, RunFindings(rows([3])))
    assert not judged(lake, instance)["row_count"].passed
    build(*lake, "staging", {day(3): 4})
    assert judged(lake, instance)["row_count"].passed


def test_a_day_with_a_warning_stands_until_it_is_written_right(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    judged(lake, instance)
    build(*lake, "staging", {day(7): 0})
    warned = judged(lake, instance)["row_count"]
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert Standing.of(warned).warned == {day(7): "the day is empty"}
    assert facts(warned)["next"].endswith("or move its bound in [gates.tables.staging]")
    build(*lake, "staging", {day(7): 3})
    assert judged(lake, instance)["row_count"].passed


def test_a_warning_of_a_refused_run_is_not_about_the_rows_that_stand(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    found = judged(lake, instance, RunFindings([*rows([3]), *rows([4], refuses=False)]))[
        "row_count"
    ]
    assert list(Standing.of(found).days) == [day(3)]


def test_days_are_judged_once_and_all_again_by_other_bounds(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    judged(lake, instance)
    assert judged_days(lake, instance) == 0
    build(*lake, "staging", {day(1): 4, day(2): 4})
    assert judged_days(lake, instance) == 2
    judged(lake, instance, RunFindings(rows([3])))
    toml = lake[0].root / "lake.toml"
    before = toml.read_text()
    toml.write_text(f"{before}\n[gates.tables.staging]\nmin_rows = 4\n")
    assert judged_days(lake, instance) == DAYS
    strict = judged(lake, instance)["row_count"]
    assert len(Standing.of(strict).warned) == DAYS - 2
    assert list(Standing.of(strict).refused) == [day(3)], "other bounds do not write the day"
    toml.write_text(before)
    assert list(Standing.of(judged(lake, instance)["row_count"]).days) == [day(3)]


def test_what_another_lake_of_the_instance_was_judged_for_says_nothing_about_this_one(
    lake: Made, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    judged(lake, instance, RunFindings(rows([3])))
    assert judged(synthetic_lake(tmp_path / "other", DAYS), instance)["row_count"].passed


def test_checks_are_behind_an_unknown_write_and_a_newer_materialization(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    def behind() -> bool:
        states = lake[1].states(read_view(lake[0], lake[1].contracts))
        return Verdicts(instance, lake[0], states).are_behind(states.contracts["staging"])

    assert behind()
    judged(lake, instance)
    assert not behind()
    instance.report_runless_asset_event(dg.AssetMaterialization("staging", partition=str(day(1))))
    assert behind()
    judged(lake, instance)
    build(*lake, "staging", {day(1): 4})
    assert behind()


def test_other_rows_of_the_same_inputs_are_a_warning_of_profile(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    states = lake[1].states(read_view(lake[0], lake[1].contracts))
    table = states.view.table("staging")
    latest = {**table.latest, day(2): replace(table.latest[day(2)], irreproducible=True)}
    view = replace(
        states.view, tables={**states.view.tables, "staging": replace(table, latest=latest)}
    )
    found = Verdicts(instance, lake[0], lake[1].states(view)).of(states.contracts["staging"])
    assert [(e.check_name, Standing.of(e).warned) for e in found if not e.passed] == [
        ("profile", {day(2): OTHER_ROWS})
    ]
