"""Tables that stand beside those of a lake until they are published, at once, or thrown away.

Tested here: `operations.candidates` on a lake without an engine. Not tested here: building one by the command
(`end_to_end.test_candidate`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError, DaysHeld
from backfill_assets.core.states import Codes, State
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.candidates import (
    Publication,
    PublishRequest,
    candidate_names,
    create_candidate,
    discard_candidate,
    find_candidate,
    publish,
)
from backfill_assets.operations.maintain import maintain
from backfill_assets.operations.rollback import RollbackRequest, roll_back
from backfill_assets_tests.builders import day
from backfill_assets_tests.operations.planned import BUILT, DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")

NEW_CODE = Codes("code-2", "settings-1")


@dataclass
class Beside:
    """A lake, and a candidate of it (`there`) that builds tables of it by newer code."""

    made: Planned
    there: Planned

    @classmethod
    def of(cls, made: Planned, *own: str) -> "Beside":
        """An empty candidate of some tables."""
        candidate = create_candidate(made.lake, made.pipeline, "v2", own, lambda path: (path,), "newer code")
        return cls._of(made, candidate)

    @classmethod
    def reopened(cls, root: Path) -> "Beside":
        """A lake with its candidate, as another process made them."""
        made = Planned.__new__(Planned)
        made.root = root
        made._open()
        return cls._of(made, find_candidate(made.lake, "v2"))

    @classmethod
    def _of(cls, made: Planned, candidate: Lake) -> "Beside":
        there, own = Planned.__new__(Planned), candidate.own
        there.lake, there.root = candidate, candidate.root
        there.pipeline = replace(made.pipeline, codes={**made.pipeline.codes, **dict.fromkeys(own, NEW_CODE)})
        return cls(made, there)

    def build_all(self, value: int) -> None:
        for table in BUILT:
            self.there.write(table, dict.fromkeys(range(DAYS), value))

    def request(self, deployed: bool = True, **more: Any) -> PublishRequest:
        """A publication; `deployed`: the lake has the candidate's code."""
        pipeline = replace(self.made.pipeline, codes=self.there.pipeline.codes) if deployed else self.made.pipeline
        return replace(PublishRequest(self.made.lake, pipeline, self.there.lake, self.there.pipeline), **more)

    def publish(self, **more: Any) -> Publication:
        return publish(self.request(**more), act=True)


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside.of(Planned(tmp_path / "lake"), *BUILT)


def test_a_candidate_writes_its_own_tables_and_reads_the_others_from_the_lake(beside: Beside) -> None:
    beside.build_all(5)
    assert beside.made.values("staging") == [1] * DAYS, "the lake's own rows are as they were"
    states = beside.there.states()
    assert {states.of(t, day(n)) for t in (*BUILT, "raw") for n in range(DAYS)} == {State.FRESH}
    with pytest.raises(BackfillError, match=r"the table raw: the candidate v2 reads it from the lake"):
        beside.there.write("raw", {0: 1})


def test_publishing_makes_all_days_current_by_one_commit_per_table_and_they_are_fresh(beside: Beside) -> None:
    beside.build_all(5)
    before = {t: beside.made.view(t).version for t in BUILT}
    request = beside.request()
    shown = publish(request, act=False)
    assert beside.made.values("staging") == [1] * DAYS
    assert [(t.table, len(t.days), t.same) for t in shown.tables] == [("staging", DAYS, 0), ("features", DAYS, 0)]
    done = publish(request, act=True)
    assert [(t.table, t.version) for t in done.tables] == [(t, before[t] + 1) for t in BUILT]
    assert {t: beside.made.values(t) for t in BUILT} == dict.fromkeys(BUILT, [5] * DAYS)
    states = request.states()
    assert {states.of(t, day(n)) for t in BUILT for n in range(DAYS)} == {State.FRESH}
    assert publish(request, act=True).tables[0].same == DAYS, "once more, nothing moves"
    assert beside.made.view("staging").version == before["staging"] + 1


