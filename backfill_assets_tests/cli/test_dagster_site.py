"""What the doctor says of a site of Dagster: each thing that is amiss by its object and what to do,
and a site that is well.

Tested here: judgements, and the checks on Dagster's own instances. Not tested here: a site whose
three processes run (`end_to_end.test_processes_apart`).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.cli import dagster_site as site
from backfill_assets.cli.dagster_site import (
    ClockReading,
    judge_beats,
    judge_clock,
    judge_server,
    judge_workspace,
)
from backfill_assets.cli.findings import Diagnosis, Level
from backfill_assets.cli.production import settings_text
from backfill_assets.dagster.adapter.assemble import LOADED_LAKE, LOADED_RELEASE, assemble
from backfill_assets.dagster.adapter.dagster_private import CodeServer, Heartbeat
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.processes import free_port
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
NOW = 1_700_000_000.0
WELL = CodeServer(
    "lake",
    "127.0.0.1:4000",
    python="/venv/bin/python",
    dagster=dg.__version__,
    texts={LOADED_RELEASE: version("backfill-assets"), LOADED_LAKE: "/data/lake"},
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Dagster as the guide makes it, whose code server listens nowhere yet."""
    made = tmp_path / "home"
    made.mkdir()
    (made / "dagster.yaml").write_text(settings_text(has_postgres=False))
    server = f"{{host: 127.0.0.1, port: {free_port()}, location_name: lake}}"
    (made / "workspace.yaml").write_text(f"load_from: [{{grpc_server: {server}}}]")
    monkeypatch.setenv("DAGSTER_HOME", str(made))
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return synthetic_lake(tmp_path / "lake", 1)[0]


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.get() as opened:
        yield opened


def odd(found: list[Diagnosis], named: str) -> list[Diagnosis]:
    """What is amiss about one object."""
    return [f for f in found if f.object.startswith(named) and f.level is not Level.OK]


def test_a_site_whose_processes_do_not_run_is_told_so_and_its_settings_and_clocks_are_well(
    lake: Lake, home: Path
) -> None:
    found = list(site.examine_home(lake))
    (server,) = odd(found, "the code server lake at 127.0.0.1:")
    assert (server.level, "lake-code" in server.advice) == (Level.ERROR, True)
    (daemon,) = odd(found, "Dagster's daemon")
    assert "never ran in this instance: ASSET, BACKFILL, " in daemon.what
    assert "lake-daemon" in daemon.advice
    well = {f.object: f.what for f in found if f.level is Level.OK}
    assert well[f"the settings {home}/dagster.yaml"] == (
        "run monitoring looks each 30 s, a run that died is tried 1 more time(s), queued runs wait "
        "600 s for a code server"
    )
    assert "files in the home, for processes of one machine" in well["Dagster's records"]
    assert well[f"the clock of {lake.place}"] == "goes with this machine's, to 0 s"
    assert len(found) == 5


def test_a_home_of_one_person_is_no_site(lake: Lake, home: Path) -> None:
    (home / "workspace.yaml").unlink()
    assert list(site.examine_home(lake)) == []


def test_settings_that_give_up_at_once_are_named_each_by_its_key(lake: Lake, home: Path) -> None:
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    found = odd(list(site.examine_home(lake)), f"the settings {home}/dagster.yaml")
    keys = [f.what.split()[0] for f in found]
    assert keys == ["run_monitoring", "run_retries", "max_user_code_failure_retries"]
    assert all("backfill-assets production" in f.advice for f in found)


