"""Fixtures that several rooms share, and the police of the cost tiers.
Here: the Spark session of the test run, the folder of shared data, and the rule that the markers
`spark`, `browser`, `processes` and `storages` are what a test's fixtures say. A test with none of
them that is not `slow` is `quick`: it may start no program, and fails where it does. Not here: how
the suite is spread over processes (`spreading.py`), builders and scenarios. Nothing starts unless a
test asks."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from backfill_assets.kernel.core.engines import EMBEDDED
from backfill_assets_tests import engine_choice as engines
from backfill_assets_tests.fixtures import lake, made, reader, table
from backfill_assets_tests.processes import CHECKOUT
from backfill_assets_tests.spreading import (  # hooks are pytest's by their names
    LONG_ROOMS,
    QUICK,
    end_at_once,
    pytest_cmdline_main,
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
)
from backfill_assets_tests.strategies import CHANCE, THOROUGH_EXAMPLES
from backfill_assets_tests.temp_root import choose_temp_root

if TYPE_CHECKING:
    from dagster import DagsterInstance
    from pyspark.sql import SparkSession

__all__ = (
    "lake",
    "made",
    "pytest_cmdline_main",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_xdist_make_scheduler",
    "reader",
    "table",
)

# By name, a line each: a copy without the room that they need goes on without them.
pytest_plugins = (
    "backfill_assets_tests.stores",  # a plugin of pytest
)
PROCESSES_FIXTURE = "processes"
MARKED_BY = {
    "chromium": "browser",
    PROCESSES_FIXTURE: "processes",
    "storages": "storages",
}  # fixture -> marker
# Dagster marks what it may still change; what we use of it is pinned by version and by tests.
DAGSTERS_WARNINGS = ("PreviewWarning", "BetaWarning", "SupersessionWarning")
# Importing them as Dagster's takes nearly a second.
DAGSTERS_WARNINGS_LIE_IN = "dagster_shared.utils.warnings"
STARTS = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
)  # of `sys.audit`
# What libraries start, once: matplotlib lists the fonts where a user never drew before; Dagster's
# cron asks `platform` for the bits of this Python as it is imported, whichever test has it imported
# first.
BY_LIBRARIES = frozenset({"fc-list", "system_profiler", "file"})
# One for all tests of a process: files are decoded in it.
DECODER = "backfill_assets.intake.limited_decoding"
STARTED = pytest.StashKey[list[str]]()
SPARK_FIXTURES = frozenset({"spark", "lake_session", "spark_server", "dagster_dev"})
DEAR = (
    "dagster",
    "pyspark",
)  # to import them takes each process a second; pyarrow imports pandas in any case
# Of ours.
IMPORTING_THEM = (
    r"dagster|end_to_end|engines import channel|foreign\.in_dagster|pipeline\.frames|plans\.plan_job"
    r"|assets\.(contracts|daily|inputs|io_manager|loaded|projects|rule_arguments)"
)
# Files whose tests all take a fixture that is marked, and those that import what is dear.
NEVER_QUICK = re.compile(
    rf'(?m)^(pytestmark = .*usefixtures\("({"|".join((*MARKED_BY, *SPARK_FIXTURES))})"'
    rf"|(from|import) ({'|'.join(DEAR)}|backfill_assets(_tests)?\.({IMPORTING_THEM}))\b)"
)
STORES = frozenset({"bucket_address", "moto_server", "passing"})  # fixtures of a store
WITHOUT = "BACKFILL_ASSETS_WITHOUT"  # the rooms that `.ci/without.py` left out of a copy
ROOMS_NEVER_QUICK = LONG_ROOMS | {"dagster"}
ROOMS_WITHOUT_SPARK = frozenset(
    {"core"}
)  # milliseconds each, and what they test knows the standard library only

# How long an example takes says something about the machine, which others use too, and nothing
# about the code. Examples are the same in every run, so that one commit passes or fails;
# `thorough.py` lets chance choose others.
SAME_EXAMPLES = CHANCE not in os.environ
settings.register_profile(
    "thorough", deadline=None, max_examples=THOROUGH_EXAMPLES, derandomize=SAME_EXAMPLES
)
settings.register_profile(
    QUICK, deadline=None, max_examples=THOROUGH_EXAMPLES // 5, derandomize=SAME_EXAMPLES
)
settings.load_profile("thorough")


def pytest_configure(config: pytest.Config) -> None:
    """Every program that this process starts, and each dear import, is noted for the police of the
    quick tests.

    Output is drawn as for a pipe: readline, where something imports it, tells every child the width
    of a screen. Java compiles quickly and not well, which is right for drivers and servers that
    live for minutes: half the CPU. Python keeps what it compiled, also where the machine says no:
    each process would rewrite the assertions of every module.
    """
    for name in DAGSTERS_WARNINGS:
        config.addinivalue_line("filterwarnings", f"ignore::{DAGSTERS_WARNINGS_LIE_IN}.{name}")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    choose_temp_root()
    end_at_once(config)
    if config.option.markexpr == QUICK:
        settings.load_profile(QUICK)
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    started = config.stash[STARTED] = []

    def note(event: str, args: tuple[object, ...]) -> None:
        if event == "import" and args[0] in DEAR:
            started.append(f"imported {args[0]}: mark it `slow`")
        if event not in STARTS:  # a million of other events are heard
            return
        is_decoder = event == "subprocess.Popen" and DECODER in list(args[1])  # type: ignore[call-overload]
        if not is_decoder and BY_LIBRARIES.isdisjoint(args[:1]):
            leave = f"take the fixture `{PROCESSES_FIXTURE}`, and the marker follows by itself"
            started.append(f"started {event} {args[0] if args else ''}: {leave}")

    sys.addaudithook(note)


def pytest_report_header(config: pytest.Config) -> str | None:
    """On which engine tests are that only need one, and what is left out."""
    if config.option.markexpr == QUICK:
        return None
    if config.option.markexpr == engines.PLAIN:
        more = f"left out: `pytest -m {engines.USERS_DO}`, on Spark, and `pytest -m {engines.LONG}`"
        return f"{_engines()}\n{more}"
    return _engines()


def _engines() -> str:
    if engines.wants_spark():
        return "engine: Spark"
    why = engines.why_no_sail()
    where = f"engine: Spark where a module is marked {engines.ON_SPARK}"
    return f"{where}; tests on Sail are skipped: {why}" if why else f"{where}, else Sail"


@pytest.fixture(scope="session", autouse=True)
def _disks_are_not_waited_for() -> Iterator[None]:
    """No power is cut during tests; the tests of what a power cut leaves stand in for the disk
    themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All lakes of a process share one DuckDB, whose start takes as long as a hundred questions to
    it. It is kept by its folder to spill into, which here is one for all; separate engines
    (`new_engine`) stay separate."""
    embedded = sys.modules.get(
        "backfill_assets.kernel.tables.embedded"
    )  # else nothing collected asks it
    with pytest.MonkeyPatch.context() as patch:
        if embedded:
            patch.setattr(embedded, "SPILL", tmp_path_factory.mktemp("spill"))
        yield


@pytest.fixture(scope="session")
def migrations_read_once() -> Iterator[None]:
    """Every storage of Dagster's is stamped with its newest migration, and alembic reads all of
    them for that."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    read, kept = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        folder = config.get_main_option("script_location")
        if folder not in kept:
            kept[folder] = read(config)
        return kept[folder]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        yield


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what needs Spark; refuse a marker without a fixture, and a fixture in a room that has
    none."""
    needs_spark = SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("spark") and not needs_spark:
        raise pytest.UsageError(
            f"{item.nodeid} is marked spark but uses none of {', '.join(sorted(SPARK_FIXTURES))}. "
            "Nothing was run. Drop the marker, or take the fixture: the marker follows by itself"
        )
    if needs_spark:
        room = item.path.parent.name
        if room in ROOMS_WITHOUT_SPARK:
            raise pytest.UsageError(
                f"{item.nodeid} uses {', '.join(sorted(needs_spark))} in {room}/, where tests "
                "take milliseconds. "
                "Nothing was run. Move it to the room of what it tests"
            )
        item.add_marker(pytest.mark.spark)
    markers = [MARKED_BY[name] for name in getattr(item, "fixturenames", ()) if name in MARKED_BY]
    for marker in markers:
        item.add_marker(marker)
    is_slow = item.get_closest_marker("slow") is not None
    if not (needs_spark or markers or is_slow or _is_never_quick(item.path)):
        item.add_marker(pytest.mark.quick)


@cache
def _is_never_quick(path: Path) -> bool:
    """Whether no test below this folder, or in this file, is quick."""
    is_dear = path.suffix == ".py" and NEVER_QUICK.search(path.read_text("utf-8"))
    rooms = (
        path.relative_to(CHECKOUT / "backfill_assets_tests").parts
        if path.is_relative_to(CHECKOUT / "backfill_assets_tests")
        else ()
    )
    return bool(is_dear) or not ROOMS_NEVER_QUICK.isdisjoint(rooms)


def _wants_whole_house(item: pytest.Item) -> bool:
    """Whether a test is of all rooms, or takes a fixture of a plugin that a copy may lack."""
    fixtures = getattr(item, "fixturenames", ())
    return bool(item.get_closest_marker("whole_house")) or not STORES.isdisjoint(fixtures)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What was started before is no matter of this test, nor is the engine of the one before."""
    if os.environ.get(WITHOUT) and _wants_whole_house(item):
        pytest.skip(f"this copy lacks rooms: {os.environ[WITHOUT]}")
    item.config.stash[STARTED].clear()
    engines.choose(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A quick test, or a fixture of it, that started a program fails, or that was the first to
    import what is dear."""
    yield
    started = item.config.stash[STARTED]
    if started and item.get_closest_marker(QUICK):
        pytest.fail(f"it {started[0]}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Files of the quick part import nothing dear, by whichever way: the rules above would not have
    seen it."""
    imported = [name for name in DEAR if name in sys.modules]
    if imported and session.config.option.markexpr == QUICK:
        raise pytest.UsageError(
            f"a file with quick tests imports {imported[0]}. Nothing was run. Name what it "
            "imports in IMPORTING_THEM"
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Rooms and files in which nothing is quick are not even imported where only quick tests are
    wanted."""
    return True if config.option.markexpr == QUICK and _is_never_quick(collection_path) else None


@pytest.fixture(scope="session")
def processes() -> None:
    """Leave to start other programs: a test that takes it, itself or by a fixture, is marked
    `processes`."""


@pytest.fixture(scope="session")
def storages(migrations_read_once: None) -> None:
    """Leave to take tenths of a second: a test that keeps a storage of Dagster's or commits to
    tables takes it, itself or by a fixture, and is marked `storages`."""


@pytest.fixture
def instance(storages: None) -> "Iterator[DagsterInstance]":
    """Dagster's storage in memory."""
    from dagster import DagsterInstance  # few tests need it

    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own. Pytest's are numbered, and those of all tests before are listed
    for that."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return Path(tempfile.mkdtemp(prefix=f"{name}_", dir=tmp_path_factory.getbasetemp()))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data and known answers beside the checkout; skips the test where there is
    none."""
    folder = CHECKOUT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(
            "the folder ../shared with the data and their known answers is not beside this checkout"
        )
    return folder


@pytest.fixture(scope="session")
def _sessions(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[engines.Sessions]":
    sessions = engines.Sessions(tmp_path_factory.mktemp("engines"))
    yield sessions
    sessions.close()


@pytest.fixture(scope="module")
def spark(_sessions: engines.Sessions) -> "Iterator[SparkSession]":
    """A session on the engine that this module's lakes are on: of the one server of Sail's or
    Spark's of this process.

    What only Spark itself can tell says so: `pytestmark = pytest.mark.on_spark("why")`.
    """
    with _sessions.shared():
        engine = os.environ.get(engines.OF_LAKES, EMBEDDED)
        yield _sessions.on(engines.SERVERS[engine])
