"""Dagster's three processes apart, as the units of `production --units` run them, with Dagster's
records in PostgreSQL: each killed with SIGKILL and started again, as systemd does.

Here: backfills of the browser go on, no run fails, no day is missing. Not here: the text of units
(`cli.test_site_files`), plans by the daemon (`test_plan_daemon`), a run that is killed
(`test_dagster_on_postgres`).
"""

import os
import signal
import subprocess
import sys
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
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.opening import open_lake as read_lake
from backfill_assets_tests.browser.site import asked, backfill_status, launch_backfill
from backfill_assets_tests.lakes import delivery, land, make_lake
from backfill_assets_tests.postgres import postgres_server
from backfill_assets_tests.processes import free_port, until
from backfill_assets_tests.units import Unit, unit_of

pytestmark = [pytest.mark.usefixtures("spark", "processes", "storages"), pytest.mark.slow]
pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
FIRST = date(2024, 3, 1)
DAYS = [str(FIRST + timedelta(n)) for n in range(8)]
PATIENCE_SECONDS = 240.0
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries {
  locationOrLoadError { __typename } } } } }"""
RUNS = "{ runsOrError { ... on Runs { results { status } } } }"


@dataclass
class Servers:
    """The three services of a site, started as their units say."""

    units: dict[str, Unit]
    url: str
    lake: Lake
    log: Path
    secrets: dict[str, str]  # what the units read from their file of secrets
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Start these services."""
        for name in names:
            self.running[name] = self.units[name].start(self.log, **self.secrets)

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

    def await_success(self, backfill: str) -> None:
        """Wait until a backfill ended, which must be well."""

        def has_ended() -> bool:
            with suppress(OSError):
                return backfill_status(self.url, backfill).startswith(("COMPLETED", "FAILED"))
            return False

        until(has_ended, self.log, PATIENCE_SECONDS)
        status = backfill_status(self.url, backfill)
        assert status == "COMPLETED_SUCCESS", self.log.read_text()[-4000:]

    def run_states(self) -> list[str]:
        """How each run ended, or stands."""
        return [str(run["status"]) for run in self.ask(RUNS)["runsOrError"]["results"]]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """A lake of eight days that nothing has loaded, and its three services, not started yet."""
    rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
    lake = make_lake(tmp_path / "lake", rows, DAYS[0])
    home = tmp_path / "home"
    home.mkdir()
    code_port = free_port()
    web_port = free_port()
    site = Site(
        str(lake.root),
        home,
        "lake",
        Path(sys.executable).parent,
        has_postgres=True,
        code_port=code_port,
        web_port=web_port,
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
        address = at_the_end.enter_context(postgres_server())
        records = address.replace("postgresql://", "postgresql+psycopg2://")
        secrets = {"DAGSTER_POSTGRES_URL": records, "DAGSTER_DISABLE_TELEMETRY": "1"}
        url = f"http://127.0.0.1:{web_port}"
        made = Servers(units, url, lake, tmp_path / "services.log", secrets)
        at_the_end.callback(stop_server, lake.root, force=True)
        at_the_end.callback(made.kill_all)
        yield made


def test_backfills_and_late_data_outlive_the_death_of_each_process(servers: Servers) -> None:
    servers.start("code", "web", "daemon")
    until(servers.is_ready, servers.log, PATIENCE_SECONDS)
    backfills = [servers.launch("raw"), servers.launch("raw", "staging")]
    until(lambda: "STARTED" in servers.run_states(), servers.log, PATIENCE_SECONDS)
    servers.kill("daemon")
    servers.kill("web")
    servers.start("web", "daemon")
    until(servers.is_ready, servers.log, PATIENCE_SECONDS)
    servers.kill("code")  # with the run that it works on, which is asked for once more
    until(lambda: not servers.is_ready(), servers.log, PATIENCE_SECONDS)
    servers.start("code")
    for backfill in backfills:
        servers.await_success(backfill)
    late = delivery(99, f"{DAYS[-1]} 22:00:00", f"{DAYS[1]} 10:00:00", "late", value=5)
    land(servers.lake, "late.jsonl", [late])
    until(lambda: "late" in _keys_of(servers.lake), servers.log, PATIENCE_SECONDS)
    assert _keys_of(servers.lake) == {"late", *(f"k{n}" for n, _ in enumerate(DAYS, 1))}


def _keys_of(lake: Lake) -> set[str]:
    """The keys of the rows of staging, also of days that wait for a run."""
    table = read_lake(lake.root, newest=True).table("staging")
    rows = table.days(DAYS[0], DAYS[-1], unfit="take").arrow()
    return {*rows["event_key"].to_pylist()}