def test_records_of_an_earlier_dagster_are_to_be_migrated(
    lake: Lake, home: Path, instance: dg.DagsterInstance
) -> None:
    assert instance.get_runs() == []  # which makes the storage
    with closing(sqlite3.connect(home / "history" / "runs.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'older'")
    (told,) = odd(list(site.examine_home(lake)), "Dagster's records")
    assert told.level is Level.ERROR
    assert "the revision older" in told.what
    assert "dagster instance migrate" in told.advice


def test_another_lake_of_the_instance_is_named(
    lake: Lake, home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    other = synthetic_lake(tmp_path / "other", 1)[0]
    instance.add_run(dg.DagsterRun("j", tags={LAKE_TAG: other.address}))
    (told,) = odd(list(site.examine_home(lake)), f"Dagster's home {home}")
    assert str(other.root) in told.what


def test_a_code_server_says_by_its_definitions_which_release_and_lake_it_has_loaded(
    lake: Lake,
) -> None:
    said = assemble(lake.root, tables).metadata
    assert said[LOADED_RELEASE].value == version("backfill-assets")
    assert said[LOADED_LAKE].value == lake.address


@pytest.mark.parametrize(
    ("server", "level", "words"),
    [
        (WELL, Level.OK, "shows /data/lake: backfill_assets"),
        (replace(WELL, texts={}), Level.OK, "no lake's own definitions"),
        (replace(WELL, trouble="No module named 'x'"), Level.ERROR, "(No module named 'x')"),
        (replace(WELL, dagster="1.12.0"), Level.ERROR, "with Dagster 1.12.0 (/venv/bin/python)"),
        (
            replace(WELL, texts={**WELL.texts, LOADED_RELEASE: "0.0.1"}),
            Level.ERROR,
            "runs backfill_assets 0.0.1",
        ),
    ],
)
def test_a_code_server_is_judged_by_what_it_says(
    server: CodeServer, level: Level, words: str
) -> None:
    found = judge_server(server)
    assert (found.level, found.object) == (level, "the code server lake at 127.0.0.1:4000")
    assert words in found.what
    assert bool(found.advice) is (level is Level.ERROR)


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ([WELL], ""),
        ([replace(WELL, texts={LOADED_LAKE: "/data/other"})], "they show /data/other"),
        ([replace(WELL, texts={})], "they show no lake by itself"),
        ([replace(WELL, texts={}), WELL], ""),
        ([replace(WELL, texts={}, trouble="it is away")], ""),
        ([], ""),
    ],
)
def test_a_workspace_that_does_not_show_the_lake_is_told(
    servers: list[CodeServer], told: str
) -> None:
    found = list(judge_workspace("/data/lake", servers))
    assert [told in f.what for f in found] == [True] * bool(told)
    assert all("BACKFILL_ASSETS_LAKE" in f.advice for f in found)


@pytest.mark.parametrize(
    ("beat", "level", "words"),
    [
        (Heartbeat(NOW - 20, ()), Level.OK, "1 parts, shown 20 s ago or later"),
        (Heartbeat(NOW - 600, ()), Level.ERROR, "gives no sign of life: SENSOR for 600 s"),
        (Heartbeat(NOW + 90, ()), Level.WARN, "90 s ahead of this machine's clock"),
        (Heartbeat(NOW, ("cannot\nload",)), Level.WARN, "SENSOR met 1 error(s): cannot"),
        (None, Level.ERROR, "never ran in this instance: SENSOR"),
    ],
)
def test_a_daemon_is_judged_by_its_newest_signs_of_life(
    beat: Heartbeat | None, level: Level, words: str
) -> None:
    found = max(judge_beats({"SENSOR": beat}, NOW), key=lambda f: f.level is not Level.OK)
    assert (found.level, words in found.what) == (level, True), found
    assert bool(found.advice) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (NOW - 4, "goes with this machine's"),
        (NOW + 9, "goes with this machine's, to 4 s"),  # the answer took five seconds
        (NOW - 60, "60 s behind"),
        (NOW + 65, "60 s ahead of"),
    ],
)
def test_a_clock_is_off_by_what_asking_does_not_explain(theirs: float, words: str) -> None:
    assert words in judge_clock("of x", ClockReading(NOW, theirs, NOW + 5)).what