def test_a_publication_is_taken_back_as_a_plan_is(beside: Beside) -> None:
    beside.build_all(5)
    done = beside.publish()
    roll_back(beside.made.lake, beside.made.pipeline, RollbackRequest(plan=done.id), Provenance(""))
    assert {t: beside.made.values(t) for t in BUILT} == dict.fromkeys(BUILT, [1] * DAYS)
    with pytest.raises(DaysHeld):
        beside.publish()


def test_it_is_refused_while_the_lake_has_other_code(beside: Beside) -> None:
    beside.build_all(5)
    with pytest.raises(BackfillError, match="code or settings of staging are others in the lake"):
        publish(beside.request(deployed=False), act=False)


def test_it_is_refused_once_an_input_moved_and_goes_on_after_the_day_was_built_again(tmp_path: Path) -> None:
    beside = Beside.of(Planned(tmp_path / "lake"), "features")
    beside.there.write("features", dict.fromkeys(range(DAYS), 5))
    beside.made.write("staging", {DAYS - 1: 7})
    with pytest.raises(BackfillError, match=f"{day(DAYS - 1)} of features are stale there"):
        beside.publish()
    assert beside.made.values("features") == [1] * DAYS
    beside.there.write("features", {DAYS - 1: 6})
    beside.publish()
    assert beside.made.values("features") == [5] * (DAYS - 1) + [6]


def test_a_publication_that_stopped_between_two_tables_goes_on(beside: Beside) -> None:
    beside.build_all(5)
    beside.publish(candidate=replace(beside.there.lake, own=frozenset({"staging"})))
    assert (beside.made.values("staging"), beside.made.values("features")) == ([5] * DAYS, [1] * DAYS)
    done = beside.publish()
    assert [(t.table, t.same) for t in done.tables] == [("staging", DAYS), ("features", 0)]
    assert beside.made.values("features") == [5] * DAYS


def test_chosen_days_alone_are_published_and_days_that_it_lacks_are_refused(beside: Beside) -> None:
    beside.there.write("staging", {1: 5, 2: 5})
    assert beside.publish(days=DayRange(day(1), day(2))).tables[0].days == (day(1),)
    assert beside.made.values("staging")[:3] == [1, 5, 1]
    with pytest.raises(BackfillError, match="it holds no such day"):
        beside.publish(days=DayRange(day(5), day(6)))


def test_published_rows_outlive_the_candidate_and_the_upkeep(beside: Beside) -> None:
    beside.build_all(5)
    beside.publish()
    discard_candidate(beside.made.lake, "v2")
    assert candidate_names(beside.made.lake) == []
    maintain(beside.made.lake, beside.made.pipeline)
    path = beside.made.lake.table_path("staging")
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == DAYS


def test_names_that_are_taken_or_none_and_landed_tables_are_refused(beside: Beside) -> None:
    lake, pipeline = beside.made.lake, beside.made.pipeline

    def create(name: str, *tables: str) -> Callable[[], Lake]:
        return lambda: create_candidate(lake, pipeline, name, tables, lambda path: (path,))

    for attempt, words in (
        (create("v2", "staging"), "it is there already"),
        (create("../x", "staging"), "it is no name"),
        (create("v3", "raw"), "raw is loaded from files"),
        (create("v3", "nowhere"), "no such table"),
    ):
        with pytest.raises(BackfillError, match=words):
            attempt()
    with pytest.raises(BackfillError, match="no such candidate"):
        find_candidate(lake, "v9")


def test_a_candidate_opens_by_its_folder_with_its_tables(beside: Beside) -> None:
    found = open_lake(beside.there.root)
    assert (found.shared, found.own) == (beside.made.lake.root, frozenset(BUILT))
    assert found.table_path("raw") == beside.made.lake.table_path("raw")
    assert found.table_path("staging") == beside.there.root / "tables" / "staging"
