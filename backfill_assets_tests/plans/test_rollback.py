"""A plan's chunk goes back through all its tables, days of a table to a version; whoever wrote
since is not undone. Not here: files and commits (`kernel.tables.test_restore`)."""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.plans.files import keep_plan, only_runner
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.rollback import (
    RollbackRequest,
    preview_rollback,
    release_days,
    roll_back,
)
from backfill_assets_tests.builders import day, write_rows
from backfill_assets_tests.files import publish_by_hand
from backfill_assets_tests.logs import read_commit
from backfill_assets_tests.planned import BUILT, Planned

pytestmark = pytest.mark.usefixtures("storages")
SAID = Provenance("", tags={"by": "ann@desk"})
SECOND = RollbackRequest(plan="p1", chunk="2", note="off by one")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """Eight days of ones; then chunk 1 of plan p1 wrote twos on days 1 and 2, chunk 2 threes on
    days 3 and 4."""
    found = Planned(tmp_path / "lake")
    found.chunk(1, (1, 2), 2)
    found.chunk(2, (3, 4), 3)
    return found


def span(first: int, last: int) -> DayRange:
    return DayRange(day(first), day(last) + ONE_DAY)


def test_a_chunk_goes_back_through_all_its_tables_and_nothing_else_moves(made: Planned) -> None:
    report = roll_back(made.lake, made.pipeline, SECOND, SAID)
    assert [(t.contract.name, t.version) for t in report.tables] == [
        ("staging", 4),
        ("features", 4),
    ]
    for table in ("staging", "features"):
        assert made.values(table) == [1, 2, 2, 1, 1, 1, 1, 1]
        assert made.of(table, State.HELD) == [day(3), day(4)]
        said = read_commit(made.lake.table_place(table), 4).receipt
        assert said is not None
        assert said.tags["by"] == "ann@desk"
        assert (said.tags["plan"], said.tags["chunk"], said.note) == ("p1", "2", "off by one")
    assert not roll_back(made.lake, made.pipeline, SECOND, SAID).tables, (
        "once more, nothing is to be done"
    )


def test_days_downstream_that_were_made_from_the_chunk_are_listed_and_then_stale(
    made: Planned,
) -> None:
    made.write("features", {5: 3, 6: 3})  # their windows reach into the chunk
    report = preview_rollback(made.lake, made.pipeline, SECOND)
    assert report.stale == {"features": {day(5), day(6)}}
    roll_back(made.lake, made.pipeline, SECOND, SAID)
    assert made.of("features", State.STALE)[-2:] == [day(5), day(6)]
    assert not {day(3), day(4)} & rebuild_needs(made.states(), {}).needed["features"], (
        "held days are left alone"
    )


def test_a_chunk_released_and_redone_goes_back_to_before_it_was_redone(made: Planned) -> None:
    roll_back(made.lake, made.pipeline, SECOND, SAID)
    assert release_days(made.lake, made.pipeline, SECOND, SAID) == dict.fromkeys(
        ("staging", "features"), (day(3), day(4))
    )
    assert made.of("staging", State.HELD) == []
    assert made.view("staging").latest[day(3)].entry == made.view("staging").latest[day(3)].entry
    made.chunk(2, (3, 4), 5)
    assert made.values("staging")[3:5] == [5, 5]
    roll_back(made.lake, made.pipeline, SECOND, SAID)
    assert made.values("staging")[3:5] == [1, 1]


def test_days_of_one_table_go_back_to_a_version_and_a_rollback_back_to_before_it(
    made: Planned,
) -> None:
    asked = RollbackRequest(table="staging", days=span(1, 4), to_version=1)
    roll_back(made.lake, made.pipeline, asked, SAID)
    assert made.values("staging") == [1] * 8
    assert made.values("features") == [1, 2, 2, 3, 3, 1, 1, 1]
    again = RollbackRequest(table="staging", days=span(1, 4), to_version=3)
    roll_back(made.lake, made.pipeline, again, SAID)
    assert made.values("staging") == [1, 2, 2, 3, 3, 1, 1, 1]


