"""Interrupts at any moment: every process ends within seconds, and what it leaves is whole.

Tested here: INT and TERM of the command line at ten random moments, the UI's cancel, and what `dagster dev` listens on,
because it is running then. Not tested here: the insisting itself (`lake.test_interrupts`), what the UI shows then.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from backfill_assets.engine.server import server_status, stop_server
from backfill_assets.lake.home import Lake
from backfill_assets_tests.browser.site import Site, site
from backfill_assets_tests.lakes import data_files, delivery, make_lake, snapshot
from backfill_assets_tests.processes import CHECKOUT, until

FIRST, LAST = "2024-03-01", "2024-03-03"
MOMENTS = 10
MOST_SECONDS = 15.0  # ten are ours; a machine that runs other things needs some for the rest
PATIENCE_SECONDS = 300.0
LAUNCH = """mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } } }"""
CANCEL = "mutation Cancel($run: String!) { terminateRun(runId: $run) { __typename } }"
LOOK = "query Look($run: ID!) { runOrError(runId: $run) { ... on Run { status stats { ... on RunStatsSnapshot { stepsSucceeded } } } } }"  # noqa: E501


@pytest.fixture
def spark_server(tmp_path: Path) -> Iterator[Lake]:
    """A lake of three days with its server, which is stopped at the end."""
    rows = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}") for n in (1, 2, 3)]
    lake = make_lake(tmp_path / "lake", rows, FIRST, spark={"engine": "embedded", "memory": "1g"})
    yield lake
    stop_server(lake.root, force=True)


def started(lake: Lake) -> "subprocess.Popen[str]":
    """A forced backfill of all days of two tables."""
    command = [
        sys.executable,
        "-m",
        "backfill_assets",
        "--lake",
        str(lake.root),
        "backfill",
        "--from",
        FIRST,
        "--to",
        LAST,
    ]
    more = ["--tables", "raw,staging", "--force"]
    env = {**os.environ, "DAGSTER_HOME": str(lake.root.parent)}
    return subprocess.Popen(
        [*command, *more], cwd=CHECKOUT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )  # fmt: skip


@pytest.mark.slow
def test_an_interrupted_backfill_ends_within_seconds_at_any_moment(spark_server: Lake) -> None:
    (spark_server.root.parent / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    for _ in range(2):  # the second run tells how long one takes on a warm server
        began = time.monotonic()
        assert started(spark_server).communicate(timeout=PATIENCE_SECONDS)
        whole = time.monotonic() - began
    before = snapshot(spark_server)
    for number in range(MOMENTS):
        moment, kind = random.uniform(1, whole), (signal.SIGTERM, signal.SIGINT)[number % 2]
        with started(spark_server) as run:
            with suppress(subprocess.TimeoutExpired):
                run.wait(moment)
            run.send_signal(kind)
            sent = time.monotonic()
            _, told = run.communicate(timeout=PATIENCE_SECONDS)
        about = f"{kind.name} after {moment:.2f} of {whole:.2f} s: {run.returncode}, {told}"
        assert time.monotonic() - sent < MOST_SECONDS, about
        assert run.returncode in (0, 130, 143, -kind), about
        status = server_status(spark_server.root)
        assert status is not None, about
        assert not status.in_use, about
    last = started(spark_server)
    assert last.communicate(timeout=PATIENCE_SECONDS)
    assert last.returncode == 0
    assert snapshot(spark_server) == before


@pytest.fixture(scope="module")
def dagster_dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`dagster dev` as it is shipped, over a sample lake."""
    with site(tmp_path_factory.mktemp("dev")) as made:
        yield made


def asked(dev: Site, query: str, **variables: Any) -> Any:
    """The answer of Dagster's web server to one GraphQL query."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(f"{dev.url}/graphql", body, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own loopback server
        return json.load(answer)["data"]


@pytest.mark.slow
def test_a_run_cancelled_in_the_ui_ends_within_seconds_and_lets_the_server_go(dagster_dev: Site) -> None:
    days = sorted(data_files(dagster_dev.lake, "staging"))
    tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
    selector = {
        "repositoryLocationName": "backfill_assets.definitions", "repositoryName": "__repository__",
        "jobName": "rebuild",
    }  # fmt: skip
    force = {"ops": {"make_raw": {"config": {"force": True}}, "make_staging": {"config": {"force": True}}}}
    params = {
        "selector": selector, "runConfigData": json.dumps(force),
        "executionMetadata": {"tags": [{"key": k, "value": str(v)} for k, v in tags.items()]},
    }  # fmt: skip
    run = asked(dagster_dev, LAUNCH, params=params)["launchRun"]["run"]["runId"]

    def uses_the_server() -> bool:
        status = server_status(dagster_dev.lake.root)
        return status is not None and status.in_use

    until(uses_the_server, dagster_dev.log, PATIENCE_SECONDS)
    asked(dagster_dev, CANCEL, run=run)
    seconds = until(lambda: not uses_the_server(), dagster_dev.log, PATIENCE_SECONDS)
    assert seconds < MOST_SECONDS
    until(
        lambda: asked(dagster_dev, LOOK, run=run)["runOrError"]["status"] == "CANCELED", dagster_dev.log, MOST_SECONDS
    )


@pytest.mark.slow
def test_nothing_that_dagster_dev_starts_listens_beyond_the_loopback(dagster_dev: Site) -> None:
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(dagster_dev.lake.root) in process.environ().get("BACKFILL_ASSETS_LAKE", ""):
                found |= {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    assert found
    assert {ip.removeprefix("::ffff:") for ip in found} <= {"127.0.0.1", "::1"}
