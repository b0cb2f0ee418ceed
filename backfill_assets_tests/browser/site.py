"""`dagster dev` on a sample lake with a home of its own, for tests that look at it as a person
does. Here: starting and stopping it. Not here: the clicks (`ui`). The lake is made by the command
that the README names, so that what is looked at is what a newcomer sees; once in a process and on
the engine that is quicker (`learn.test_demo_command` has it made on Spark), every site has a copy
of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.copies import keep
from backfill_assets_tests.engine_choice import usual_environ
from backfill_assets_tests.processes import CHECKOUT, as_in_a_terminal, free_port, until

LAUNCH = """mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
RUN = """mutation Run($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message } } }"""
LOOK = """query Look($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"""
SAMPLE_DAYS = 14  # the fewest that `demo` makes: windows, horizon and maturity all end inside it
STOPPED_SECONDS = 15.0
PATIENCE_SECONDS = 300.0  # a dozen run processes on two cores that may run other things


@dataclass(frozen=True)
class Site:
    """A running web server, its lake, and where it writes its log."""

    url: str
    lake: Lake
    log: Path


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A sample lake, loaded, and `dagster dev` over it; all is stopped at the end."""
    home, root = lay_out_sample(folder)
    log = folder / "dev.log"
    try:
        with dagster_dev_of(
            home, log, _environ(folder), "-m", "backfill_assets.definitions"
        ) as url:
            yield Site(url, open_lake(root), log)
    finally:
        stop_server(root, force=True)


def deliver_late(landing: Path, arrives: date, happened: date) -> None:
    """One order more, in a file of its own, as the sample's own lines look."""
    received = f"{arrives} 20:00:00"
    row = {
        "delivery": 10**9,
        "received_at": received,
        "version_at": received,
        "ordered_at": f"{happened} 12:00:00",
        "order_id": "order-late",
        "op": "upsert",
        "customer": "customer-001",
        "amount": 7,
        "returned": 0,
    }
    (landing / "late.jsonl").write_text(json.dumps(row) + "\n")


def asked(url: str, query: str, **variables: Any) -> Any:
    """The answer of Dagster's web server to one GraphQL query."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(  # noqa: S310
        f"{url}/graphql", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own loopback server
        return json.load(answer)["data"]


def launch_backfill(
    url: str, assets: Sequence[str], days: Sequence[str], tags: Sequence[dict[str, str]] = ()
) -> str:
    """Ask Dagster's web server for a backfill of these days of these assets; its id."""
    selection = [{"path": [asset]} for asset in assets]
    params = {"assetSelection": selection, "partitionNames": [*days], "tags": [*tags]}
    launched = asked(url, LAUNCH, params=params)["launchPartitionBackfill"]
    return str(launched["backfillId"])


def launch_run(url: str, location: str, asset: str, day: str) -> str:
    """Ask Dagster's web server for a run of one day of an asset (its key with `/`), as its page
    does; the run's id."""
    selector = {
        "repositoryLocationName": location,
        "repositoryName": "__repository__",
        "jobName": "__ASSET_JOB",
        "assetSelection": [{"path": asset.split("/")}],
        "assetCheckSelection": [],
    }
    tags = [{"key": "dagster/partition", "value": day}]
    params = {
        "mode": "default",
        "selector": selector,
        "runConfigData": "{}",
        "executionMetadata": {"tags": tags},
    }
    launched = asked(url, RUN, params=params)["launchRun"]
    return str(launched["run"]["runId"])


def backfill_status(url: str, backfill: str) -> str:
    """How a backfill stands, in Dagster's word."""
    found = asked(url, LOOK, id=backfill)["partitionBackfillOrError"]
    return str(found["status"])


@contextmanager
def dagster_dev_of(home: Path, log: Path, environ: dict[str, str], *code: str) -> Iterator[str]:
    """The address of `dagster dev` over code (`-m MODULE` or `-f FILE`), stopped at the end."""
    port = free_port()
    program = Path(sys.executable).with_name("dagster")
    command = [str(program), "dev", *code, "--port", str(port)]
    with log.open("w") as written:
        dev = subprocess.Popen(
            command,
            cwd=home,
            env=environ,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _answers(url), log, PATIENCE_SECONDS)
            yield url
        finally:
            _stop(dev)


@dataclass(frozen=True)
class Served:
    """A running `backfill-assets ui`: the address that it printed, its process, and where it writes
    its log."""

    url: str
    process: psutil.Popen
    log: Path


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """`backfill-assets ui` over the lake in `folder`, on a port that is free."""
    home, root = _places(folder)
    home.mkdir(exist_ok=True)
    log, env = folder / "ui.log", {**_environ(folder), "DAGSTER_HOME": str(home)}
    command = [sys.executable, "-m", "backfill_assets", "ui", "--port", "0", "--lake", str(root)]
    with log.open("w") as written, as_in_a_terminal():
        ui = psutil.Popen(
            command, cwd=home, env=env, stdout=written, stderr=written, start_new_session=True
        )
        try:
            until(
                lambda: "Dagster is at" in log.read_text() or ui.poll() is not None,
                log,
                PATIENCE_SECONDS,
            )
            url = log.read_text().partition("Dagster is at ")[2].split()[0]
            until(lambda: _answers(url), log, PATIENCE_SECONDS)
            yield Served(url, ui, log)
        finally:
            with suppress(ProcessLookupError):
                _stop(ui)
            stop_server(root, force=True)


def lay_out_sample(folder: Path) -> tuple[Path, Path]:
    """Dagster's home and the loaded sample lake, laid out in a folder from the one copy of this
    process."""
    keep(_load).lay_out(folder)
    return _places(folder)


def _load(folder: Path) -> None:
    """A loaded sample lake, which either engine goes on with, and the home in which Dagster
    remembers how."""
    home, root = _places(folder)
    home.mkdir(parents=True)
    shutil.copy(CHECKOUT / "dagster.yaml", home)
    demo = [sys.executable, "-m", "backfill_assets", "demo", "--days", str(SAMPLE_DAYS)]
    env = _environ(folder) | usual_environ()
    try:
        subprocess.run(
            demo, cwd=home, env=env, check=True, capture_output=True, timeout=PATIENCE_SECONDS
        )
    finally:
        stop_server(root, force=True)


def _places(folder: Path) -> tuple[Path, Path]:
    """Dagster's home and the lake."""
    return folder / "home", folder / "lake"


def _environ(folder: Path) -> dict[str, str]:
    home, root = _places(folder)
    own = {
        "DAGSTER_HOME": str(home),
        "BACKFILL_ASSETS_LAKE": str(root),
        "PYTHONPATH": str(CHECKOUT),
    }
    return {**os.environ, **own}


def _stop(dev: "subprocess.Popen[bytes] | psutil.Popen") -> None:
    """Ask it to end, then end it with its web server, daemon and runs, which share its process
    group."""
    os.killpg(dev.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
        dev.wait(STOPPED_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(dev.pid, signal.SIGKILL)
    dev.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5) as answer:  # noqa: S310 - our own loopback server
            return bool(answer.status == 200)
    except OSError:
        return False
