"""Locks of plans: one runner, one maker of a chunk, and the mark of those that ended early.

Tested here: `operations.plan_locks` in one process. Not tested here: locks across processes (`lake.test_lock`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.operations.plan_files import marked
from backfill_assets.operations.plan_locks import is_running, only_runner, telling_stops
from backfill_assets_tests.operations.planning import bare_staging, planned


def test_a_second_runner_is_refused_and_looking_takes_nothing_away(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    assert not is_running(lake, plan)
    with only_runner(lake, plan):
        assert is_running(lake, plan)
        with pytest.raises(BackfillError, match="another process is running it"), only_runner(lake, plan):
            raise AssertionError("two runners")
    assert not is_running(lake, plan)


def test_whoever_ends_early_says_why(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    one, other = planned(lake, pipeline), planned(lake, pipeline)
    with pytest.raises(BackfillError), telling_stops(lake, one):
        raise BackfillError("the gate", "it refused", "Nothing", "Look")
    assert "it refused" in (marked(lake, one.id, "stopped") or "")
    with pytest.raises(KeyboardInterrupt), telling_stops(lake, other):
        raise KeyboardInterrupt
    assert marked(lake, other.id, "stopped") == "it was interrupted"
