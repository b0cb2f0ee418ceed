"""Each guide does what it says: every line of its bash blocks runs, and what is shown below them
comes out.

Lives here: the blocks of each guide, run from an empty folder as a reader would. Does not live
here: blocks that a test cannot run (`console`), settings, SQL and links (`test_guides`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.learn.practice_command import guide_files
from backfill_assets_tests.end_to_end.steps import differs, run_steps, steps_of
from backfill_assets_tests.engine_choice import environ_of_turn, is_between_turns, of_today
from backfill_assets_tests.stores import StoreServer

pytestmark = pytest.mark.users_do
STEPS = {
    name: steps
    for name, path in guide_files().items()
    if (steps := steps_of(path.read_text("utf-8")))
}
# About Spark's servers and engines elsewhere, or with functions that Sail refuses by name.
SPARK_ONLY = {"buckets", "full-dumps", "servers", "tables-of-others", "your-spark"}


@pytest.fixture
def spark_server(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; the servers of the lakes that are made in it are stopped at the end."""
    folder = tmp_path / "empty"
    folder.mkdir()
    yield folder
    for settings in folder.rglob(FILE_NAME):
        stop_server(settings.parent, force=True)


@pytest.fixture
def around(name: str, request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The environment of a guide: its engine, and for a lake in a bucket what reaches a store with
    the bucket that it names."""
    engine = {} if name in SPARK_ONLY else environ_of_turn(name)
    if name != "buckets":
        return engine
    server: StoreServer = request.getfixturevalue("moto_server")
    server.new_bucket("my-bucket")
    return {**engine, **server.environment}


@pytest.mark.slow
@pytest.mark.parametrize("name", of_today(STEPS))
def test_every_command_of_a_guide_shows_what_it_says(
    spark_server: Path, name: str, around: Mapping[str, str]
) -> None:
    forked = name not in SPARK_ONLY and is_between_turns(name)
    printed = run_steps(STEPS[name], spark_server, around, all_printed=True, forked=forked)
    told = {
        s.commands: differs(s.shown, p)
        for s, p in zip(STEPS[name], printed, strict=True)
        if s.shown is not None
    }
    assert {commands: lines for commands, lines in told.items() if lines} == {}
