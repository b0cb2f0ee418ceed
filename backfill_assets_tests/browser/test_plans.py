"""A person plans, is stopped by a gate, and puts the chunk back, all at Dagster's pages.

Tested here: the launchpads of `backfill_range`, `catch_up` and `rollback`, typed into and launched,
and what their runs say. Not tested here: single days and ranges (`test_ui`), the gates' rules
(`plans/test_gates.py`).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

import pytest

from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.files import plan_state, readable_plans
from backfill_assets.plans.model import Plan
from backfill_assets_tests.browser.site import SAMPLE_DAYS, Site, deliver_late, site
from backfill_assets_tests.browser.ui import LOCATION, Ui

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("browser")]


@pytest.fixture(scope="module")
def spark_server(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of its own: days that were put back are held."""
    assert chromium.is_connected()
    with site(tmp_path_factory.mktemp("plans")) as running:
        yield running


def launchpad(job: str) -> str:
    return f"/locations/{LOCATION}/jobs/{job}/playground"


def launch(ui: Ui, job: str, op: str, **config: str) -> None:
    """Type into the job's launchpad in place of what it is filled in with, launch it, and wait for
    its end."""
    ui.go(launchpad(job))
    ui.page.locator(".CodeMirror").first.click()
    ui.page.keyboard.press("Control+A")
    lines = "".join(f"      {name}: {value}\n" for name, value in config.items())
    ui.page.keyboard.insert_text(f"ops:\n  {op}:\n    config:\n{lines}")
    ui.settle()
    ui.page.locator("button", has_text=re.compile("Launch run", re.IGNORECASE)).last.click()
    ui.page.wait_for_url("**/runs/**")
    ui.ended()


def test_the_launchpad_is_filled_in_and_a_plan_starts_from_it(ui: Ui, spark_server: Site) -> None:
    ui.go(launchpad("backfill_range"))
    fields = (
        "start_date",
        "end_date",
        "max_parallel",
        "write_mode",
        "chunk",
        "canary",
        "retries",
        "note",
    )
    said = ui.says(*fields)
    ui.shot("backfill_range_launchpad")
    for name in fields:
        assert name in said
    first = spark_server.lake.settings.start_date
    launch(
        ui,
        "backfill_range",
        "run_chunks",
        start_date=f'"{first}"',
        end_date=f'"{first + ONE_DAY}"',
        chunk="1d",
        tables="staging",
        force="true",
        note="from the browser",
    )
    assert "Success" in ui.says("Success")
    ui.shot("backfill_range_done")
    ours = [p for p in readable_plans(spark_server.lake) if p.note == "from the browser"]
    assert [plan_state(spark_server.lake, p) for p in ours] == ["finished"]


def test_an_expectation_that_fails_is_red_with_its_figures_and_a_plan_waits_where_told_to(
    ui: Ui, spark_server: Site
) -> None:
    first = spark_server.lake.settings.start_date + ONE_DAY * 3
    asked = {
        "start_date": f'"{first}"',
        "end_date": f'"{first + ONE_DAY}"',
        "chunk": "1d",
        "tables": "staging",
    }
    launch(
        ui,
        "backfill_range",
        "run_chunks",
        **asked,
        force="true",
        expect="['staging.rows = 1']",
        note="too few",
    )
    said = ui.says("Failure", "expected staging.rows = 1")
    ui.shot("expectation_red")
    assert "expected staging.rows = 1" in said
    ours = [p for p in readable_plans(spark_server.lake) if p.note == "too few"]
    assert [plan_state(spark_server.lake, p) for p in ours] == ["stopped"]
    asked |= {"start_date": f'"{first + ONE_DAY * 2}"', "end_date": f'"{first + ONE_DAY * 3}"'}
    launch(
        ui,
        "backfill_range",
        "run_chunks",
        **asked,
        force="true",
        stop_after="canary",
        note="one, then wait",
    )
    ui.says("Success")
    ui.shot("plan_waits")
    ours = [p for p in readable_plans(spark_server.lake) if p.note == "one, then wait"]
    assert [plan_state(spark_server.lake, p) for p in ours] == ["waiting"]


@contextmanager
def sensors_that_only_look(lake: Lake) -> Iterator[None]:
    """Sensors of the lake request no run: a person is quicker."""
    path = lake.root / "lake.toml"
    before = path.read_text()
    assert "dry_run = false" in before
    path.write_text(before.replace("dry_run = false", "dry_run = true "))
    try:
        yield
    finally:
        path.write_text(before)


