"""How the suite is spread over processes of xdist's.
Here: over how many, what belongs together, what begins first. Not here: which test is quick
(`conftest.py`)."""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets_tests import engine_choice as engines

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

QUICK = "quick"
GARBAGE = (300_000, 20, 50)  # objects, then how often for older ones
LONG_ROOMS = frozenset({"end_to_end", "browser"})
ROOMS_OF_ONE_PROCESS = frozenset({"browser"})  # its modules share a site; it is the longest
# Modules that say so share the syntax trees of all files.
PARSING = "backfill_assets_tests.sources import"
# Modules on the Spark server of their process share its JVM: three would start, load and warm up
# the same. Not what kills JVMs.
ON_SPARK, SESSIONS, KILLING = (
    "mark.on_spark(",
    ('spark: "SparkSession', 'usefixtures("spark")'),
    "it kills JVMs",
)
# Those that ask for the server beside what is long, in a second process: a third one would start a
# third server.
BESIDE = ("spark: object", 'usefixtures("spark", ')
LONGEST = ("test_examples.py", "test_guide_steps.py", "test_readme.py")  # minutes each
DRAWING = (
    "reports/test_lateness_command.py",
    "reports/test_report_page.py",
)  # matplotlib, half a second
# On two cores: servers, daemons and browsers are waited for half of the time. More would not fit a
# laptop's memory; on Spark each process has a server that its tests share, and those of lakes.
PROCESSES, QUICK_PROCESSES = 3, 2
MEMORY, ROOM_BYTES = (
    Path("/dev/shm"),
    1 << 30,
)  # a folder in memory of Linux; all quick tests together write less


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays until the end: no collection of garbage looks at it, now
    or later.

    It is let go at the very end, where libraries look for what they left and take what is frozen
    for lost. Tests make little garbage in circles: looking for it as often as Python does by
    default takes a twelfth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()
        atexit.register(gc.unfreeze)


def end_at_once(config: pytest.Config) -> None:
    """A process of xdist's is ended by the system, after all that others registered for its end: to
    free a million objects one by one takes five seconds of CPU, and nobody asks for its exit code.
    To be called before tests are imported, because what was registered first is called last."""
    if hasattr(config, "workerinput"):
        own = os.getpid()
        atexit.register(lambda: os._exit(0) if os.getpid() == own else None)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Plain `pytest` leaves out what users do and what is long. Folders, and so the whole suite, run in several
    processes, whole modules in each; named files and tests in one.

    `-n` and `--pdb` win over it. What quick tests write is in memory where that is as large.
    """
    option = config.option
    engines.select(config)
    named, is_quick = any(".py" in arg for arg in config.args), option.markexpr == QUICK
    if is_quick and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        tempfile.tempdir = str(MEMORY)  # pytest's folders, too
    if getattr(option, "numprocesses", 0) is None and not (
        named or option.usepdb or hasattr(config, "workerinput")
    ):
        option.numprocesses = QUICK_PROCESSES if is_quick else PROCESSES
        option.dist = "loadscope"
        # It would begin with the many quick tests, and wait for a long one at the end.
        option.loadscopereorder = False


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
    """The name of what goes to one process: equal for modules that share what is dear to start, or
    to parse."""
    room = module.parent
    if room.name in ROOMS_OF_ONE_PROCESS:
        return str(room)
    if f"{room.name}/{module.name}" in DRAWING:
        return DRAWING[0]
    text = module.read_text(encoding="utf-8")
    if PARSING in text:
        return PARSING
    if ON_SPARK not in text or KILLING in text:
        return str(module)
    if any(session in text for session in SESSIONS):
        return ON_SPARK
    return BESIDE[0] if any(asked in text for asked in BESIDE) else str(module)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what is longest in one process, go on with slow modules, the long room and modules
    that start programs, and let the many quick ones fill what is left, so that the processes end
    together; among equals the order is random."""
    engines.refuse_unfounded(items)
    others = [item for item in items if not engines.is_of_today(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = filter(engines.is_of_today, items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    dear = {item.path for item in items if not item.get_closest_marker(QUICK)}

    def rank(item: pytest.Item) -> tuple[bool, ...]:
        path, room = item.path, item.path.parent.name
        scope = scope_of(path)
        first = (
            room in ROOMS_OF_ONE_PROCESS,
            path.name in LONGEST,
            scope == ON_SPARK,
            path in slow,
            room in LONG_ROOMS,
            path in dear,
        )
        return tuple(not is_so for is_so in (*first, scope in (PARSING, DRAWING[0])))

    items.sort(key=rank)
