"""Commands that make days of tables which assets return.

Tested here: finding a project's definitions, and `backfill` over them. Not tested here: runs in
Dagster (`test_io_manager.py`).
"""

import json
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from backfill_assets.assets.declared import find_declared
from backfill_assets.assets.lakes import lake_at
from backfill_assets.cli.app import app
from backfill_assets.cli.runner import asset_job, project_definitions
from backfill_assets.dagster import lake_checks
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.reading.opening import open_lake
from backfill_assets_tests.assets.projects import (
    Deliveries,
    materialize,
    orders_asset,
    weekly_asset,
)
from backfill_assets_tests.homes import make_home

Command = Callable[..., Result]
PROJECT = """\
import json
import dagster as dg
from backfill_assets.dagster import LakeIOManager, lake_checks
from backfill_assets_tests.assets.projects import Deliveries, orders_asset, weekly_asset
from backfill_assets_tests.homes import make_home

told = json.loads((LAKE / "rows.json").read_text())
code, orders = told.pop("code", "1"), orders_asset(Deliveries(told))
(orders,) = dg.map_asset_specs(lambda spec: spec.replace_attributes(code_version=code), [orders])
checks = lake_checks(orders, unique=["id"])
BAD = ""
io_manager = LakeIOManager(lake=str(LAKE))
defs = dg.Definitions(assets=[orders, weekly_asset()], asset_checks=checks, resources={"io_manager": io_manager})
"""
FIRST, LAST = "2024-01-01", "2024-01-05"
BAD = "2024-01-03"


@pytest.fixture
def project(lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance) -> Path:
    orders = orders_asset(deliveries)
    lake_checks(orders, unique=["id"])
    materialize(lake, [orders, weekly_asset()], FIRST, LAST, instance=instance)
    (lake / "shop.py").write_text(
        f"from pathlib import Path\nLAKE = Path({str(lake)!r})\n{PROJECT}"
    )
    deliver(lake)
    return lake


@pytest.fixture
def command(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("DAGSTER_HOME", str(make_home(tmp_path / "home")))
    name_definitions(project, "shop.py")

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["--lake", str(project), *words])

    return run


def deliver(lake: Path, code: str = "1", **by_day: list[tuple[str, int]]) -> None:
    """What the asset `orders` returns from now on, and its code; days are named as
    `d2024_01_03`."""
    rows_of = {
        "code": code,
        **{day.strip("d").replace("_", "-"): found for day, found in by_day.items()},
    }
    (lake / "rows.json").write_text(json.dumps(rows_of))
    with (lake / "shop.py").open("a") as file:
        file.write(f"# {rows_of}\n")


def totals(lake: Path) -> dict[str, int]:
    """The total of each day of `weekly`, also of stale ones."""
    days = open_lake(lake, newest=True).table("weekly").days(FIRST, LAST, unfit="take").arrow()
    return {
        str(day): total
        for day, total in zip(days["day"].to_pylist(), days["total"].to_pylist(), strict=True)
    }


def name_definitions(lake: Path, named: str) -> None:
    path = lake / "lake.toml"
    path.write_text(f'{path.read_text()}\n[pipeline]\ndefinitions = "{named}"\n')


def weekly_contracts(lake: Path) -> list[Contract]:
    declared = find_declared(lake_at(lake).place, "weekly")
    assert declared is not None
    return [declared.contract]


def test_the_job_has_the_assets_of_these_tables_in_this_process(project: Path) -> None:
    name_definitions(project, "shop.py")
    job, steps = asset_job(lake_at(project), weekly_contracts(project))
    assert steps == {"weekly": "weekly"}
    assert job.executor_def is dg.in_process_executor


def test_without_definitions_a_table_of_an_asset_is_not_made_by_a_command(project: Path) -> None:
    with pytest.raises(
        SettingsError, match="the table weekly: an asset of a Dagster project returns its rows"
    ):
        asset_job(lake_at(project), weekly_contracts(project))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("gone.py", "there is no file"),
        ("shop.py:other", "has no attribute 'other'"),
        ("shop.py:LAKE", "is a PosixPath"),
    ],
)
def test_definitions_that_cannot_be_loaded_are_named(project: Path, named: str, words: str) -> None:
    name_definitions(project, named)
    with pytest.raises(SettingsError, match=words):
        project_definitions(lake_at(project), ["weekly"])


