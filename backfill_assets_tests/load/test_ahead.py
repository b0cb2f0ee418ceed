"""Working ahead: a candidate is handed over only where its step would make the same, and else it leaves nothing.

Tested here: `load.ahead` on a lake without an engine, rows staged by hand in real threads. Not tested here: which
tables a run begins (`orchestration.test_ahead`), and runs on a server (`end_to_end.test_killed`).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.plans import MERGE
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import SparkSettings
from backfill_assets.load.ahead import LARGE_ROWS, MOST_DAYS, MOST_ROWS, Ahead, least_rows
from backfill_assets.load.candidate import PinnedInputs, RebuildRequest, Written
from backfill_assets.load.derived import build, pinned
from backfill_assets.load.phases import Phases
from backfill_assets_tests.files import stage_by_hand
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

SPAN = DayRange(START, START + ONE_DAY * 2)
PROFILES: dict[date | None, DayProfile] = {d: DayProfile() for d in SPAN}


class Engine:
    """Stands for the engine: stages no rows, when it is let, and fails where it is told to."""

    def __init__(self) -> None:
        self.may_write, self.made = threading.Event(), list[Written]()
        self.fails = False
        self.may_write.set()

    def write(self, request: RebuildRequest, states: States, todo: Sequence[date]) -> Written:
        self.may_write.wait()
        if self.fails:
            raise OSError("No space left on device")
        with request.phases.phase("write"):
            staged = stage_by_hand(request.lake_session.lake, request.table.contract, [])
        self.made.append(Written(staged, PROFILES))
        return self.made[-1]


@pytest.fixture
def engine() -> Iterator[Engine]:
    stands_in = Engine()
    yield stands_in
    stands_in.may_write.set()
    for made in stands_in.made:
        made.staged.drop()


@pytest.fixture
def made(tmp_path: Path) -> tuple[Lake, Pipeline]:
    return synthetic_lake(tmp_path / "lake", 2)


def ask(made: tuple[Lake, Pipeline], table: str = "features", *, force: bool = True) -> RebuildRequest:
    lake, pipeline = made
    return RebuildRequest(LakeSession(lake), pipeline, pipeline.table(table), SPAN, Provenance("manual"), force)


def wanted(request: RebuildRequest) -> PinnedInputs:
    return pinned(request, request.states(), list(SPAN))


def left_of(request: RebuildRequest) -> list[Path]:
    writes = request.lake_session.lake.table_path(request.table.name) / "writes"
    return list(writes.iterdir()) if writes.is_dir() else []


def settled(done: Callable[[], bool]) -> None:
    """Wait for a thread that nobody waits for."""
    for thread in threading.enumerate():
        if thread.name.endswith(" ahead"):
            thread.join(60)
    assert done()


def test_a_step_takes_over_what_was_written_from_the_same_and_tells_what_ran_before(
    made: tuple[Lake, Pipeline], engine: Engine
) -> None:
    asked, ahead = ask(made), Ahead(2, engine.write)
    assert ahead.begin(asked)
    candidate = build(replace(asked, ahead=ahead.take))
    assert candidate.staged is engine.made[0].staged
    assert list(asked.phases.ahead) == ["write"]
    assert not {"transform", "write", "audit"} & asked.phases.seconds().keys()
    assert "wait" in asked.phases.seconds()
    candidate.release()
    assert left_of(asked) == []


@pytest.mark.parametrize(
    "other",
    [
        lambda p: replace(p, inputs=tuple((t, v + 1, n) for t, v, n in p.inputs)),
        lambda p: replace(p, ledgers=(7,)),
        lambda p: replace(p, frontier=None),
        lambda p: replace(p, days=p.days[:1]),
        lambda p: replace(p, codes=replace(p.codes, settings_digest="other")),
    ],
)
def test_what_was_written_from_anything_else_is_dropped(
    made: tuple[Lake, Pipeline], engine: Engine, other: Callable[[PinnedInputs], PinnedInputs]
) -> None:
    asked, ahead, phases = ask(made), Ahead(2, engine.write), Phases()
    ahead.begin(asked)
    assert ahead.take(other(wanted(asked)), phases) is None
    settled(lambda: left_of(asked) == [])
    assert phases.ahead == {}
    assert ahead.take(wanted(asked), phases) is None


def test_a_failure_ahead_is_left_to_the_step_which_does_the_work_itself(
    made: tuple[Lake, Pipeline], engine: Engine
) -> None:
    asked, ahead, phases = ask(made), Ahead(2, engine.write), Phases()
    engine.fails = True
    ahead.begin(asked)
    assert ahead.take(wanted(asked), phases) is None
    assert phases.ahead == {}


def test_a_run_that_fails_or_is_stopped_leaves_nothing_of_what_it_began_nor_begins_anything(
    made: tuple[Lake, Pipeline], engine: Engine
) -> None:
    asked, other, ahead = ask(made), ask(made, "features_as_known"), Ahead(2, engine.write)
    ahead.begin(asked)
    settled(lambda: len(engine.made) == 1)
    engine.may_write.clear()
    ahead.begin(other)
    ahead.close()
    assert left_of(asked) == []
    engine.may_write.set()
    settled(lambda: len(engine.made) == 2 and left_of(other) == [])
    assert not ahead.begin(ask(made, "labels"))


def test_an_interrupt_while_a_step_waits_drops_what_it_waited_for(made: tuple[Lake, Pipeline], engine: Engine) -> None:
    asked, ahead = ask(made), Ahead(2, engine.write)
    engine.may_write.clear()
    ahead.begin(asked)

    class Interrupted(Phases):
        def phase(self, name: str) -> "Interrupted":  # type: ignore[override]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ahead.take(wanted(asked), Interrupted())
    engine.may_write.set()
    settled(lambda: left_of(asked) == [])


def test_no_more_is_begun_than_cores_idle_and_a_table_once(made: tuple[Lake, Pipeline], engine: Engine) -> None:
    engine.may_write.clear()
    ahead = Ahead(2, engine.write)
    assert not Ahead(1, engine.write).begin(ask(made), beside=1)
    assert ahead.begin(ask(made), beside=1)
    assert not ahead.begin(ask(made))
    assert not ahead.begin(ask(made, "features_as_known"), beside=1)
    assert ahead.begin(ask(made, "features_as_known"))
    assert not ahead.begin(ask(made, "labels"))
    ahead.close()


def test_a_table_whose_step_has_begun_is_not_begun_any_more(made: tuple[Lake, Pipeline], engine: Engine) -> None:
    ahead = Ahead(2, engine.write)
    ahead.turn_of("features")
    assert not ahead.begin(ask(made))


def with_spark(made: tuple[Lake, Pipeline], **spark: object) -> tuple[Lake, Pipeline]:
    lake, pipeline = made
    settings = lake.settings.model_copy(update={"spark": SparkSettings(**spark)})  # type: ignore[arg-type]
    return replace(lake, settings=settings), pipeline


def test_nothing_is_begun_where_it_would_not_help_or_may_not_be(made: tuple[Lake, Pipeline], engine: Engine) -> None:
    ahead = Ahead(2, engine.write)
    assert not ahead.begin(ask(made, force=False)), "nothing is to be computed"
    assert not ahead.begin(ask(made, "raw")), "it is loaded under a lock"
    assert not ahead.begin(replace(ask(made), mode=MERGE)), "it reads what stands there"
    assert not ahead.begin(ask(with_spark(made, engine="local[2]"))), "the engine is this process"
    assert not ahead.begin(ask(with_spark(made, engine="sc://cluster"))), "the engine is somebody else's"
    assert not Ahead(2, engine.write).begin(ask(with_spark(made, cores=1)), beside=1), "the engine has one core"
    own = replace(ask(made).table, sources=(__name__,))
    assert not ahead.begin(replace(ask(made), table=own)), "code from outside may not be safe in threads"


def with_rows(made: tuple[Lake, Pipeline], table: str, **rows: int) -> RebuildRequest:
    """What is asked of a table, on a lake whose tables have so many rows on each day, as receipts say."""
    view = ask(made).states().view
    tables = dict(view.tables)
    for name, count in rows.items():
        stamps = tables[name].stamps
        many = {d: replace(s, entry=replace(s.entry, rows=count)) for d, s in stamps.items()}
        tables[name] = replace(tables[name], stamps=many)
    return replace(ask(made, table), look=lambda: made[1].states(replace(view, tables=tables)))


def test_tables_are_computed_beside_each_other_where_all_are_small_or_all_large(made: tuple[Lake, Pipeline]) -> None:
    asked = ask(made)
    large = with_rows(made, "features", staging=LARGE_ROWS)
    assert least_rows([asked]) == 0
    assert least_rows([large, replace(large, table=made[1].table("features_as_known"))]) == LARGE_ROWS
    assert least_rows([large, replace(large, table=made[1].table("training"))]) is None, "a small one beside a large"
    assert least_rows([with_rows(made, "features", staging=MOST_ROWS)]) is None
    assert least_rows([asked, replace(asked, days=DayRange(START, START + ONE_DAY * (MOST_DAYS + 1)))]) is None
    assert least_rows([asked, ask(made, "raw")]) is None


def test_whether_tables_are_small_takes_one_look_at_the_lake_for_all_of_them(made: tuple[Lake, Pipeline]) -> None:
    looks = list[str]()

    def look() -> States:
        looks.append("")
        return ask(made).states()

    assert least_rows([replace(ask(made, name), look=look) for name in ("features", "labels", "training")]) == 0
    assert len(looks) == 1
