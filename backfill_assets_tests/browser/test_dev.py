"""`dagster dev` itself, without a look at its pages: a run cancelled there ends within seconds, and
who can reach it. Not here: interrupts of the command line (`end_to_end.test_interrupts`), and the
pages (`test_ui`)."""

import json
from contextlib import suppress

import psutil
import pytest

from backfill_assets.engines.server import server_status
from backfill_assets_tests.browser.site import PATIENCE_SECONDS, Site, asked
from backfill_assets_tests.lakes import data_files
from backfill_assets_tests.processes import until

# On the site of the other pages, which takes a minute to start.
pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("browser")]

MOST_SECONDS = 15.0  # ten are ours; a machine that runs other things needs some for the rest
LAUNCH = """mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } } }"""
CANCEL = "mutation Cancel($run: String!) { terminateRun(runId: $run) { __typename } }"
LOOK = (
    "query Look($run: ID!) { runOrError(runId: $run) { ... on Run { status stats { ... on "
    "RunStatsSnapshot { stepsSucceeded } } } } }"
)


@pytest.mark.slow
def test_a_run_cancelled_in_the_ui_ends_within_seconds_and_lets_the_server_go(
    dagster_dev: Site,
) -> None:
    days = sorted(data_files(dagster_dev.lake, "staging"))
    tags = {
        "dagster/asset_partition_range_start": days[0],
        "dagster/asset_partition_range_end": days[-1],
    }
    selector = {
        "repositoryLocationName": "backfill_assets.definitions",
        "repositoryName": "__repository__",
        "jobName": "rebuild",
    }
    force = {
        "ops": {
            "make_raw": {"config": {"force": True}},
            "make_staging": {"config": {"force": True}},
        }
    }
    params = {
        "selector": selector,
        "runConfigData": json.dumps(force),
        "executionMetadata": {"tags": [{"key": k, "value": str(v)} for k, v in tags.items()]},
    }
    run = asked(dagster_dev.url, LAUNCH, params=params)["launchRun"]["run"]["runId"]

    def uses_the_server() -> bool:
        status = server_status(dagster_dev.lake.root)
        return status is not None and status.in_use

    until(uses_the_server, dagster_dev.log, PATIENCE_SECONDS)
    asked(dagster_dev.url, CANCEL, run=run)
    seconds = until(lambda: not uses_the_server(), dagster_dev.log, PATIENCE_SECONDS)
    assert seconds < MOST_SECONDS
    until(
        lambda: asked(dagster_dev.url, LOOK, run=run)["runOrError"]["status"] == "CANCELED",
        dagster_dev.log,
        MOST_SECONDS,
    )


@pytest.mark.slow
def test_nothing_that_dagster_dev_starts_listens_beyond_the_loopback(dagster_dev: Site) -> None:
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(dagster_dev.lake.root) in process.environ().get("BACKFILL_ASSETS_LAKE", ""):
                found |= {
                    c.laddr.ip
                    for c in process.net_connections("inet")
                    if c.status == psutil.CONN_LISTEN
                }
    assert found
    assert {ip.removeprefix("::ffff:") for ip in found} <= {"127.0.0.1", "::1"}
