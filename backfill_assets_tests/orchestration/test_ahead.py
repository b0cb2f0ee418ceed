"""Which tables a run begins ahead: those it selects, whose inputs it will not write any more, and no other.

Tested here: `orchestration.ahead` without an engine. Not tested here: threads and the hand-over (`load.test_ahead`).
"""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.lake.model import Table
from backfill_assets.load.ahead import Ahead
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.orchestration.ahead import NextTables, forced
from backfill_assets_tests.load.test_ahead import ask
from backfill_assets_tests.operations.synthetic import synthetic_lake

FORWARD = ("features", "features_as_known", "labels", "training")


class Noting(Ahead):
    """Notes what is to be begun, and how many cores are busy beside it."""

    def __init__(self) -> None:
        super().__init__(2)
        self.asked: list[str] = []
        self.beside = 0

    def begin(self, request: RebuildRequest, beside: int = 0) -> bool:
        self.asked.append(request.table.name)
        self.beside = beside
        return True


def begun(tmp_path: Path, planned: Sequence[str], before: Sequence[str], now: str, *, published: bool) -> list[str]:
    made, ahead = synthetic_lake(tmp_path / "lake", 2), Noting()

    def asked(table: Table) -> RebuildRequest:
        return ask(made, table.name)

    coming = NextTables(made[1], planned, ahead, asked)
    for name in (*before, now):
        coming.turn_of(name)
    coming.begin("" if published else now)
    assert ahead.beside == (0 if published or not ahead.asked else 1)
    return ahead.asked


@pytest.mark.parametrize(
    ("planned", "before", "now", "published", "expected"),
    [
        (("raw", "staging", *FORWARD), (), "raw", False, []),
        (("raw", "staging", *FORWARD), (), "raw", True, ["staging"]),
        (("raw", "staging", *FORWARD), ("raw",), "staging", True, ["features", "features_as_known"]),
        (FORWARD, (), "features", False, ["features_as_known"]),
        (FORWARD, ("features",), "features_as_known", False, []),
        (FORWARD, ("features",), "features_as_known", True, ["labels"]),
        (FORWARD, ("features", "features_as_known"), "labels", True, ["training"]),
        (("features", "training"), (), "features", False, ["training"]),
        (("raw", "features"), (), "raw", False, []),
        (("raw", "features"), (), "raw", True, ["features"]),
        (("raw",), (), "raw", True, []),
    ],
)
def test_the_next_tables_are_those_whose_inputs_are_as_they_will_be(
    tmp_path: Path, planned: Sequence[str], before: Sequence[str], now: str, *, published: bool, expected: list[str]
) -> None:
    assert begun(tmp_path, planned, before, now, published=published) == expected


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_a_step_that_fails_or_is_stopped_drops_what_was_begun(tmp_path: Path, error: type[BaseException]) -> None:
    _, pipeline = synthetic_lake(tmp_path / "lake", 2)
    closed: list[bool] = []

    class Closing(Ahead):
        def close(self) -> None:
            closed.append(True)

    coming = NextTables(pipeline, FORWARD, Closing(2), lambda _: pytest.fail("nothing is asked"))
    with pytest.raises(error), coming.dropped_on_failure():
        raise error
    with coming.dropped_on_failure():
        pass
    assert closed == [True]


def test_a_table_is_forced_where_its_own_step_is_configured_so() -> None:
    config = {"ops": {"make_features": {"config": {"force": True}}, "make_labels": {}}}
    run = dg.DagsterRun("rebuild", run_config=config)
    assert forced(run, "features")
    assert not forced(run, "labels")
    assert not forced(run, "training")
    assert not forced(dg.DagsterRun("rebuild"), "features")