def choose_tables(ui: Ui, choice: str) -> None:
    """Choose tables in the launchpad of `catch_up`, which Dagster then fills in anew."""
    ui.go(launchpad("catch_up"))
    # It offers only what holds the text that is in it, and comes back with the former choice.
    ui.page.get_by_placeholder("Partition").fill(choice)
    ui.page.get_by_text(choice, exact=True).last.click()
    ui.settle()


def launch_as_it_stands(ui: Ui) -> None:
    """Launch what the launchpad is filled in with, and wait for the end of its run."""
    ui.page.locator("button", has_text=re.compile("Launch run", re.IGNORECASE)).last.click()
    ui.page.wait_for_url("**/runs/**")
    ui.ended()


def test_the_launchpad_of_catch_up_loads_what_it_names_and_a_page_says_how_much_is_stale(
    ui: Ui, spark_server: Site
) -> None:
    lake = spark_server.lake
    happened, arrives = (lake.settings.start_date + ONE_DAY * n for n in (4, SAMPLE_DAYS - 1))
    with sensors_that_only_look(lake):
        deliver_late(lake.root / "landing", arrives=arrives, happened=happened)
        ui.go(launchpad("catch_up"))
        ui.shot("catch_up_before_a_choice")
        choose_tables(ui, "raw")
        said = ui.says("1 new landed file(s), not scanned yet")
        assert "in the field Partition" not in said, "the hint makes way for what it asked for"
        ui.shot("catch_up_of_raw")
        launch_as_it_stands(ui)
        ui.says("Success", f"raw: 1 day(s) made, {arrives}")
        ui.go("/assets/staging?view=checks")
        ui.page.get_by_text("no_stale_days", exact=True).first.click()
        ui.says("stale day(s) since", "catch_up makes them")  # other tests leave days stale, too
        ui.shot("stale_days_of_an_asset")
        ui.go("/assets/staging")
        ui.shot("asset_with_stale_days")


def stopped_at_its_first_chunk(ui: Ui, lake: Lake, chosen: date) -> Plan:
    """The plan of two days from `chosen` on, whose page says why its gate stopped it."""
    launch(
        ui,
        "backfill_range",
        "run_chunks",
        start_date=f'"{chosen}"',
        end_date=f'"{chosen + ONE_DAY}"',
        chunk="1d",
        tables="raw,staging",
    )
    facts = (
        "Failure",
        "the gate of chunk 1",
        f"raw {chosen} profile: 100% of entity is NULL",
        "no later one was",
    )
    said = ui.says(*facts)
    ui.shot("gate_red")
    for told in facts:
        assert told in said
    plan = list(readable_plans(lake))[-1]
    assert f"backfill-assets rollback --plan {plan.id} --chunk 1 --yes" in said
    assert plan_state(lake, plan) == "stopped"
    return plan


def test_a_gate_that_stops_is_red_with_its_reason_and_the_chunk_goes_back_from_the_page(
    ui: Ui, spark_server: Site
) -> None:
    lake = spark_server.lake
    chosen, path = lake.settings.start_date + ONE_DAY * 10, lake.root / "lake.toml"
    held = rows_of(spark_server, chosen)
    before = path.read_text()
    assert "customer AS entity" in before
    path.write_text(before.replace("customer AS entity", "cast(NULL AS string) AS entity"))
    try:
        plan = stopped_at_its_first_chunk(ui, lake, chosen)
        assert rows_of(spark_server, chosen) != held
        launch(
            ui,
            "rollback",
            "put_days_back",
            plan=f'"{plan.id}"',
            chunk='"1"',
            act="true",
            note="the gate said no",
        )
        assert "Success" in ui.says("Success", "a rollback, release or publish")
        ui.shot("rollback_done")
    finally:
        path.write_text(before)
    assert rows_of(spark_server, chosen) == held
    pipeline = make_pipeline(tables(lake.settings))
    assert pipeline.states(read_view(lake, pipeline.contracts)).of("staging", chosen) is State.HELD


def rows_of(made: Site, day: object) -> tuple[int, str]:
    """Rows and fingerprint that the day's receipt in staging names."""
    contracts = make_pipeline(tables(made.lake.settings)).contracts
    entry = {
        str(d): r.entry for d, r in read_view(made.lake, contracts).table("staging").latest.items()
    }[str(day)]
    return entry.rows, entry.fingerprint
