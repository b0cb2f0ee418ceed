"""Dagster's three processes apart, as the units of `production --units` run them, with Dagster's
records in PostgreSQL: each killed with SIGKILL and started again, as systemd does.

Here: backfills and runs of the browser go on, none is given up, no day is missing, and what the
doctor says of the site. Eight days of a lake in a folder in `.ci/run`; `thorough.py` has a hundred
of one in a bucket, asked for by clicks in Chromium, runs that die on another host, a second code
location, a code server that is away for a minute while others work, and a plan by the daemon; and
the same with fewer days that a standalone cluster computes. Not here: the text of units
(`cli.test_site_files`), plans alone (`test_plan_daemon`), a run that is killed
(`test_dagster_on_postgres`).
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from backfill_assets.cli.production import settings_text
from backfill_assets.cli.site_files import Site, unit_files
from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.reading.opening import open_lake as read_lake
from backfill_assets_tests.browser.site import (
    asked,
    backfill_status,
    launch_backfill,
    launch_run,
)
from backfill_assets_tests.browser.ui import Ui, browser
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.end_to_end.test_bucket_elsewhere import IN_PYTHON, QUICK
from backfill_assets_tests.end_to_end.test_cluster_deaths import SMALL
from backfill_assets_tests.end_to_end.test_machines import Cluster, cluster, of_cluster
from backfill_assets_tests.engine_choice import usual_environ
from backfill_assets_tests.lakes import delivery, land, make_lake, per_arrival_day
from backfill_assets_tests.postgres import postgres_server
from backfill_assets_tests.processes import free_port, until
from backfill_assets_tests.units import Unit, unit_of

pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
FIRST = date(2024, 3, 1)
SIZE = os.environ.get("BACKFILL_ASSETS_SITE", "small")
IS_SMALL, IS_ON_CLUSTER = SIZE == "small", SIZE == "cluster"
pytestmark = [
    pytest.mark.usefixtures("spark", "processes", "storages"),
    pytest.mark.slow,
    *([pytest.mark.on_spark("its cluster is Spark's own")] if IS_ON_CLUSTER else []),
]
DAYS = [str(FIRST + timedelta(n)) for n in range({"small": 8, "cluster": 16, "big": 100}[SIZE])]
ROWS = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
PATIENCE_SECONDS = 900.0 if IS_SMALL else 3600.0
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries {
  locationOrLoadError { __typename } } } } }"""
RUNS = """{ runsOrError { ... on Runs { results {
  runId status parentRunId startTime tags { key value } } } } }"""
REPOSITORY = "__repository__"
SENSORS = """query Sensors($of: RepositorySelector!) { sensorsOrError(repositorySelector: $of) {
  ... on Sensors { results { name sensorState { id } } } } }"""
STOP = "mutation Stop($id: String!) { stopSensor(id: $id) { __typename } }"
START = "mutation Start($of: SensorSelector!) { startSensor(sensorSelector: $of) { __typename } }"
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
OF_LANDINGS = ("landing", "late_data")  # sensors that ask for days by what landed
BACKFILL = "dagster/backfill"  # the tag of a backfill's runs
NOT_STARTED = "Caught an error dequeuing run"  # as the daemon says of a run without code
AT_ONCE = 2  # runs at once, by the settings of a site
FEW, MANY = 2, 14  # runs that wait behind those that die, and while the code server is away
AWAY_SECONDS = 60.0
# After the code server is back: a run of another host shows nothing for two minutes, a tick sees it,
# and on full machines both are late.
SILENCE_SECONDS = 240.0
SHOP = """import os

import dagster as dg

from backfill_assets.dagster import build_lake_defs

report = dg.AssetSpec("report", deps=[dg.AssetKey(["shop", "staging"])])
defs = dg.Definitions.merge(
    dg.Definitions(assets=[report]),
    build_lake_defs(os.environ["BACKFILL_ASSETS_LAKE"], key_prefix="shop"),
)
"""
# A host's name and numbers of processes of one's own: what a machine sees of another one's runs.
ANOTHER_HOST = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
ANOTHER_NAME = ('hostname elsewhere && exec "$@"', "host")
DAY_OF_COMMAND = ("--from", DAYS[0], "--to", DAYS[0], "--tables", "raw")
# Names of what the services need to reach the lake, and to start an engine.
OF_PLACE = ("AWS_", STATE_VARIABLE, "SPARK_LOCAL_IP", "JAVA_HOME")
SITE_PARTS = ("Dagster's ", "the code server", "the settings ", "the clock ")


