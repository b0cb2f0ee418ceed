"""Fixtures that several rooms share, the police of the cost tiers, and how the suite is spread over processes.

Lives here: the Spark session of the test run, the folder of shared data, and the rule that the markers `spark`,
`browser`, `processes` and `storages` are what a test's fixtures say. A test with none of them is `quick`: it may start
no program, and fails where it does. Does not live here: builders and scenarios. Nothing starts unless a test asks.
"""

import atexit
import gc
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from backfill_assets.engine.waiting_place import OFF
from backfill_assets_tests import engines, forking
from backfill_assets_tests.processes import CAN_FORK, CHECKOUT
from backfill_assets_tests.strategies import THOROUGH_EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

PROCESSES_FIXTURE = "processes"
MARKED_BY = {"chromium": "browser", PROCESSES_FIXTURE: "processes", "storages": "storages"}  # fixture -> marker
QUICK = "quick"
# Dagster marks what it may still change; what we use of it is pinned by version and by tests.
DAGSTERS_WARNINGS = ("PreviewWarning", "BetaWarning", "SupersessionWarning")
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})  # of `sys.audit`
GARBAGE = (300_000, 20, 50)  # objects, then how often for older ones
STARTED = pytest.StashKey[list[str]]()
FORKED = pytest.StashKey[bool]()
SPARK_FIXTURES = frozenset({"spark", "lake_session", "spark_server", "dagster_dev"})
LONG_ROOMS = frozenset({"end_to_end", "browser"})
ROOMS_OF_ONE_PROCESS = frozenset({"browser"})  # its modules share a site; it is the longest
PARSING = "backfill_assets_tests.sources import"  # modules that say so share the syntax trees of all files
ROOMS_WITHOUT_SPARK = frozenset({"core"})  # milliseconds each, and what they test knows the standard library only

# On two cores: servers, daemons and browsers are waited for half of the time. More would not fit a laptop's memory.
PROCESSES = 3
QUICK_PROCESSES = 3  # forks: a tenth of the time is waiting for locks and sockets
MEMORY, ROOM_BYTES = Path("/dev/shm"), 1 << 30  # a folder in memory of Linux; all quick tests together write less

