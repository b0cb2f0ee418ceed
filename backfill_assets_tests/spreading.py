"""How the suite is spread over processes: the whole of it over three of xdist's, quick tests over forks of one.

Lives here: which run is spread in which way, what belongs together, what begins first. Does not live here: how forks
are fed and heard (`forking.py`); which test is quick (`conftest.py`).
"""

import atexit
import gc
import shutil
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets_tests import engines, forking
from backfill_assets_tests.processes import CAN_FORK

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

QUICK = "quick"
GARBAGE = (300_000, 20, 50)  # objects, then how often for older ones
FORKED = pytest.StashKey[bool]()
FORKS = pytest.StashKey[forking.Parent]()
LONG_ROOMS = frozenset({"end_to_end", "browser"})
ROOMS_OF_ONE_PROCESS = frozenset({"browser"})  # its modules share a site; it is the longest
PARSING = "backfill_assets_tests.sources import"  # modules that say so share the syntax trees of all files
# Modules on the Spark server of their process share its JVM: three would start, load and warm up the same. Not what
# kills JVMs.
ON_SPARK, SESSION, KILLING = "mark.on_spark(", 'spark: "SparkSession', "it kills JVMs"
DRAWING = ("cli/test_lateness.py", "cli/test_lateness_page.py", "cli/test_report_page.py")  # matplotlib, half a second
# These import next to nothing, so that a fork is at work on them while Dagster, pandas and the rest are imported.
EARLY = (
    "core",
    "engine/test_processes.py",
    "test_architecture.py",
    "test_house.py",
    "test_one_day.py",
    "test_rooms.py",
    "test_signposts.py",
)
# On two cores: servers, daemons and browsers are waited for half of the time. More would not fit a laptop's memory.
PROCESSES = 3
QUICK_PROCESSES = 3  # forks: a tenth of the time is waiting for locks and sockets
MEMORY, ROOM_BYTES = Path("/dev/shm"), 1 << 30  # a folder in memory of Linux; all quick tests together write less


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is imported and collected stays until the end: no collection of garbage looks at it, now or later.

    It is let go at the very end, where libraries look for what they left and take what is frozen for lost. Tests make
    little garbage in circles: looking for it as often as Python does by default takes a twelfth of their time.
    """
    gc.disable()
    _begin_early(session)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()
        if not session.config.stash.get(FORKED, False):  # who runs no test itself made nothing to be lost: a second
            atexit.register(gc.unfreeze)


def _begin_early(session: pytest.Session) -> None:
    """Not where a part is asked for, nor in the fork itself, which collects as well."""
    config, option = session.config, session.config.option
    if not config.stash.get(FORKED, False) or option.collectonly or FORKS in config.stash:
        return
    forks = config.stash[FORKS] = forking.Parent(session)
    if (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and not getattr(option, "lf", False)
        and not getattr(option, "stepwise", False)
    ):
        forks.begin([str(Path(__file__).parent / name) for name in EARLY])


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
                tempfile.tempdir = str(MEMORY)  # pytest's folders, too
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
    if f"{room.name}/{module.name}" in DRAWING:
        return DRAWING[0]
    text = module.read_text(encoding="utf-8")
    if PARSING in text:
        return PARSING
    return ON_SPARK if ON_SPARK in text and SESSION in text and KILLING not in text else str(module)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Quick tests are imported and collected once, then run in forks, begun before any library has threads at work."""
    forks = session.config.stash.get(FORKS, None)
    if forks is None:
        return None  # pytest's own loop
    if session.testsfailed:
        forks.stop()
        return None
    begun = forks.begun()
    batches: dict[str, list[int]] = {PARSING: [], DRAWING[0]: []}  # seconds, all others tenths of one
    for index, item in enumerate(session.items):
        if index not in begun:
            batches.setdefault(scope_of(item.path), []).append(index)
    forks.run(filter(None, batches.values()), QUICK_PROCESSES)
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is longest in one process, go on with slow modules, the long room and modules that start
    programs, and let the many quick ones fill what is left, so that the processes end together; among equals the order
    is random."""
    engines.refuse_unfounded(items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    dear = {item.path for item in items if not item.get_closest_marker(QUICK)}

    def rank(item: pytest.Item) -> tuple[bool, ...]:
        path, room = item.path, item.path.parent.name
        first = room in ROOMS_OF_ONE_PROCESS, scope_of(path) == ON_SPARK, path in slow, room in LONG_ROOMS, path in dear
        return tuple(not is_so for is_so in first)

    items.sort(key=rank)