@pytest.mark.parametrize("by", ["its definition", "its calendar"])
def test_a_day_that_is_left_out_by_now_goes_back_and_is_released_with_its_range(
    made: Planned, by: str
) -> None:
    """Readers see its rows, and no run can make them anew."""
    contract = made.contract("staging")
    less = contract.leaving_out([str(day(2))])
    if by == "its calendar":
        less = replace(contract, calendar=Calendar(left_out_dates=frozenset({day(2)})))
    tables = (
        replace(t, contract=less) if t.contract == contract else t for t in made.pipeline.tables
    )
    made.pipeline = replace(made.pipeline, tables=tuple(tables))
    asked = RollbackRequest(table="staging", days=span(1, 4), to_version=1)
    roll_back(made.lake, made.pipeline, asked, SAID)
    assert made.values("staging") == [1] * 8
    released = release_days(made.lake, made.pipeline, asked, SAID)
    assert released == {"staging": tuple(day(n) for n in range(1, 5))}


def test_columns_of_today_that_the_files_put_back_lack_are_named(made: Planned) -> None:
    contract = made.contract("staging")
    columns = [replace(c, name="amount") if c.name == "value" else c for c in contract.columns]
    renamed = replace(contract, columns=tuple(columns))
    publish_by_hand(
        made.lake, renamed, [{"entity": "A", "amount": 1, "event_date": day(1)}], digest="renamed"
    )
    tables = tuple(
        replace(t, contract=renamed) if t.name == "staging" else t for t in made.pipeline.tables
    )
    asked = RollbackRequest(table="staging", days=span(1, 1), to_version=1)
    [line, *_] = preview_rollback(
        made.lake,
        replace(made.pipeline, tables=tables),
        asked.model_copy(update={"over_newer": True}),
    ).lines()
    assert line.endswith("; these files lack amount: readers refuse the days")


def test_days_that_somebody_else_wrote_since_are_refused_unless_told(made: Planned) -> None:
    made.write("staging", {4: 9}, "run-late")
    before = made.view("features").version
    with pytest.raises(BackfillError, match="written since by another run"):
        preview_rollback(
            made.lake,
            made.pipeline,
            RollbackRequest(table="staging", days=span(3, 4), to_version=2),
        )
    with pytest.raises(
        BackfillError,
        match=rf"{day(4)} written since by another run: .* version 4 \(test, run run-l",
    ):
        roll_back(made.lake, made.pipeline, SECOND, SAID)
    assert made.view("features").version == before, "no table is put back where one is refused"
    told = RollbackRequest(plan="p1", chunk="2", over_newer=True)
    roll_back(made.lake, made.pipeline, told, SAID)
    assert made.values("staging") == [1, 2, 2, 1, 1, 1, 1, 1]


def test_rows_that_a_foreign_program_wrote_since_are_refused_unless_told(made: Planned) -> None:
    contract = made.contract("staging")
    write_rows(
        made.lake.table_place("staging").local(),
        contract,
        [{"entity": "X", "value": 8, "event_date": day(4)}],
    )
    with pytest.raises(BackfillError, match="a program that leaves no receipt"):
        preview_rollback(made.lake, made.pipeline, SECOND)
    roll_back(
        made.lake, made.pipeline, RollbackRequest(plan="p1", chunk="2", over_newer=True), SAID
    )
    assert made.values("staging") == [1, 2, 2, 1, 1, 1, 1, 1]


def test_what_landed_is_never_put_back(made: Planned) -> None:
    made.write("raw", {3: 4}, plan="p1", chunk="2")
    assert roll_back(made.lake, made.pipeline, SECOND, SAID).untouched == ("raw",)
    assert made.values("raw")[3] == 4
    with pytest.raises(BackfillError, match="what landed is never put back"):
        preview_rollback(
            made.lake, made.pipeline, RollbackRequest(table="raw", days=span(3, 3), to_version=1)
        )