def test_a_plan_writes_the_good_days_of_assets_and_goes_on_once_mended(
    project: Path, command: Command
) -> None:
    changed: list[tuple[str, int]] = [("a", 7)]
    deliver(project, d2024_01_02=changed, d2024_01_03=[("a", 1), ("a", 2)], d2024_01_04=changed)
    words = (
        "--from",
        FIRST,
        "--to",
        LAST,
        "--force",
        "--chunk",
        "3d",
        "--canary",
        "0",
        "--keep-good-days",
    )
    made = command("plan", *words, "--json")
    assert made.exit_code == 0, made.output
    plan = json.loads(made.stdout)["id"]
    stopped = command("run", plan)
    assert stopped.exit_code == 1
    assert f"unique_key fails on 1 of 3 day(s), first {BAD}" in stopped.output
    assert totals(project)["2024-01-02"] == 13
    deliver(project, d2024_01_02=changed, d2024_01_03=changed, d2024_01_04=changed)
    gone_on = command("run", plan)
    assert gone_on.exit_code == 0, gone_on.output
    assert totals(project) == {FIRST: 6, "2024-01-02": 13, BAD: 20, "2024-01-04": 27, LAST: 33}


def test_a_plan_after_a_change_of_code_makes_all_by_it_and_another_stops_it(
    project: Path, command: Command
) -> None:
    words = ("--from", FIRST, "--to", LAST, "--force", "--chunk", "1d", "--canary", "0", "--json")
    deliver(project, code="2")
    plan = json.loads(command("plan", *words).stdout)["id"]
    ran = command("run", plan)
    assert ran.exit_code == 0, ran.output
    made = command("plan", *words, "--stop-after", "chunk")
    assert made.exit_code == 0, made.output
    plan = json.loads(made.stdout)["id"]
    for code in ("2", "3"):
        deliver(project, code=code)
        assert command("run", plan).exit_code == 3, "it waits after each chunk"
        assert command("plan", "resume", plan, "--reason", "looked at").exit_code == 0
    refused = command("run", plan)
    assert refused.exit_code == 1
    assert "its pins hold no longer: the code of shop__orders was " in refused.output


MONTHS = """\
import pandas as pd
from backfill_assets.dagster import daily_table

months = dg.TimeWindowPartitionsDefinition(
    "2024-01-01", "%Y-%m-%d", cron_schedule="0 0 1 * *", exclusions=["0 0 1 3 *"]
)

@daily_table(PARTITIONS, day="month", POLICY)
def report(context: dg.AssetExecutionContext) -> pd.DataFrame:
    return pd.DataFrame({"month": pd.to_datetime(context.partition_keys).date, "cents": 1})

defs = dg.Definitions(assets=[report], resources={"io_manager": io_manager})
"""

EVERY_MONTH = 'start="2024-01-01", every="month"'


@pytest.mark.parametrize(
    ("partitions", "policy", "commits"),
    [
        (EVERY_MONTH, "", [["2024-01-01", "2024-02-01"], ["2024-04-01"]]),
        ("partitions_def=months", "", [["2024-01-01", "2024-02-01", "2024-04-01"]]),  # no March
        (
            EVERY_MONTH,
            "backfill_policy=dg.BackfillPolicy.multi_run()",
            [["2024-01-01"], ["2024-02-01"], ["2024-04-01"]],
        ),
    ],
)
def test_months_that_follow_each_other_are_one_run_where_the_asset_takes_a_range(
    project: Path,
    command: Command,
    instance: dg.DagsterInstance,
    partitions: str,
    policy: str,
    commits: list[list[str]],
) -> None:
    with (project / "shop.py").open("a") as file:
        file.write(MONTHS.replace("PARTITIONS", partitions).replace("POLICY", policy))
    report = project_definitions(lake_at(project), ["report"]).resolve_assets_def("report")
    materialize(project, [report], "2024-01-01", instance=instance)
    days = "2024-01-31..2024-02-02,2024-04-30"
    done = command("backfill", "--days", days, "--tables", "report", "--force")
    assert done.exit_code == 0, done.output
    receipts = [commit.receipt for commit in lake_at(project).store.commits("report")]
    written = [sorted(map(str, receipt.days)) for receipt in receipts if receipt is not None]
    assert sorted(written[-len(commits) :]) == commits
