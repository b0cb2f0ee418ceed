"""Dagster's three processes apart, as the units of `production --units` run them, with Dagster's
records in PostgreSQL: each killed with SIGKILL and started again, as systemd does.

Here: backfills and runs of the browser go on, none is given up, no day is missing, and what the
doctor says of the site. Eight days of a lake in a folder in `.ci/run`; `thorough.py` has a hundred
of one in a bucket, a code server that is away for a minute, and a plan by the daemon. Not here: the text of units
(`cli.test_site_files`), plans alone (`test_plan_daemon`), a run that is killed
(`test_dagster_on_postgres`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.cli.production import settings_text
from backfill_assets.cli.site_files import Site, unit_files
from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.reading.opening import open_lake as read_lake
from backfill_assets_tests.browser.site import (
    asked,
    backfill_status,
    launch_backfill,
    launch_run,
)
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.engine_choice import usual_environ
from backfill_assets_tests.lakes import delivery, land, make_lake
from backfill_assets_tests.postgres import postgres_server
from backfill_assets_tests.processes import free_port, until
from backfill_assets_tests.units import Unit, unit_of

pytestmark = [pytest.mark.usefixtures("spark", "processes", "storages"), pytest.mark.slow]
pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
FIRST = date(2024, 3, 1)
# Days of the lake; runs of single days that wait while the code server is away; for how long it is.
SIZES = {"small": (8, 2, 0.0), "big": (100, 14, 60.0)}
SIZE = os.environ.get("BACKFILL_ASSETS_SITE", "small")
DAYS_COUNT, QUEUED_RUNS, AWAY_SECONDS = SIZES[SIZE]
DAYS = [str(FIRST + timedelta(n)) for n in range(DAYS_COUNT)]
PATIENCE_SECONDS = {"small": 240.0, "big": 3600.0}[SIZE]
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries {
  locationOrLoadError { __typename } } } } }"""
RUNS = "{ runsOrError { ... on Runs { results { runId status } } } }"
# After the code server is back: a run of another host shows nothing for two minutes, a tick sees it,
# and on full machines both are late.
SILENCE_SECONDS = 240.0
# A host's name and numbers of processes of one's own: what a machine sees of another one's runs.
ANOTHER_HOST = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
ANOTHER_NAME = ('hostname elsewhere && exec "$@"', "host")
SITE_PARTS = ("Dagster's ", "the code server", "the settings ", "the clock ")


@dataclass
class Servers:
    """The three services of a site, started as their units say."""

    units: dict[str, Unit]
    url: str
    lake: str  # its address
    landed: Lake  # the folder into which its deliveries land
    log: Path
    secrets: dict[str, str]  # what the units read from their file of secrets
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, *names: str, through: tuple[str, ...] = ()) -> None:
        """Start these services, `through` a program that runs what follows."""
        for name in names:
            self.running[name] = self.units[name].start(self.log, through, **self.secrets)

    def kill(self, name: str) -> None:
        """End a service and all that it started, as a machine's kernel does when memory ends."""
        os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running.pop(name).wait()

    def kill_all(self) -> None:
        """End what still runs."""
        for name in [*self.running]:
            self.kill(name)

    def ask(self, query: str, **variables: Any) -> Any:
        """The web server's answer; None while it gives none."""
        try:
            return asked(self.url, query, **variables)
        except OSError:
            return None

    def is_ready(self) -> bool:
        """Whether the web server sees the code."""
        answer = self.ask(LOCATIONS)
        if answer is None:
            return False
        [entry] = answer["workspaceOrError"]["locationEntries"]
        return str(entry["locationOrLoadError"]["__typename"]) == "RepositoryLocation"

    def launch(self, *tables: str) -> str:
        """Ask for all days of these tables by a backfill of the browser; its id."""
        return launch_backfill(self.url, tables, DAYS)

    def launch_plan(self) -> str:
        """Let the daemon make all days again by a plan; its id."""
        span = ["--partitions", f"{DAYS[0]}..{DAYS[-1]}", "--tables", "raw,staging", "--force"]
        words = ["plan", *span, "--chunk", "50d", "--canary", "0"]
        found = str(read(run(*words, "--json", "--lake", self.lake))["id"])
        read(run("run", found, "--daemon", "--json", "--lake", self.lake))
        return found

    def await_success(self, backfill: str) -> None:
        """Wait until a backfill ended, which must be well."""

        def has_ended() -> bool:
            with suppress(OSError):
                return backfill_status(self.url, backfill).startswith(("COMPLETED", "FAILED"))
            return False

        until(has_ended, self.log, PATIENCE_SECONDS)
        status = backfill_status(self.url, backfill)
        assert status == "COMPLETED_SUCCESS", self.log.read_text()[-4000:]

    def run_states(self) -> dict[str, str]:
        """By its id how each run ended, or stands."""
        found = self.ask(RUNS)["runsOrError"]["results"]
        return {str(run["runId"]): str(run["status"]) for run in found}

    def doctor_said(self) -> dict[str, tuple[str, str]]:
        """What the doctor finds of the site, by what it looked at: the level and what was found."""
        findings = json.loads(run("doctor", "--json", "--lake", self.lake).stdout)["findings"]
        return {
            f["object"]: (f["level"], f["what"])
            for f in findings
            if f["object"].startswith(SITE_PARTS)
        }


@pytest.fixture
def landed(tmp_path: Path) -> Lake:
    """A lake in a folder, with deliveries that nothing has loaded."""
    rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
    return make_lake(tmp_path / "lake", rows, DAYS[0])