def test_a_rollback_cut_off_between_tables_is_finished_by_the_same_call(
    made: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backfill_assets.plans import restore

    real, calls = restore.restore_partitions, iter(range(2))

    def dies(*args: object) -> int | None:
        if next(calls):
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(restore, "restore_partitions", dies)
        with pytest.raises(KeyboardInterrupt):
            roll_back(made.lake, made.pipeline, SECOND, SAID)
    assert made.values("features")[3:5] == [1, 1], "the last table first"
    assert made.values("staging")[3:5] == [3, 3]
    assert [t.contract.name for t in roll_back(made.lake, made.pipeline, SECOND, SAID).tables] == [
        "staging"
    ]
    assert made.values("staging")[3:5] == [1, 1]


def test_what_the_boundary_chunk_wrote_again_of_a_chunks_days_goes_back_with_the_chunk(
    tmp_path: Path,
) -> None:
    found = Planned(tmp_path / "lake")
    days = DayRange(day(1), day(5))
    plan = make_plan(
        found.lake, found.pipeline, PlanRequest(days, BUILT, Policy(chunk="2d", canary=0))
    )
    keep_plan(found.lake, plan)
    found.chunk(1, (1, 2), 2, plan.id)
    found.chunk(2, (3, 4), 3, plan.id)
    found.chunk(3, (2, 3), 4, plan.id)  # the boundary chunk
    roll_back(found.lake, found.pipeline, RollbackRequest(plan=plan.id, chunk="1"), SAID)
    assert found.values("staging") == [1, 1, 1, 4, 3, 1, 1, 1]
    found.write("staging", {3: 9})
    with pytest.raises(BackfillError, match="written since by another run"):
        preview_rollback(found.lake, found.pipeline, RollbackRequest(plan=plan.id, chunk="2"))


def test_a_plan_that_runs_is_not_put_back_and_a_chunk_put_back_is_released_alone(
    tmp_path: Path,
) -> None:
    found = Planned(tmp_path / "lake")
    request = PlanRequest(DayRange(day(1), day(5)), BUILT, Policy(chunk="2d", canary=0))
    keep_plan(found.lake, plan := make_plan(found.lake, found.pipeline, request))
    found.chunk(1, (1, 2), 2, plan.id)
    found.chunk(2, (3, 4), 3, plan.id)
    whole = RollbackRequest(plan=plan.id)
    with (
        only_runner(found.lake, plan),
        pytest.raises(
            BackfillError,
            match=r"another process is running it\. Nothing was put back\. Stop it first",
        ),
    ):
        roll_back(found.lake, found.pipeline, whole, SAID)
    roll_back(found.lake, found.pipeline, whole, SAID)
    released = release_days(
        found.lake, found.pipeline, RollbackRequest(plan=plan.id, chunk="2"), SAID
    )
    assert released == dict.fromkeys(BUILT, (day(3), day(4))), "as a run that meets held days says"


def test_plans_tables_and_holds_that_are_none_are_told_apart(made: Planned) -> None:
    for asked, told in (
        (RollbackRequest(plan="p2"), "the plan p2: no receipt names it"),
        (RollbackRequest(plan="p1", chunk="7"), "the plan p1, chunk 7: no receipt names it"),
        (RollbackRequest(table="nix", days=span(1, 1), to_version=1), "there is no such table"),
        (RollbackRequest(table="staging", days=span(1, 1), to_version=99), "no version 99"),
    ):
        with pytest.raises(BackfillError, match=told):
            preview_rollback(made.lake, made.pipeline, asked)
    with pytest.raises(BackfillError, match="none of its days is held"):
        release_days(made.lake, made.pipeline, SECOND, SAID)
