"""A person at Dagster's pages: single days, ranges, a failing check and its repair, a late file,
and the pictures. Not here: what the tables must hold, beyond that untouched days keep their
files."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reports.status import lake_status
from backfill_assets_tests.browser.site import PATIENCE_SECONDS, SAMPLE_DAYS, Site, deliver_late
from backfill_assets_tests.browser.ui import LOCATION, Ui
from backfill_assets_tests.lakes import data_files
from backfill_assets_tests.processes import until

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("browser")]

CHECKS = "/assets/staging?view=checks"
JOB = f"/locations/{LOCATION}/jobs/rebuild"
LINEAGE = f"/locations/{LOCATION}/asset-groups/lake"


def day(made: Site, number: int) -> str:
    return str(made.lake.settings.start_date + ONE_DAY * number)


@contextmanager
def gate(made: Site, lines: str) -> Iterator[None]:
    """The lake with a stricter gate, for as long as the block runs."""
    path = made.lake.root / "lake.toml"
    before = path.read_text()
    path.write_text(f"{before}\n{lines}\n")
    try:
        yield
    finally:
        path.write_text(before)


def test_one_day_is_materialized_with_a_click_and_tells_what_it_did(
    ui: Ui, spark_server: Site
) -> None:
    chosen = day(spark_server, 9)
    ui.go("/assets/features")
    seconds = ui.launch_run(chosen)
    ui.shot("one_day")
    assert "Success" in ui.says("Success")
    ui.go(f"/assets/features?view=partitions&partition={chosen}")
    ui.shot("one_day_metadata")
    ui.says(
        f"backfill-assets show features {chosen}",
        "backfill_assets/why",
        "backfill_assets/internals",
    )
    with ui.page.context.expect_page() as opened:
        ui.page.locator("a[href^='../assets/staging?']").first.click()
    inputs = Ui(opened.value, spark_server.url)
    inputs.says(
        "7 Partitions Selected", "Materialized (7)", f"backfill-assets show staging {chosen}"
    )
    inputs.shot("one_day_inputs")
    inputs.page.close()
    ui.took(
        "one day of one table, nothing to change: from the click to Success on the page", seconds
    )


def test_the_page_of_a_table_tells_what_it_is(ui: Ui) -> None:
    ui.go("/assets/staging")
    ui.says("Every version of an event", "event_key", "role: key", "Delta Lake", "staging.py")
    ui.shot("asset")


def test_a_range_from_the_job_page_is_one_run_of_all_tables(ui: Ui, spark_server: Site) -> None:
    ui.go(JOB)
    ended, runs, seconds = ui.launch_backfill(
        f"[{day(spark_server, 0)}...{day(spark_server, SAMPLE_DAYS - 1)}]"
    )
    ui.shot("job_range")
    assert (ended, runs) == ("COMPLETED_SUCCESS", 1)
    ui.took(
        f"{SAMPLE_DAYS} days of all tables by the job page: from the dialog to the backfill's end",
        seconds,
    )


def test_a_range_from_the_lineage_page_is_made(ui: Ui, spark_server: Site) -> None:
    ui.go(LINEAGE)
    ended, runs, _ = ui.launch_backfill(f"[{day(spark_server, 3)}...{day(spark_server, 5)}]")
    ui.shot("lineage_range")
    assert (ended, runs) == ("COMPLETED_SUCCESS", 1)


def test_the_numbers_of_every_day_are_plotted(ui: Ui) -> None:
    ui.go("/assets/raw")
    ui.page.get_by_text("Plots", exact=True).first.click()
    ui.says("dagster/partition_row_count", "backfill_assets/bytes", "backfill_assets/late_share")
    ui.shot("plots")
    assert ui.page.locator("canvas").count() >= 3


def make_staging_by_force(ui: Ui, chosen: str) -> None:
    """Launch a run of a day of staging with `force` from its page, and wait for its end."""
    ui.go("/assets/staging")
    dialog = ui.ask_for(chosen)
    dialog.get_by_text("Config", exact=True).click()
    dialog.locator("button", has_text="Add config").click()
    ui.page.locator(".CodeMirror").first.click()
    ui.page.keyboard.insert_text("ops: {make_staging: {config: {force: true}}}")
    ui.page.wait_for_timeout(1500)
    ui.page.locator("button", has_text="Save config").click()
    dialog.locator("button", has_text=re.compile("^.*Launch 1 run")).click()
    ui.page.locator("[data-sonner-toast]").get_by_text("View").click()
    ui.ended()


def test_a_failing_check_is_red_on_its_day_explains_itself_and_is_green_after_the_fix(
    ui: Ui, spark_server: Site
) -> None:
    chosen = day(spark_server, 8)
    with gate(spark_server, "[gates.tables.staging]\nmax_rows = 1"):
        make_staging_by_force(ui, chosen)
    ui.shot("failed_run")
    facts = ("row_count fails on 1 of 1 day(s)", "more than max_rows = 1", "Nothing was written")
    said = ui.says(*facts)
    for told in facts:
        assert told in said
    assert f"backfill-assets backfill --from {chosen} --to {chosen} --tables staging" in said
    failed = ui.page.url
    ui.go(CHECKS)
    ui.page.get_by_text("row_count", exact=True).first.click()
    ui.page.get_by_text("more than max_rows = 1").first.wait_for()
    ui.settle()
    ui.shot("check_red")
    assert "more than max_rows = 1" in ui.says("more than max_rows = 1")
    ui.says(chosen, f"Look with `backfill-assets show staging {chosen}`")
    ui.page.goto(failed)
    ui.settle()
    seconds = ui.re_execute()
    ui.took(
        "one day of one table, computed and written again: from the click to Success on the page",
        seconds,
    )
    ui.shot("re_executed_run")
    assert "Success" in ui.says("Success")
    ui.go(CHECKS)
    ui.page.get_by_text("row_count", exact=True).first.click()
    ui.settle()
    ui.shot("check_green")
    assert "more than max_rows = 1" not in ui.text()


def test_a_late_file_is_found_and_exactly_the_days_it_touches_are_rebuilt(
    ui: Ui, spark_server: Site
) -> None:
    lake, first = spark_server.lake, spark_server.lake.settings.start_date
    before = data_files(lake, "staging")
    deliver_late(
        lake.root / "landing",
        arrives=first + ONE_DAY * (SAMPLE_DAYS - 1),
        happened=first + ONE_DAY * 4,
    )

    def settled() -> bool:
        report = lake_status(lake, make_pipeline(tables(lake.settings)))
        moved = data_files(lake, "staging") != before
        return moved and not any(d.state in (State.STALE, State.MISSING) for d in report)

    seconds = until(settled, spark_server.log, PATIENCE_SECONDS)
    after = data_files(lake, "staging")
    assert {d for d in after if after[d] != before.get(d)} == {first + ONE_DAY * 4}
    ui.go(f"/locations/{LOCATION}/sensors/late_data")
    ui.shot("late_data_ticks")
    assert "Rebuilds exactly the days whose inputs changed" in ui.says(
        "Rebuilds exactly the days whose inputs changed"
    )
    ui.go("/runs")
    ui.shot("late_data_runs")
    ui.took("a late file: from its landing to all tables green", seconds)


def test_a_run_that_was_killed_leaves_no_good_day_red(ui: Ui, spark_server: Site) -> None:
    before = ui.broken_runs()
    _kill_after_staging(spark_server)

    def healed() -> bool:
        """Its end was noticed, and all days are as good as they were."""
        return bool(ui.broken_runs() - before) and ui.days_shown("features") == (SAMPLE_DAYS, 0)

    def judged() -> bool:
        """No check is left as the run left it: verdicts are told after the materializations they
        are about."""
        ui.go("/assets/features?view=checks")
        said = ui.text()
        return "Passed" in said and "Skipped" not in said and "Execution failed" not in said

    seconds = until(healed, spark_server.log, PATIENCE_SECONDS)
    seconds += until(judged, spark_server.log, PATIENCE_SECONDS)
    ui.took("a run that was killed: until all its days and checks are green again", seconds)
    ui.shot("healed_checks")
    ui.go(LINEAGE)
    ui.shot("healed_lineage")


def _kill_after_staging(made: Site) -> None:
    """Force staging and features from the command line, and kill it in the middle of features."""
    home = made.lake.root.parent / "home"
    env = {**os.environ, "DAGSTER_HOME": str(home), "BACKFILL_ASSETS_LAKE": str(made.lake.root)}
    first, last = day(made, 0), day(made, SAMPLE_DAYS - 1)
    command = [
        sys.executable,
        "-m",
        "backfill_assets",
        "backfill",
        "--from",
        first,
        "--to",
        last,
        "--force",
    ]
    run = subprocess.Popen(
        [*command, "--tables", "staging,features"], cwd=home, env=env, stderr=subprocess.PIPE
    )
    assert run.stderr is not None
    with run, run.stderr as told:
        while b"staging" not in (line := told.readline()):
            assert line, "it ended before its first table was done"
        run.kill()
