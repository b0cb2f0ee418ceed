"""Each check of the preflight can fail, and such a plan is refused when it is run; moved pins are
named by both values.

Tested here: `plans.preflight` on tables without an engine, and points at which a plan waits. Not
tested here: runs (`plans/test_run.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.kernel.core.calendars import parse_calendar
from backfill_assets.kernel.core.contracts import Contract, Input
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, inclusive_range
from backfill_assets.kernel.core.engines import ENGINE
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.gate_bounds import GateSettings, TableGate
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import SparkSettings
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import keep_plan, past_resumptions, resume_plan, set_mark
from backfill_assets.plans.model import PLAN_REASON, Pins, Plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.preflight import moved_pins, take_pins, usual_parallel
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets.plans.run import run_plan
from backfill_assets_tests.planned import lines_held_back
from backfill_assets_tests.planning import (
    DAYS,
    HandWorker,
    bare_staging,
    good_rows,
    planned,
    versions_of,
    write_by_hand,
)
from backfill_assets_tests.synthetic import Made

pytestmark = pytest.mark.usefixtures("storages")
FIRST = DayRange(DAYS.start, DAYS.start + ONE_DAY)
Spoilt = tuple[str, Pipeline]  # what is told then, and the pipeline of that moment


def an_input_never_made(lake: Lake, pipeline: Pipeline) -> Spoilt:
    return f"never made: staging {DAYS.start}", pipeline


def a_held_day(lake: Lake, pipeline: Pipeline) -> Spoilt:
    write_by_hand(lake, pipeline, FIRST, lambda d: good_rows(d)[:5])
    asked = RollbackRequest(table="staging", days=FIRST, to_version=1)
    roll_back(lake, pipeline, asked, Provenance("", tags={}))
    return f"held: staging {DAYS.start}", pipeline


def a_rerun_with_other_rows(lake: Lake, pipeline: Pipeline) -> Spoilt:
    tags = {ENGINE: "spark 4.2.0"}
    write_by_hand(lake, pipeline, FIRST, good_rows, PLAN_REASON, tags)
    write_by_hand(lake, pipeline, FIRST, lambda d: good_rows(d)[1:], PLAN_REASON, tags)
    return f"staging {DAYS.start} got other rows from the same inputs and code", pipeline


def rows_that_another_program_appended(lake: Lake, pipeline: Pipeline) -> Spoilt:
    path = str(lake.table_place("staging").local())
    rows = DeltaTable(path).to_pyarrow_table(filters=[("event_date", "=", DAYS.start)])
    write_deltalake(path, rows, mode="append")
    return f"staging {DAYS.start}: 30 row(s) repeat a key", pipeline


def a_key_of_most_rows(lake: Lake, pipeline: Pipeline) -> Spoilt:
    gates = GateSettings(tables={"staging": TableGate(max_key_share=0.4, skew="warn")})
    object.__setattr__(lake, "settings", lake.settings.model_copy(update={"gates": gates}))
    skewed = [
        {**row, "entity": "E0"} if n < 17 else row for n, row in enumerate(good_rows(FIRST.start))
    ]
    write_by_hand(lake, pipeline, FIRST, lambda _: skewed)
    told = (
        f"staging by entity (features; NULL apart): 70% of the 30 rows of {DAYS.start} have one key"
    )
    return told, pipeline


def a_file_that_is_gone(lake: Lake, pipeline: Pipeline) -> Spoilt:
    _cut(lake).unlink()
    return "1 file(s) that these days hold are gone or altered, first staging ", pipeline


def a_file_that_was_cut(lake: Lake, pipeline: Pipeline) -> Spoilt:
    _cut(lake)
    return "1 file(s) that these days hold are gone or altered, first staging ", pipeline


def _cut(lake: Lake) -> Path:
    found = lake.table_place("staging").local().rglob("*.parquet")
    file = next(path for path in found if f"event_date={DAYS.start}" in path.parts)
    file.write_bytes(file.read_bytes()[:-1])
    return file


@pytest.mark.usefixtures("storages")
def test_reads_of_consumers_are_tried_and_named_only_where_there_are_some(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    asked, name = (
        PlanRequest(FIRST, ("staging",), Policy(force=True, canary=0)),
        "reads of consumers answer",
    )
    assert name not in {t.name for t in make_plan(lake, pipeline, asked).preflight}
    for column, passes in (("entity", True), ("gone", False)):
        gates = GateSettings(reads=(f"SELECT {column} FROM staging",))
        reading = replace(lake, settings=lake.settings.model_copy(update={"gates": gates}))
        (tick,) = [t for t in make_plan(reading, pipeline, asked).preflight if t.name == name]
        assert (tick.passed, "gone" in tick.told) == (passes, not passes)


@pytest.mark.usefixtures("storages")
@pytest.mark.parametrize(
    ("name", "spoil", "table"),
    [
        ("inputs present", an_input_never_made, "features"),
        ("no day is held", a_held_day, "staging"),
        ("last rerun equal", a_rerun_with_other_rows, "staging"),
        ("keys unique", rows_that_another_program_appended, "staging"),
        ("rollback possible", a_file_that_is_gone, "staging"),
        ("rollback possible", a_file_that_was_cut, "staging"),
        ("keys within max_key_share", a_key_of_most_rows, "features"),
    ],
)
def test_each_answer_can_fail_and_a_run_is_refused_by_its_name(
    tmp_path: Path, name: str, spoil: Callable[[Lake, Pipeline], Spoilt], table: str
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    if table == "staging":
        write_by_hand(lake, pipeline, DAYS, good_rows)
    asked = PlanRequest(FIRST, (table,), Policy(force=True, canary=0))
    passed = {t.name for t in make_plan(lake, pipeline, asked).preflight if t.passed}
    told, pipeline = spoil(lake, pipeline)
    plan = make_plan(lake, pipeline, asked)
    (failed,) = [t for t in plan.preflight if not t.passed]
    assert (failed.name, told in failed.told) == (name, True)
    assert (name in passed) == (table == "staging")
    keep_plan(lake, plan)
    before = versions_of(lake)
    with pytest.raises(BackfillError, match=f"its preflight failed: {name}: "):
        run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline))
    assert versions_of(lake) == before


@pytest.mark.parametrize(
    ("tables", "days"),
    [
        (("features",), "2024-03-01..2024-03-06"),
        (("staging", "features"), "2024-03-01..2024-03-02, 2024-03-05..2024-03-06"),
    ],
)
def test_each_day_of_a_month_that_has_come_must_exist_or_be_made_by_the_plan(
    tmp_path: Path, tables: tuple[str, ...], days: str
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    own = pipeline.table("features")
    by_month = replace(own.contract, inputs=(Input("staging"),), calendar=parse_calendar("month"))
    changed = [replace(t, contract=by_month) if t is own else t for t in pipeline.tables]
    amid = inclusive_range(date(2024, 3, 3), date(2024, 3, 4))
    asked = PlanRequest(amid, tables, Policy(canary=0))
    plan = make_plan(lake, replace(pipeline, tables=tuple(changed)), asked)
    (failed,) = [t for t in plan.preflight if not t.passed]
    assert failed.told.startswith(f"never made: staging {days};")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Policy(chunk="3d", canary=0), "comes in a later chunk than days of labels"),
        (Policy(chunk="month", canary=1), "comes in a later chunk than days of labels"),
        (Policy(chunk="month", canary=0), ""),
    ],
)
def test_the_first_month_of_a_table_comes_before_days_that_read_it(
    tmp_path: Path, policy: Policy, told: str
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    month, changed = parse_calendar("month"), dict[str, Contract]()
    inputs = {"features": Input("staging"), "labels": Input("features", calendar=month)}
    for name, wanted in inputs.items():
        changed[name] = replace(pipeline.table(name).contract, inputs=(wanted,))
    changed["features"] = replace(changed["features"], calendar=month)
    tables = [replace(t, contract=changed.get(t.name, t.contract)) for t in pipeline.tables]
    days = inclusive_range(date(2024, 3, 1), DAYS.last)
    asked = PlanRequest(days, ("staging", *inputs), policy)
    plan = make_plan(lake, replace(pipeline, tables=tuple(tables)), asked)
    wrong = [t.told for t in plan.preflight if not t.passed]
    assert [told in text for text in wrong] == ([True] if told else [])


PINNED = Pins({"staging": "c1"}, {"staging": "s1"}, {"pyspark": "4"}, {"staging": 3})


def test_what_moved_is_named_with_both_values_and_newer_versions_and_other_tables_move_no_pin() -> (
    None
):
    now = replace(PINNED, codes={"staging": "c2"}, packages={"pyspark": "5"})
    assert list(moved_pins(PINNED, now, ("staging",))) == [
        "the code of staging was c1, is c2",
        "pyspark was 4, is 5",
    ]
    now = replace(PINNED, versions={"staging": 9}, codes={"staging": "c1", "features": "new"})
    assert list(moved_pins(PINNED, now, ("staging",))) == []


def test_the_engine_and_its_version_are_pinned_without_its_token(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    states = pipeline.states(read_view(lake, pipeline.contracts))

    def pinned(engine: str) -> Pins:
        spark = lake.settings.spark.model_copy(update={"engine": engine})
        return take_pins(
            replace(lake, settings=lake.settings.model_copy(update={"spark": spark})),
            pipeline,
            states,
        )

    here, other, secret = (
        pinned("embedded"),
        pinned("sc://elsewhere:15002"),
        pinned("sc://e/;token=t0"),
    )
    assert (here.packages["engine"], here.packages["pysail"]) == ("embedded", version("pysail"))
    assert list(moved_pins(here, other, ("staging",))) == [
        "engine was embedded, is sc://elsewhere:15002"
    ]
    assert secret.packages["engine"] == "sc://e/;token=***", "a plan is a file"
    before = Pins({}, {}, {"engine": "sc://e/;token=t0"}, {}, None)  # as plans of before hold it
    assert list(moved_pins(before, secret, ())) == []
    assert list(moved_pins(before, other, ())) == [
        "engine was sc://e/;token=***, is sc://elsewhere:15002"
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return bare_staging(tmp_path)


def run(lake: Made, plan: Plan, **worker: Any) -> tuple[str, list[str]]:
    """Run it by hand; its state then, and the chunks whose gate was passed."""
    by = HandWorker(*lake, **worker)
    state = run_plan(lambda: lake, plan, by).state
    return state, [told for told in by.told if not told.startswith("made")]


@pytest.mark.parametrize(
    ("stop", "stops"),
    [
        ("canary", ["gate 1"]),
        ("chunk", ["gate 1", "gate 2", "gate 3", "gate 4"]),
        (str(DAYS.start + timedelta(5)), ["gate 3"]),
    ],
)
def test_it_waits_at_its_point_until_somebody_resumes_it_with_a_reason(
    lake: Made, stop: str, stops: list[str]
) -> None:
    plan = planned(*lake, stop_after=stop)
    passed = []
    while (done := run(lake, plan))[0] == "waiting":
        passed.append(done[1][-1])
        with pytest.raises(
            BackfillError, match=r"it is waiting \(chunk \d .*its gate passed, --stop-after"
        ):
            run(lake, plan)
        with pytest.raises(
            BackfillError, match=r"It still waits\. Say `backfill-assets plan resume"
        ):
            resume_plan(lake[0], plan, "")
        assert (
            f"plan resume {plan.id} --reason WHY`, then `backfill-assets run"
            in lines_held_back(lake[0])[plan.id]
        )
        resume_plan(lake[0], plan, "looked")
    assert (done[0], passed) == ("finished", stops)
    assert [(r.by, r.reason, f"gate {r.chunk}") for r in past_resumptions(lake[0], plan)] == [
        (whoami(), "looked", gate) for gate in stops
    ]
    other = planned(*lake, stop_after=str(DAYS.start + timedelta(1)), max_parallel=2)
    assert run(lake, other) == ("waiting", ["gate 1", "gate 2", "gate 3"]), (
        "chunks at once are all made before"
    )


def test_a_pause_is_resumed_without_a_reason_and_no_point_is_passed_by_it(lake: Made) -> None:
    plan = planned(*lake, stop_after="canary")
    set_mark(lake[0], plan.id, "paused", "lunch")
    resume_plan(lake[0], plan, "")
    assert [r.chunk for r in past_resumptions(lake[0], plan)] == [None]
    assert run(lake, plan)[0] == "waiting"
    resume_plan(lake[0], plan, "ok")
    resume_plan(lake[0], plan, "again")
    assert len(past_resumptions(lake[0], plan)) == 2, "nothing was held then"


@pytest.mark.parametrize(
    ("stop", "canary", "told"),
    [
        ("canary", 0, "the plan has no canary"),
        ("noon", 1, "'noon' is no point of a plan"),
        ("2031-01-01", 1, "2031-01-01 is none of the days"),
    ],
)
def test_a_point_that_a_plan_has_not_is_refused(
    lake: Made, stop: str, canary: int, told: str
) -> None:
    with pytest.raises(BackfillError, match=told):
        planned(*lake, stop_after=stop, canary=canary)


@pytest.mark.parametrize(
    ("spark", "told"),
    [
        ({"cores": 8, "memory": "2g"}, "2: 8 core(s) allow 4, 2g of the engine's memory 2"),
        ({"cores": 2, "memory": "16g"}, "1: 2 core(s) allow 1, 16g of the engine's memory 16"),
        ({"cores": 16, "memory": "512m"}, "1: 16 core(s) allow 8, 512m of the engine's memory 1"),
        ({"engine": "sc://far:15002"}, "1: cores and memory of sc are not known here"),
    ],
)
def test_chunks_at_once_are_as_many_as_cores_and_memory_allow(
    lake: Made, spark: dict[str, Any], told: str
) -> None:
    most, why = usual_parallel(
        lake[0].settings.model_copy(update={"spark": SparkSettings(**spark)})
    )
    assert (most, why) == (int(told[0]), told)
