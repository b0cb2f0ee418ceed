"""Which engine a test is on: the marker with its reason, the engine of its neighbours, and what its lakes are told.

Lives here: the rule by itself, over tests that are none. Does not live here: that `conftest.py` asks for it (each run).
"""

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from backfill_assets_tests.engines import (
    ALL_BUT_USERS_DO,
    FOR_SERVERS,
    OF_LAKES,
    TESTS_ENGINE,
    choose,
    refuse_unfounded,
    select,
    wants_spark,
)

MODULE, OTHER = Path("test_a.py"), Path("test_b.py")
NEEDS = pytest.mark.spark
SPARKS = pytest.mark.on_spark("it kills JVMs")


@dataclass
class Item:
    """As much of a collected test as the rule looks at."""

    path: Path
    marks: tuple[pytest.MarkDecorator, ...] = ()
    nodeid: str = field(default="test_a.py::test")
    fixturenames: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((m.mark for m in self.marks if m.name == name), None)


def items(*made: Item) -> list[pytest.Item]:
    return cast("list[pytest.Item]", list(made))


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a run in which nobody said an engine."""
    for name in (TESTS_ENGINE, OF_LAKES, FOR_SERVERS):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("bare", [pytest.mark.on_spark, pytest.mark.on_spark("")])
def test_the_marker_says_why(bare: pytest.MarkDecorator) -> None:
    with pytest.raises(pytest.UsageError, match="says no reason"):
        refuse_unfounded(items(Item(MODULE, (NEEDS, bare))))


def test_a_module_is_on_one_engine() -> None:
    refuse_unfounded(items(Item(MODULE, (NEEDS, SPARKS)), Item(OTHER, (NEEDS,)), Item(MODULE)))
    with pytest.raises(pytest.UsageError, match="another engine than its neighbours"):
        refuse_unfounded(items(Item(MODULE, (NEEDS, SPARKS)), Item(MODULE, (NEEDS,))))


def test_lakes_are_on_sail_for_tests_that_only_need_an_engine_where_it_can_be(environ: pytest.MonkeyPatch) -> None:
    chosen = []
    for marks in ((NEEDS,), (NEEDS, SPARKS), ()):
        choose(items(Item(MODULE, marks))[0], partial(str, ""))
        chosen.append((os.environ.get(OF_LAKES), os.environ.get(FOR_SERVERS)))
    assert chosen == [("sail", "1"), (None, None), (None, None)]
    choose(items(Item(MODULE, (NEEDS, SPARKS), fixturenames=("spark",)))[0], partial(str, ""))
    assert (os.environ.get(OF_LAKES), os.environ.get(FOR_SERVERS)) == (None, "1"), "of the server that tests share"


def test_a_machine_without_sail_skips_by_name_what_would_take_hours_on_spark(environ: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"no private network\..*BACKFILL_ASSETS_TESTS_ENGINE=spark"):
        choose(items(Item(MODULE, (NEEDS,)))[0], partial(str, "no private network"))
    choose(items(Item(MODULE, (NEEDS, SPARKS)))[0], partial(str, "no private network"))
    environ.setenv(TESTS_ENGINE, "spark")
    choose(items(Item(MODULE, (NEEDS,)))[0], partial(str, "no private network"))
    assert OF_LAKES not in os.environ


def test_an_engine_that_tests_do_not_know_is_refused(environ: pytest.MonkeyPatch) -> None:
    environ.setenv(TESTS_ENGINE, "flink")
    with pytest.raises(pytest.UsageError, match="is no engine"):
        wants_spark()


def selected(marker: str = "", keyword: str = "", named: bool = False) -> str:
    """What markers a run selects by, and with it the engine of the run."""
    source = pytest.Config.ArgsSource.ARGS if named else pytest.Config.ArgsSource.TESTPATHS
    config = SimpleNamespace(option=SimpleNamespace(markexpr=marker, keyword=keyword), args_source=source)
    select(cast("pytest.Config", config))
    return str(config.option.markexpr)


def test_what_users_do_is_left_out_where_nothing_is_asked_for(environ: pytest.MonkeyPatch) -> None:
    environ.setenv(TESTS_ENGINE, "sail")
    assert selected() == ALL_BUT_USERS_DO
    assert [selected(named=True), selected(keyword="races")] == ["", ""]
    assert selected("slow") == "slow"


def test_what_users_do_is_on_spark_where_it_is_asked_for_and_no_engine_is_named(environ: pytest.MonkeyPatch) -> None:
    environ.setenv(TESTS_ENGINE, "sail")
    assert selected("users_do") == "users_do"
    assert not wants_spark()
    environ.delenv(TESTS_ENGINE)
    assert selected("users_do and not browser") == "users_do and not browser"
    assert wants_spark()
