"""The way of a day from a command to its commit: how often the lake is looked at.

Tested here: one command of a person and its run in this process, followed by a profiler. Not tested here: what the
files of logs cost (`test_opened_logs`), and each stop of the way.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest

import backfill_assets
from backfill_assets.lake.home import Lake
from backfill_assets.lake.view import read_view
from backfill_assets.load.derived import build
from backfill_assets.load.raw import load
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import backfill, content, delivery, land, make_lake

pytestmark = pytest.mark.usefixtures("spark")

PACKAGE = f"{Path(backfill_assets.__file__).parent}/"
DAYS = [f"2024-03-0{n}" for n in range(1, 5)]
AT_MOST = 2  # whole looks of a command and its run, at its beginning and its end; a fence looks besides


@pytest.fixture(scope="module")
def made(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Four days of all tables."""
    rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
    lake = make_lake(tmp_path_factory.mktemp("way") / "lake", rows, DAYS[0])
    backfill(lake, DAYS[0], DAYS[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(make_home(tmp_path_factory.mktemp("home"))))
        yield lake


@contextmanager
def followed(meanwhile: Callable[[CodeType], None] = lambda _: None) -> Iterator[list[CodeType]]:
    """The code of each function of the package that this thread enters in the block; `meanwhile` is called with it."""
    entered: list[CodeType] = []

    def follow(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.append(frame.f_code)
            meanwhile(frame.f_code)

    sys.setprofile(follow)
    try:
        yield entered
    finally:
        sys.setprofile(None)


def test_a_command_and_its_run_look_at_the_lake_at_their_beginning_and_at_their_end(made: Lake) -> None:
    with followed() as entered:
        result = run("backfill", "--from", DAYS[1], "--to", DAYS[1], "--force", "--lake", made.root)
    assert result.exit_code == 0, result.output
    assert [entered.count(of.__code__) for of in (load, build)] == [1, 5], "else nothing was followed"
    assert entered.count(read_view.__code__) <= AT_MOST


def test_what_lands_and_is_loaded_in_the_middle_of_a_run_is_stale_after_it(made: Lake) -> None:
    """Each table of the run is made from what the run found: no receipt claims to know the late row."""
    built = iter(range(3))

    def meanwhile(code: CodeType) -> None:
        if code is build.__code__ and next(built) == 1:
            land(made, "late.jsonl", [delivery(9, f"{DAYS[3]} 23:00:00", f"{DAYS[1]} 10:00:00", "late")])
            backfill(made, DAYS[3], DAYS[3], ["raw"])

    asked = ("--from", DAYS[1], "--to", DAYS[1], "--force", "--tables", "staging,features,labels")
    with followed(meanwhile):
        assert run("backfill", *asked, "--lake", made.root).exit_code == 0
    assert next(built, None) is None, "else nothing landed meanwhile"
    assert _states(made)["staging"] == "stale"
    assert run("catch-up", "--lake", made.root).exit_code == 0
    assert set(_states(made).values()) == {"fresh"}
    assert ("late",) in {row[:1] for row in content(made, "staging")}


def _states(lake: Lake) -> dict[str, str]:
    """The state of the run's day, by table."""
    told = read(run("status", "--from", DAYS[1], "--to", DAYS[1], "--json", "--lake", lake.root))
    return {day["table"]: day["state"] for day in told["days"]}
