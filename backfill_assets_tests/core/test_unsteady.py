"""The rules by which a plan is called unsteady, on plans written by hand.

Tested here: `core.unsteady`. Not tested here: plans that Spark really makes (`load.test_steadiness`).
"""

import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.unsteady import is_sparks, unsteady
from backfill_assets_tests.builders import STAGING

RELATION = "+- Relation [entity#1,value#2L,event_date#3] parquet"


def found(*lines: str) -> list[str]:
    plan = "\n".join(["== Analyzed Logical Plan ==", "x: int", *lines, "", "== Optimized Logical Plan =="])
    return [u.expression for u in unsteady(plan, [STAGING])]


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("Project [now() AS x#4]", "now()"),
        ("Filter (value#2L > cast(rand(5) as bigint))", "rand(5)"),
        ("Project [f(value#2L)#9 AS x#4]", "f(value#2L)"),
        (
            "ArrowEvalPython [f(value#2L)#9], [pythonUDF0#10], 200",
            "ArrowEvalPython [f(value#2L)#9], [pythonUDF0#10], 200",
        ),
        ("Sample 0.0, 0.5, false, 1, Bernoulli", "Sample 0.0, 0.5, false, 1, Bernoulli"),
        ("Aggregate [entity#1], [last(value#2L, false) AS x#4]", "last(value#2L, false)"),
    ],
)
def test_it_is_named(line: str, expression: str) -> None:
    assert found(line, RELATION) == [expression]


def test_an_order_is_total_where_it_holds_the_key_of_an_input_and_its_day() -> None:
    window = "Window [row_number() windowspecdefinition({}, specifiedwindowframe(RowFrame, a, b)) AS n#4], [x#1]"
    assert found(window.format("event_date#3, entity#1 ASC NULLS FIRST"), RELATION) == []
    assert found(window.format("entity#1 ASC NULLS FIRST"), RELATION) == [
        "row_number() OVER (entity#1 ASC NULLS FIRST)"
    ]


def test_the_time_that_decides_the_day_of_a_table_stands_for_it() -> None:
    columns = (
        Column("seq", "BIGINT", "n"),
        Column("arrival_ts", "TIMESTAMP", "t"),
        Column("arrival_date", "DATE", "d"),
    )
    raw = Contract("raw", "r", columns, "arrival_date", ("seq",), ())
    plan = "\n".join([
        "== Analyzed Logical Plan ==", "x: int", "GlobalLimit 1", "+- Sort [{} ASC], true",
        "   +- Relation [seq#1L,arrival_ts#2] parquet", "", "== Optimized Logical Plan ==",
    ])  # fmt: skip
    assert unsteady(plan.format("arrival_ts#2 ASC, seq#1L"), [raw]) == []
    assert unsteady(plan.format("seq#1L"), [raw])


def test_sums_of_doubles_depend_on_the_order_of_rows_and_sums_of_decimals_do_not() -> None:
    paid = Contract("paid", "p", (Column("total", "DOUBLE", "t"), Column("day", "DATE", "d")), "day", ("day",), ())
    plan = "\n".join([
        "== Analyzed Logical Plan ==", "x: double", "Aggregate [day#2], [day#2, {} AS x#3]",
        "+- Relation [total#1,day#2] parquet", "", "== Optimized Logical Plan ==",
    ])  # fmt: skip
    assert [u.expression for u in unsteady(plan.format("sum(total#1)"), [paid])] == ["sum(total#1)"]
    assert unsteady(plan.format("sum(cast(total#1 as decimal(38,6)))"), [paid]) == []
    assert unsteady(plan.format("max(total#1)"), [paid]) == []


RELATION, VALUE = "+- Relation [entity#1,value#2L,event_date#3] parquet", "cast(value#2L as double)"


@pytest.mark.parametrize(
    "call",
    [
        f"stddev({VALUE})", f"sum(({VALUE} / cast(3 as double)))", f"avg(sqrt({VALUE}))", f"corr({VALUE}, {VALUE})",
        f"regr_slope({VALUE}, {VALUE})", "histogram_numeric(value#2L, 3, 0, 0)", f"try_sum({VALUE})",
        f"try_avg({VALUE})", "sum(log(2, value#2L))", f"sum((cast(1 as decimal(10,0)) * {VALUE}))",
    ],
)  # fmt: skip
def test_sums_of_computed_doubles_are_unsteady_whatever_the_inputs_types_are(call: str) -> None:
    assert found(f"Aggregate [entity#1], [entity#1, {call} AS s#4]", RELATION) == [call]


@pytest.mark.parametrize(
    "call",
    [
        "sum(value#2L) AS s#4L", "avg(value#2L) AS s#4", f"sum(cast({VALUE} as decimal(18,6))) AS s#4",
        f"sum(CASE WHEN ({VALUE} > 0.5) THEN 1 ELSE 0 END) AS s#4L", f"max(sqrt({VALUE})) AS s#4",
        f"coalesce(sum(CASE WHEN ({VALUE} > 0.5) THEN 1 ELSE 0 END), 0) AS s#4L",
        f"sum(floor(sqrt({VALUE}))) AS s#4L", f"count({VALUE}) AS s#4L",
    ],
)  # fmt: skip
def test_sums_of_whole_numbers_and_decimals_are_steady_whatever_is_computed_before(call: str) -> None:
    assert found(f"Aggregate [entity#1], [entity#1, {call}]", RELATION) == []


def test_a_double_is_followed_through_the_columns_that_are_made_of_it() -> None:
    ratio = f"Project [entity#1, ({VALUE} / cast(3 as double)) AS ratio#5]"
    renamed = "+- Project [entity#1, ratio#5 AS r#6]"
    below = [renamed, f"   +- {ratio}", f"      {RELATION}"]
    assert found("Aggregate [entity#1], [entity#1, sum(r#6) AS s#7]", *below) == ["sum(r#6)"]
    cast = "+- Project [entity#1, cast(ratio#5 as decimal(18,6)) AS ratio#6]"
    assert found("Aggregate [entity#1], [entity#1, sum(ratio#6) AS s#7]", cast, *below[1:]) == []
    days = "+- Aggregate [entity#1], [entity#1, avg(value#2L) AS a#5]"
    assert found("Aggregate [1], [sum(a#5) AS s#7]", days, f"   {RELATION}") == ["sum(a#5)"]


def test_rows_that_were_joined_since_are_no_longer_one_per_group() -> None:
    limit, sort = "GlobalLimit 1", "+- Sort [value#2L ASC], true"
    grouped = "Aggregate [value#2L], [value#2L]"
    assert found(limit, sort, f"   +- {grouped}", "      +- Relation [value#2L] parquet") == []
    joined = [
        "   +- Join Inner",
        f"      :- {grouped}",
        "      :  +- Relation [value#2L] parquet",
        "      +- Relation [a#9] x",
    ]
    assert found(limit, sort, *joined) == [limit]


def test_what_is_no_plan_has_nothing_unsteady() -> None:
    assert unsteady("", []) == []


@pytest.mark.parametrize("name", ["bround", "variant_get", "st_area", "time_diff", "rank", "hll_union", "xpath_int"])
def test_a_function_of_sparks_is_known(name: str) -> None:
    assert is_sparks(name)


@pytest.mark.parametrize("name", ["my_own", "rand", "hll_sketch_agg", "read_files", "st"])
def test_any_other_may_be_somebodys_own(name: str) -> None:
    assert not is_sparks(name)
