"""Which tables widen, and which of their days are then as today's code makes them.

Tested here: `operations.widening` and `maintain --widen` on a lake without an engine. Not tested here: the cast
(`lake.test_widening`), and a payload that widens through the engine (`end_to_end.test_changed_payload`).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.states import Codes, State
from backfill_assets.lake.committer import rewrite_files
from backfill_assets.lake.housekeeping import compare_rows
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.staging import Staged, sweep
from backfill_assets.operations.widening import widen_tables
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.faults import raising_around
from backfill_assets_tests.operations.planned import DAYS, Planned, narrower, with_narrow_staging

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return with_narrow_staging(tmp_path)


def states(made: Planned, table: str) -> set[State]:
    return {made.states().of(table, day(n)) for n in range(DAYS)}


def test_days_that_differ_by_the_type_alone_are_current_and_what_they_feed_stays_fresh(made: Planned) -> None:
    assert states(made, "staging") == {State.OUTDATED}
    assert states(made, "features") == {State.FRESH}
    version = made.view("staging").version
    [found] = widen_tables(made.lake, made.pipeline)
    assert (found.table, dict(found.columns), len(found.current)) == ("staging", {"value": "INT -> BIGINT"}, DAYS)
    assert made.view("staging").version == version, "it only looked"
    [done] = widen_tables(made.lake, made.pipeline, act=True)
    assert done.version == version + 1
    assert states(made, "staging") == {State.FRESH}
    assert states(made, "features") == {State.FRESH}
    assert made.values("staging") == [1] * DAYS
    assert widen_tables(made.lake, made.pipeline) == []


def test_days_of_other_code_are_cast_and_stay_outdated(made: Planned) -> None:
    today, then = made.pipeline, narrower(made.lake)
    made.pipeline = replace(then, codes={**then.codes, "staging": Codes("old", "old")})
    made.write("staging", {3: 9})
    made.pipeline = today
    [done] = widen_tables(made.lake, made.pipeline, act=True)
    assert day(3) not in done.current
    assert made.of("staging", State.OUTDATED) == [day(3)]
    assert made.values("staging")[3] == 9


def test_the_command_shows_first_and_does_it_with_yes(made: Planned) -> None:
    shown = run("maintain", "--widen", on=made)
    assert "staging: value INT -> BIGINT" in shown.stdout
    assert "maintain --widen --yes" in shown.stdout
    assert "by version" in run("maintain", "--widen", "--yes", on=made).stdout
    assert run("maintain", "--widen", on=made).stdout.startswith("No kept file has a narrower type")
    assert run("maintain", "--widen", "--tables", "none", on=made).exit_code == 2


STEPS = [(compare_rows, True), (rewrite_files, False), (rewrite_files, True), (Staged.keep, False)]


@pytest.mark.parametrize(("function", "behind"), STEPS, ids=lambda f: getattr(f, "__name__", str(f)))
def test_stopped_around_any_step_rows_and_receipts_are_whole_and_the_next_call_ends_it(
    made: Planned, function: Callable[..., Any], behind: bool
) -> None:
    """Between any two of its lines it held, too, when that was tried by hand: that takes minutes."""
    with pytest.raises(KeyboardInterrupt), raising_around(function, behind, KeyboardInterrupt):
        widen_tables(made.lake, made.pipeline, act=True)
    assert made.values("staging") == [1] * DAYS
    assert states(made, "staging") in ({State.OUTDATED}, {State.FRESH})
    widen_tables(made.lake, made.pipeline, act=True)
    sweep(made.lake, "staging")  # as the next write does
    found = inspect(made.lake, made.contract("staging"), read=True, deep=True)
    assert (found.absent, found.altered, found.edited, found.lost) == ((), (), (), 0)
    assert (states(made, "staging"), states(made, "features")) == ({State.FRESH}, {State.FRESH})