# How long an example takes says something about the machine, which others use too, and nothing about the code.
settings.register_profile("thorough", deadline=None, max_examples=THOROUGH_EXAMPLES)
settings.register_profile(QUICK, deadline=None, max_examples=THOROUGH_EXAMPLES // 3)
settings.load_profile("thorough")


def pytest_configure(config: pytest.Config) -> None:
    """Every program that this process starts is noted, for the police of the quick tests.

    Output is drawn as for a pipe: readline, where something imports it, tells every child the width of a screen. Java
    compiles quickly and not well, which is right for drivers and servers that live for minutes: half the CPU. Python
    keeps what it compiled, also where the machine says no: each process would rewrite the assertions of every module.
    """
    if not getattr(config.option, "numprocesses", 0):  # who only hands out tests needs no Dagster, nearly a second
        for name in DAGSTERS_WARNINGS:
            config.addinivalue_line("filterwarnings", f"ignore::dagster.{name}")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if config.option.markexpr == QUICK:
        settings.load_profile(QUICK)
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    os.environ[OFF] = "off"  # no command of a test leaves a process that waits for others
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    started = config.stash[STARTED] = []

    def note(event: str, args: tuple[object, ...]) -> None:
        if event in STARTS:
            started.append(f"{event} {args[0] if args else ''}")

    sys.addaudithook(note)


def pytest_report_header(config: pytest.Config) -> str | None:
    """On which engine tests are that only need one."""
    if config.option.markexpr == QUICK:
        return None
    why = engines.why_spark()
    return f"engine: Spark ({why})" if why else f"engine: Sail; Spark where a module is marked {engines.ON_SPARK}"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is imported and collected stays until the end: no collection of garbage looks at it, now or later.

    It is let go at the very end, where libraries look for what they left and take what is frozen for lost. Tests make
    little garbage in circles: looking for it as often as Python does by default takes a twelfth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()
        if not session.config.stash.get(FORKED, False):  # who runs no test itself made nothing to be lost: a second
            atexit.register(gc.unfreeze)


@pytest.fixture(scope="session", autouse=True)
def _disks_are_not_waited_for() -> Iterator[None]:
    """No power is cut during tests; the tests of what a power cut leaves stand in for the disk themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(scope="session")
def migrations_read_once() -> Iterator[None]:
    """Every storage of Dagster's is stamped with its newest migration, and alembic reads all of them for that."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Folders, and so the whole suite, run in several processes, whole modules in each; named files and tests in one.

    Quick tests run in forks, and what they write is in memory where that is as large. `-n` and `--pdb` win over it.
    """
    option = config.option
    named = any(".py" in arg for arg in config.args)
    if getattr(option, "numprocesses", 0) is None and not (named or option.usepdb or hasattr(config, "workerinput")):
        if option.markexpr == QUICK and CAN_FORK:
            config.stash[FORKED] = True
            if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
                os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
            return
        option.numprocesses, option.dist = PROCESSES, "loadscope"
        option.loadscopereorder = False  # it would begin with the many quick tests, and wait for a long one at the end


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """A module goes to one process; so do modules that share what is dear to start, or to parse."""
    from xdist.scheduler import LoadScopeScheduling

    class ByModuleOrRoom(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(config.rootpath / nodeid.partition("::")[0])

    return ByModuleOrRoom(config, log)


@cache
def scope_of(module: Path) -> str:
    """The name of what goes to one process: equal for modules that share what is dear to start, or to parse."""
    room = module.parent
    if room.name in ROOMS_OF_ONE_PROCESS:
        return str(room)
    return PARSING if PARSING in module.read_text(encoding="utf-8") else str(module)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Quick tests are imported and collected once, then run in forks, begun before any library has threads at work."""
    config = session.config
    if not config.stash.get(FORKED, False) or config.option.collectonly or session.testsfailed:
        return None  # pytest's own loop
    batches: dict[str, list[int]] = {PARSING: []}  # seconds, all others tenths of one
    for index, item in enumerate(session.items):
        batches.setdefault(scope_of(item.path), []).append(index)
    forking.Parent(session, filter(None, batches.values())).run(QUICK_PROCESSES)
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest room, go on with the other long one and with modules that start programs, and let the many
    quick ones fill what is left, so that the processes end together; among equals the order is random."""
    engines.refuse_unfounded(items)
    dear = {item.path for item in items if not item.get_closest_marker(QUICK)}

    def rank(item: pytest.Item) -> tuple[bool, bool, bool]:
        room = item.path.parent.name
        return room not in ROOMS_OF_ONE_PROCESS, room not in LONG_ROOMS, item.path not in dear

    items.sort(key=rank)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what needs Spark; refuse a marker without a fixture, and a fixture in a room that has none."""
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
                f"{item.nodeid} uses {', '.join(sorted(needs_spark))} in {room}/, where tests take milliseconds. "
                "Nothing was run. Move it to the room of what it tests"
            )
        item.add_marker(pytest.mark.spark)
    markers = [MARKED_BY[name] for name in getattr(item, "fixturenames", ()) if name in MARKED_BY]
    for marker in markers:
        item.add_marker(marker)
    if not needs_spark and not markers and item.path.parent.name not in LONG_ROOMS:
        item.add_marker(pytest.mark.quick)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What was started before is no matter of this test, nor is the engine of the one before."""
    item.config.stash[STARTED].clear()
    engines.choose(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A quick test, or a fixture of it, that started a program fails."""
    yield
    started = item.config.stash[STARTED]
    if started and item.get_closest_marker(QUICK):
        pytest.fail(
            f"it started {started[0]}: take the fixture `{PROCESSES_FIXTURE}`, and the marker follows by itself"
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Rooms in which nothing is quick are not even imported where only quick tests are wanted."""
    return True if config.option.markexpr == QUICK and collection_path.name in LONG_ROOMS else None


@pytest.fixture(scope="session")
def processes() -> None:
    """Leave to start other programs: a test that takes it, itself or by a fixture, is marked `processes`."""


@pytest.fixture(scope="session")
def storages() -> None:
    """Leave to take tenths of a second: a test that keeps a storage of Dagster's or commits to tables takes it, itself
    or by a fixture, and is marked `storages`."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data and known answers beside the checkout; skips the test where there is none."""
    folder = CHECKOUT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared with the data and their known answers is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def _sessions(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[engines.Sessions]":
    sessions = engines.Sessions(tmp_path_factory.mktemp("engines"))
    yield sessions
    sessions.close()


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest, _sessions: engines.Sessions) -> "Iterator[SparkSession]":
    """A session on the engine that this module's lakes are on: Sail's, or the one classic session of this process.

    What only Spark itself can tell says so: `pytestmark = pytest.mark.on_spark("why")`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.lake.session.open_session", _sessions.of_lake)
        yield _sessions.on(engines.QUICK if engines.OF_LAKES in os.environ else engines.CLASSIC)