@dataclass(frozen=True)
class SeenRun:
    """A run, as the web server shows it."""

    status: str
    parent: str | None  # the run that it tries again
    backfill: str | None
    began: float | None


@dataclass(frozen=True)
class Asked:
    """What was asked for in the browser: backfills, and runs that wait behind them."""

    backfills: list[str]
    waiting: list[str]


@dataclass
class Servers:
    """The services of a site, started as their units say."""

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

    def restart(self, *names: str) -> None:
        """Kill services, and start them again."""
        for name in names:
            self.kill(name)
        self.start(*names)
        self.wait(self.is_ready)

    def wait(self, done: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> None:
        """Wait until something is so."""
        until(done, self.log, patience)

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
        """Whether the web server sees the code of all locations."""
        answer = self.ask(LOCATIONS)
        if answer is None:
            return False
        entries = answer["workspaceOrError"]["locationEntries"]
        loaded = [e["locationOrLoadError"]["__typename"] for e in entries]
        return loaded == ["RepositoryLocation"] * len(entries)

    def locations(self) -> list[dict[str, str]]:
        """The repositories of all code locations."""
        names = ["lake", *([] if IS_SMALL else ["shop"])]
        return [{"repositoryName": REPOSITORY, "repositoryLocationName": name} for name in names]

    def stop_sensors(self) -> None:
        """Let no location ask for what landed, and what they asked for end."""
        for location in self.locations():
            for sensor in asked(self.url, SENSORS, of=location)["sensorsOrError"]["results"]:
                if sensor["name"] in OF_LANDINGS:
                    told = asked(self.url, STOP, id=sensor["sensorState"]["id"])
                    assert told["stopSensor"]["__typename"] == "StopSensorMutationResult"
        self.wait(lambda: {run.status for run in self.runs().values()} <= ENDED)

    def start_sensors(self) -> None:
        """Let the lake's own location ask for what landed."""
        for name in OF_LANDINGS:
            told = asked(self.url, START, of=self.locations()[0] | {"sensorName": name})
            assert told["startSensor"]["__typename"] == "Sensor"

    def launch(self) -> Asked:
        """Ask in the browser for all days by two backfills: the first by clicks, in a big site."""
        first = launch_backfill(self.url, ["raw"], DAYS) if IS_SMALL else self.click_range("raw")
        return Asked([first, launch_backfill(self.url, ["raw", "staging"], DAYS)], [])

    def click_range(self, table: str) -> str:
        """Ask for all days by clicks on the page of a table; the backfill's id."""
        with browser() as opened:
            ui = Ui(opened.new_page(viewport={"width": 1400, "height": 900}), self.url)
            ui.go(f"/assets/{table}")
            ui.shot(f"site_{table}_range")
            found = ui.start_backfill(f"[{DAYS[0]}...{DAYS[-1]}]")
            ui.shot(f"site_{table}_backfill")
        return found

    def queue(self, asked: Asked, count: int) -> None:
        """Ask in the browser for so many single days, too."""
        for day in DAYS[:count]:
            asked.waiting.append(launch_run(self.url, "lake", "raw", day))

    def launch_plan(self) -> str:
        """Let the daemon make all days again by a plan; its id."""
        span = ["--partitions", f"{DAYS[0]}..{DAYS[-1]}", "--tables", "raw,staging", "--force"]
        words = ["plan", *span, "--chunk", f"{len(DAYS) // 4}d", "--canary", "0"]
        found = str(read(run(*words, "--json", "--lake", self.lake))["id"])
        read(run("run", found, "--daemon", "--json", "--lake", self.lake))
        return found

    def states_of(self, asked: Asked) -> tuple[set[str], set[str]]:
        """How its backfills and its waiting runs stand."""
        seen = self.runs()
        backfills = {backfill_status(self.url, found) for found in asked.backfills}
        return backfills, {seen[run_id].status for run_id in asked.waiting}

    def await_success(self, asked: Asked) -> None:
        """Wait until all that was asked for ended, which must be well."""

        def has_ended() -> bool:
            with suppress(OSError):
                backfills, runs = self.states_of(asked)
                ended = all(state.startswith(("COMPLETED", "FAILED")) for state in backfills)
                return ended and runs <= ENDED
            return False

        self.wait(has_ended)
        told = (self.runs(), self.log.read_text()[-4000:])
        assert self.states_of(asked) == ({"COMPLETED_SUCCESS"}, {"SUCCESS"}), told

    def runs(self) -> dict[str, SeenRun]:
        """By its id each run."""
        found = self.ask(RUNS)["runsOrError"]["results"]
        tags = {r["runId"]: {tag["key"]: tag["value"] for tag in r["tags"]} for r in found}
        return {
            r["runId"]: SeenRun(
                r["status"], r["parentRunId"], tags[r["runId"]].get(BACKFILL), r["startTime"]
            )
            for r in found
        }

    def runs_at_work(self) -> dict[str, SeenRun]:
        """The runs that have begun and not ended."""
        return {run_id: run for run_id, run in self.runs().items() if run.status == "STARTED"}

    def backfills_at_work(self) -> set[str | None]:
        """The backfills of all runs that have begun and not ended, None for a run of none."""
        return {run.backfill for run in self.runs_at_work().values()}

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
    """A lake in a folder, in which nothing has landed yet."""
    return make_lake(tmp_path / "lake", [], DAYS[0])


@pytest.fixture
def workers(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """A standalone cluster of one worker that reaches the bucket."""
    for name, value in of_cluster().items():
        monkeypatch.setenv(name, value)
    with cluster(tmp_path / "cluster", {}) as made:
        made.join()
        yield made


def _on_cluster(text: str, workers: Cluster) -> str:
    """The settings of a lake with a small cluster as its engine."""
    engine, confs = IN_PYTHON.format(workers.master).split("\n", 1)
    there = {name: value for name, value in QUICK.items() if name != "spark.master"}
    lines = "".join(f'\n"{name}" = "{value}"' for name, value in {**there, **SMALL}.items())
    text = text.replace("[spark]", f"[spark]\n{engine}")
    return f"{text}\n{confs}{lines}\n"


@pytest.fixture
def address(
    landed: Lake, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The address of the lake: that folder, or one in a bucket with its settings and deliveries,
    whose local folder is the test's own, and which a cluster may compute."""
    if IS_SMALL:
        return landed.address
    found = str(request.getfixturevalue("bucket_address"))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    text = (landed.root / FILE_NAME).read_text().replace("landing/**", f"{landed.root}/landing/**")
    if IS_ON_CLUSTER:
        text = _on_cluster(text, request.getfixturevalue("workers"))
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
    if not IS_SMALL:
        files |= _second_location(files)
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
            **({} if IS_ON_CLUSTER else usual_environ()),
            **{n: v for n, v in os.environ.items() if n.startswith(OF_PLACE)},
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
    servers.start(*servers.units.keys() - {"code"})
    servers.wait(servers.is_ready)
    servers.stop_sensors()  # what lands is for the browser's backfills
    for name, rows in per_arrival_day(ROWS).items():
        land(servers.landed, name, rows)
    dead = _kill_amid_work(servers)
    servers.wait(lambda: _all_well(servers))
    if not IS_SMALL:
        _keep_code_away(servers)
    late = delivery(999, f"{DAYS[-1]} 22:00:00", f"{DAYS[1]} 10:00:00", "late", value=5)
    land(servers.landed, "late.jsonl", [late])
    servers.start_sensors()
    servers.wait(lambda: "late" in _keys_of(servers.lake))
    if not IS_SMALL:
        plan = servers.launch_plan()
        servers.wait(lambda: _is_finished(servers, plan))
    assert _keys_of(servers.lake) == {"late", *(f"k{n}" for n, _ in enumerate(DAYS, 1))}
    assert {i for i, run in servers.runs().items() if run.status == "FAILURE"} == dead


def _kill_amid_work(servers: Servers) -> set[str]:
    """Kill each of the three while two backfills are at work and runs wait behind them: the runs
    that the code server worked on are asked for once more, and all ends well. The ids of these."""
    with load_lock(place_at(local_root(servers.lake))):  # no run ends before its death
        asked = servers.launch()
        servers.wait(lambda: servers.backfills_at_work() == {*asked.backfills})
        servers.queue(asked, FEW)
        servers.restart("daemon", "web")
        assert servers.states_of(asked) == ({"REQUESTED"}, {"QUEUED"})
        dying = [*servers.runs_at_work()]
        servers.kill("code")
        servers.wait(lambda: not servers.is_ready())
    _see_code_away(servers)
    read(run("backfill", *DAY_OF_COMMAND, "--json", "--lake", servers.lake))  # by a person beside
    servers.start("code")
    servers.wait(servers.is_ready)
    servers.wait(lambda: _are_dead(servers, dying), SILENCE_SECONDS)
    servers.await_success(asked)
    servers.wait(lambda: _states_again(servers, dying) == ["SUCCESS"] * len(dying))
    return {*dying}


def _keep_code_away(servers: Servers) -> None:
    """Kill the code server for a minute while two backfills and runs wait behind those of another
    location, and these end meanwhile: all wait, none fails, nothing is made twice."""
    tries = servers.log.read_text().count(NOT_STARTED)
    with load_lock(place_at(local_root(servers.lake))):
        shop = [launch_run(servers.url, "shop", "shop/raw", day) for day in DAYS[:AT_ONCE]]
        servers.wait(lambda: {*servers.runs_at_work()} == {*shop})
        asked = servers.launch()
        servers.wait(lambda: {r.backfill for r in servers.runs().values()} >= {*asked.backfills})
        servers.queue(asked, MANY)
        servers.kill("code")
        killed = time.monotonic()
    before = servers.runs()
    servers.wait(lambda: {servers.runs()[run_id].status for run_id in shop} == {"SUCCESS"})
    _see_code_away(servers)
    servers.wait(lambda: time.monotonic() > killed + AWAY_SECONDS)
    servers.wait(lambda: servers.log.read_text().count(NOT_STARTED) > tries)
    assert {servers.runs()[run_id].began for run_id in asked.waiting} == {None}
    backfills, _ = servers.states_of(asked)
    assert backfills == {"REQUESTED"}
    servers.start("code")
    servers.await_success(asked)
    assert [r for i, r in servers.runs().items() if i not in before and r.parent] == []


def _see_code_away(servers: Servers) -> None:
    """The doctor names the code server that is away."""
    servers.wait(lambda: not servers.is_ready())
    said = servers.doctor_said()
    assert [level for level, what in said.values() if "gives no definitions" in what] == ["error"]


def _another_host() -> tuple[str, ...]:
    """What makes a process one of another host, for a big site on a machine that lets its user do
    so; else nothing."""
    whole = (*ANOTHER_HOST, *ANOTHER_NAME)
    tried = not IS_SMALL and subprocess.run([*whole, "true"], check=False).returncode == 0
    return whole if tried else ()


def _second_location(files: Mapping[str, str]) -> dict[str, str]:
    """The files of a site with a second code location: its code, its unit, and the workspace."""
    port = str(free_port())
    unit, workspace = files["lake-code.service"], yaml.safe_load(files["workspace.yaml"])
    server = {"host": "127.0.0.1", "port": int(port), "location_name": "shop"}
    workspace["load_from"].append({"grpc_server": server})
    command = re.sub(r"-m \S+ (.*) -p \d+$", rf"-f shop.py \1 -p {port}", unit, flags=re.MULTILINE)
    return {
        "shop.py": SHOP,
        "lake-shop.service": command,
        "workspace.yaml": yaml.safe_dump(workspace),
    }


def _all_well(servers: Servers) -> bool:
    """Whether the doctor finds nothing amiss of the site, whose daemon has shown all its parts."""
    return {level for level, _ in servers.doctor_said().values()} == {"ok"}


def _are_dead(servers: Servers, runs: list[str]) -> bool:
    """Whether these runs were ended, as their processes were."""
    seen = servers.runs()
    return {seen[run_id].status for run_id in runs} == {"FAILURE"}


def _states_again(servers: Servers, runs: list[str]) -> list[str]:
    """How the runs stand that try these again."""
    return [run.status for run in servers.runs().values() if run.parent in runs]


def _is_finished(servers: Servers, plan: str) -> bool:
    """Whether every chunk of a plan was carried out."""
    told = read(run("plan", "show", plan, "--json", "--lake", servers.lake))
    return bool(told["state"] == "finished")


def _keys_of(address: str) -> set[str]:
    """The keys of the rows of staging, also of days that wait for a run."""
    table = read_lake(address, newest=True).table("staging")
    rows = table.days(DAYS[0], DAYS[-1], unfit="take").arrow()
    return {*rows["event_key"].to_pylist()}
