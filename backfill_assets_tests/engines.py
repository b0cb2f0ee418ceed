"""Which engine the lakes of a test are on: Sail, which starts in a second, or Spark, which users have by default.

Lives here: the one rule, the marker `on_spark` that keeps a module on Spark and says why, and the sessions of this
process on either. Does not live here: the fixtures (`conftest.py`), and tests that name their engine themselves.

A test that needs an engine takes a fixture of `conftest.SPARK_FIXTURES`, and is on Sail wherever this machine can keep
Sail to one user. With BACKFILL_ASSETS_TESTS_ENGINE=spark, the full run, every test is on Spark.
"""

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.engine.confs import SAIL, EngineSettings
from backfill_assets.engine.private_network import why_not

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS_ENGINE = "BACKFILL_ASSETS_TESTS_ENGINE"
SPARK = "spark"
ON_SPARK = "on_spark"
OF_LAKES = "BACKFILL_ASSETS__SPARK__ENGINE"  # of every lake that this process, or one that it starts, opens
FOR_SAIL = "SPARK_CONNECT_MODE_ENABLED"  # whom pyspark's functions work for: a process may have sessions of both kinds
CLASSIC = EngineSettings("local[2]", memory="2g")
QUICK = EngineSettings(SAIL, memory="2g", idle_minutes=0.1)


@cache
def why_spark() -> str:
    """Why even the tests that could be on Sail are on Spark; empty where they are on Sail."""
    wanted = os.environ.get(TESTS_ENGINE, SAIL)
    if wanted not in (SAIL, SPARK):
        raise pytest.UsageError(
            f"{TESTS_ENGINE}={wanted} is no engine of the tests. Nothing was run. Say sail or spark"
        )
    return f"{TESTS_ENGINE}={wanted}" if wanted == SPARK else why_not()


def refuse_unfounded(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError for the marker without a reason, or on a part of a module only: fixtures of a module are made
    once, on the engine of whoever asks first."""
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
            f"{item.nodeid} {told}. Nothing was run. Say pytestmark = pytest.mark.{ON_SPARK}('why') in a module all of "
            "whose tests with an engine are about Spark itself"
        )


def choose(item: pytest.Item, why: Callable[[], str] = why_spark) -> None:
    """Let the lakes of the test be on its engine, in this process and in those that it starts."""
    on_sail = item.get_closest_marker(SPARK) and not item.get_closest_marker(ON_SPARK) and not why()
    for name, value in ((OF_LAKES, SAIL), (FOR_SAIL, "1")):
        if on_sail:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


class Sessions:
    """The one session of this process on either engine, which every lake of the tests shares; opened when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: dict[str, SparkSession] = {}

    def on(self, settings: EngineSettings) -> "SparkSession":
        """The session, in a folder of its own, which stands for every lake's."""
        from backfill_assets.engine.session import open_session

        folder = self.folder / settings.engine
        folder.mkdir(exist_ok=True)
        self.open[settings.engine] = session = open_session(folder, settings)
        return session

    def of_lake(self, lake: Path, settings: EngineSettings) -> "SparkSession":
        """In place of `open_session`: a server for each of hundreds of small lakes would cost a second each."""
        from backfill_assets.engine.session import open_session

        return self.on(QUICK) if settings.engine == SAIL else open_session(lake, settings)

    def close(self) -> None:
        """Stop what was opened; Sail's server first, which pyspark would ask for leave."""
        from backfill_assets.engine.server import stop_server
        from backfill_assets.engine.session import drop_session

        if SAIL in self.open:
            drop_session(self.folder / SAIL)
            stop_server(self.folder / SAIL, force=True)
        if classic := self.open.get(CLASSIC.engine):
            classic.stop()