@pytest.fixture
def address(
    landed: Lake, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The address of the lake: that folder, or one in a bucket with its settings and deliveries,
    whose local folder is the test's own."""
    if SIZE == "small":
        return landed.address
    found = str(request.getfixturevalue("bucket_address"))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    text = (landed.root / FILE_NAME).read_text().replace("landing/**", f"{landed.root}/landing/**")
    place_at(local_root(found)).write(FILE_NAME, text.encode())
    return found


@pytest.fixture
def servers(
    landed: Lake, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Servers]:
    """The three services of the lake, not started yet."""
    home = tmp_path / "home"
    home.mkdir()
    site = Site(
        address,
        home,
        "lake",
        Path(sys.executable).parent,
        has_postgres=True,
        code_port=free_port(),
        web_port=free_port(),
    )
    files = {**unit_files(site), "dagster.yaml": settings_text(has_postgres=True)}
    for name, text in files.items():
        (home / name).write_text(text)
    units = {
        name.removeprefix("lake-").removesuffix(".service"): unit_of(text)
        for name, text in files.items()
        if name.endswith(".service")
    }
    with ExitStack() as at_the_end:
        records = at_the_end.enter_context(postgres_server())
        secrets = {
            "DAGSTER_POSTGRES_URL": records.replace("postgresql://", "postgresql+psycopg2://"),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            **usual_environ(),
            **{n: v for n, v in os.environ.items() if n.startswith(("AWS_", STATE_VARIABLE))},
        }
        for name, value in {**secrets, "DAGSTER_HOME": str(home)}.items():
            monkeypatch.setenv(name, value)  # of commands beside the services
        url = f"http://127.0.0.1:{site.web_port}"
        made = Servers(units, url, address, landed, tmp_path / "services.log", secrets)
        at_the_end.callback(stop_server, local_root(address), force=True)
        at_the_end.callback(made.kill_all)
        yield made


def test_backfills_runs_and_late_data_outlive_the_death_of_each_process(
    servers: Servers,
) -> None:
    servers.start("code", through=_another_host())
    servers.start("web", "daemon")
    until(servers.is_ready, servers.log, PATIENCE_SECONDS)
    backfills = [servers.launch("raw"), servers.launch("raw", "staging")]
    until(lambda: "STARTED" in servers.run_states().values(), servers.log, PATIENCE_SECONDS)
    servers.kill("daemon")
    servers.kill("web")
    servers.start("web", "daemon")
    until(servers.is_ready, servers.log, PATIENCE_SECONDS)
    until(lambda: _all_well(servers), servers.log, PATIENCE_SECONDS)
    waiting = [launch_run(servers.url, "lake", "raw", day) for day in DAYS[:QUEUED_RUNS]]
    dying = [run_id for run_id, state in servers.run_states().items() if state == "STARTED"]
    servers.kill("code")  # with the runs that it works on, which are asked for once more
    killed = time.monotonic()
    until(lambda: not servers.is_ready(), servers.log, PATIENCE_SECONDS)
    until(lambda: time.monotonic() > killed + AWAY_SECONDS, servers.log, PATIENCE_SECONDS)
    assert [
        level for level, what in servers.doctor_said().values() if "gives no definitions" in what
    ] == ["error"]
    servers.start("code")
    until(lambda: _have_ended(servers, dying), servers.log, SILENCE_SECONDS)
    for backfill in backfills:
        servers.await_success(backfill)
    until(lambda: _have_ended(servers, waiting), servers.log, PATIENCE_SECONDS)
    late = delivery(999, f"{DAYS[-1]} 22:00:00", f"{DAYS[1]} 10:00:00", "late", value=5)
    land(servers.landed, "late.jsonl", [late])
    until(lambda: "late" in _keys_of(servers.lake), servers.log, PATIENCE_SECONDS)
    if SIZE == "big":
        plan = servers.launch_plan()
        until(lambda: _is_finished(servers, plan), servers.log, PATIENCE_SECONDS)
    assert _keys_of(servers.lake) == {"late", *(f"k{n}" for n, _ in enumerate(DAYS, 1))}


def _another_host() -> tuple[str, ...]:
    """What makes a process one of another host, for a big site on a machine that lets its user do
    so; else nothing."""
    whole = (*ANOTHER_HOST, *ANOTHER_NAME)
    tried = SIZE == "big" and subprocess.run([*whole, "true"], check=False).returncode == 0
    return whole if tried else ()


def _all_well(servers: Servers) -> bool:
    """Whether the doctor finds nothing amiss of the site, whose daemon has shown all its parts."""
    return {level for level, _ in servers.doctor_said().values()} == {"ok"}


def _have_ended(servers: Servers, runs: list[str]) -> bool:
    """Whether these runs ended, each of them well but for those that died with the code server."""
    states = [servers.run_states()[run_id] for run_id in runs]
    return {*states} <= {"SUCCESS", "FAILURE"} and states.count("FAILURE") <= 2


def _is_finished(servers: Servers, plan: str) -> bool:
    """Whether every chunk of a plan was carried out."""
    told = read(run("plan", "show", plan, "--json", "--lake", servers.lake))
    return bool(told["state"] == "finished")


def _keys_of(address: str) -> set[str]:
    """The keys of the rows of staging, also of days that wait for a run."""
    table = read_lake(address, newest=True).table("staging")
    rows = table.days(DAYS[0], DAYS[-1], unfit="take").arrow()
    return {*rows["event_key"].to_pylist()}
