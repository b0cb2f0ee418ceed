"""SQL freed of its session: whatever the clock, the account or the settings, rows are what the file
says.

Tested here: each form of a text that would become a time of today, names that an engine makes
functions of, and every function that an engine knows. Not tested here: functions that `select`
refuses by name (`test_select`).
"""

from pathlib import Path

import pytest

from backfill_assets.intake.casting import UnfitSelect, exact_cast
from backfill_assets.intake.mapping import RAISED, mapped_rows
from backfill_assets.intake.select import select_expressions
from backfill_assets.intake.session_free import (
    NAMES,
    clock_fault,
    guarded_text,
    session_names,
    unknown_session_names,
)
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.unsteady import BARE
from backfill_assets_tests.engine_choice import SparkSession

TYPES = {
    "t": "string",
    "at": "timestamp",
    "d": "date",
    "n": "bigint",
    "odd": "struct<a b:string>",
    "a": "array<string>",
    "times": "array<timestamp>",
    "m": "map<string,string>",
    "s": "struct<t:string,at:timestamp,inner:struct<t:string>>",
}
KNOWN = Path(__file__).with_name("functions_of_engines.txt")
TIMELESS = [
    "10:30:00",
    "T10:30:00",
    "10:30",
    "T10",
    "10:30:00Z",
    "10:30:00+01:00",
    "1:2:3",
    "12:00:00.5 UTC",
    " 10:30",
    "t10",
    "2020-01-01T12:00:00\u2009Z",
    "now",
    "NOW ",
    "today",
    "Tomorrow",
    " yesterday UTC",
]
WITH_DAY = {
    "2024-03-01 10:30:00": 1709289000,
    "2024-03-01": 1709251200,
    " 2024-03-01T10:30:00Z": 1709289000,
    "2024": 1704067200,
    "0999-03-01 00:00:00": -30636662400,
}
SELECT = (
    "'k' AS event_key, {} AS event_ts, 'upsert' AS op, '' AS entity, 1 AS value, 0 AS flag, 1L AS "
    "seq"
)


def seconds(spark: "SparkSession", expression: str, texts: list[str]) -> list[int | None]:
    """What an expression over the text `t` gives for each of these, in seconds since 1970."""
    frame = spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i int, t string")
    made = frame.selectExpr(
        "i", f"unix_micros({guarded_text(select_expressions(expression)[0], TYPES)}) AS s"
    ).collect()
    return [None if s is None else s // 1_000_000 for _, s in sorted(map(tuple, made))]


@pytest.mark.parametrize(
    "expression", ["cast(t AS timestamp)", "cast(nullif(t, '') AS TIMESTAMP)", "to_timestamp(t)"]
)
def test_a_text_becomes_a_time_only_with_a_day_in_it(
    spark: "SparkSession", expression: str
) -> None:
    assert seconds(spark, expression, [*TIMELESS, *WITH_DAY]) == [None] * len(TIMELESS) + [
        *WITH_DAY.values()
    ]


def test_so_does_a_text_that_is_left_to_the_type_of_its_column(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([(t,) for t in (*TIMELESS, *WITH_DAY)], "t string")
    moment = exact_cast(frame.t, "string", read_type("TIMESTAMP"))
    assert frame.where(moment.isNotNull()).count() == len(WITH_DAY)


@pytest.mark.parametrize(
    "expression",
    [
        "to_utc_timestamp(t, 'Europe/Berlin')",
        "timestampadd(DAY, 1, t)",
        "date_trunc('day', t)",
        "t",
        "coalesce(t, t)",
    ],
)
def test_no_way_from_a_text_to_a_time_ends_today(spark: "SparkSession", expression: str) -> None:
    frame = spark.createDataFrame(
        [("10:30:00", "f", 1)], "t string, __sha256 string, __number bigint"
    )
    rows = mapped_rows(
        frame.selectExpr("*", "t AS _file"), SELECT.format(expression), True, {}
    ).collect()
    assert [r["event_ts"] for r in rows] == [None]


@pytest.mark.parametrize(
    "text",
    [
        "cast(t AS bigint)",
        "cast(at AS timestamp)",
        "cast(n AS timestamp)",
        "to_timestamp(t, 'HH:mm')",
        "t = 'today'",
        "date_trunc('year', at)",
        "lower('now')",
        "at > '2024-01-01'",
        "t > '10:30'",
        "d = t",
        "user",
        "datediff(d, d)",
        "to_utc_timestamp(at, t)",
        "date_format(at, t)",
        "date_trunc(t, at)",
        "nvl2(at, t, t)",
        "array(t, t)",
        "coalesce(at, s.at)",
        "cast(s.at AS timestamp)",
        "a[0] > '10:30'",
        "coalesce(m['x'], t)",
        "to_utc_timestamp(at, '+02:00')",
        "s.t > '10:30'",
        "coalesce(odd.`a b`, t)",
        "coalesce(s.x, at)",
        "decode(t, 'a', at)",
        "CASE t WHEN 'x' THEN at END",
        "concat(at, ' ', t)",
        "coalesce(s, s).at",
        "d - d",
        "array(struct(at, t), struct(at, t))",
        "transform(a, (x, i) -> concat(x, i))",
        "filter(times, x -> x > at)",
        "aggregate(a, '', (x, y) -> concat(x, y))",
        "coalesce(try_to_timestamp(t, 'yyyy'), at)",
        "date_add(t, 1)",
        "map('x', at)['x']",
        "hour(t)",
        "trunc(d, 'MM')",
        "extract(YEAR FROM at)",
        "date_add('2024-01-01', 1)",
    ],
)
def test_what_takes_no_date_from_the_clock_stays_as_written(text: str) -> None:
    assert (guarded_text(text, TYPES), clock_fault(text, TYPES)) == (text, "")


@pytest.mark.parametrize(
    "text",
    [
        "months_between(t, at, true)",
        "months_between(at, t)",
        "dateadd(DAY, 1, t)",
        "date_add(DAY, 1, t)",
    ],
)
def test_an_argument_that_becomes_a_time_is_guarded_beside_others(text: str) -> None:
    assert guarded_text(text, TYPES).count("CASE WHEN") == 1


@pytest.mark.parametrize(
    "text",
    [
        "cast('now' AS timestamp)",
        "TIMESTAMP '10:30:00'",
        "DATE 'today'",
        "year('now')",
        "date_add('today', 1)",
        "at > '10:30:00'",
        "at > t",
        "at BETWEEN '2024-01-01' AND 'now'",
        "t + INTERVAL '1' DAY",
        "coalesce(at, t)",
        "from_json(t, 'a timestamp').a",
        "cast(array(t) AS array<timestamp>)",
        "if(n = 1, at, t)",
        "d < 'tomorrow'",
        "CASE WHEN n = 1 THEN at ELSE t END",
        "TIMESTAMP_NTZ 'now'",
        "last_day('yesterday')",
        "nvl2(n, at, t)",
        "array(at, t)[1]",
        "equal_null(at, t)",
        "coalesce(s.t, at)",
        "if(n = 1, s.inner.t, at)",
        "S.T + INTERVAL '1' DAY",
        "coalesce(a[0], at)",
        "if(n = 1, m['x'], at)",
        "a[0] + INTERVAL '1' DAY",
        "try_add(t, INTERVAL '1' DAY)",
        "decode(n, 1, t, at)",
        "decode(at, t, 1)",
        "CASE at WHEN t THEN 1 END",
        "at - t",
        "try_subtract(at, t)",
        "get(array(at, a[0]), 1)",
        "map('x', at, 'y', t)['y']",
        "coalesce(struct(at, t), struct(t, at)).col1",
        # functions of arrays and maps
        "concat(array(at), array(t))[1]",
        "array_union(array(at), a)",
        "array_append(array(at), s.t)",
        "sequence(at, t)",
        "array_position(times, t)",
        "array_contains(times, a[0])",
        "map_concat(map(1, at), map(1, t))",
        "aggregate(a, at, (x, y) -> y)",
        "zip_with(times, a, (x, y) -> coalesce(x, y))",
        "transform(a, x -> coalesce(x, at))",
        "filter(a, x -> x > at)",
        "exists(times, x -> x = t)",
        "transform_values(m, (k, v) -> coalesce(v, at))",
        "map_zip_with(map('k', at), m, (k, x, y) -> coalesce(x, y))",
        # words for a day that no row gives
        "date_add(lower('NOW'), 0)",
        "last_day(trim(' today '))",
        "hour(concat('n', 'ow'))",
        "d = concat('to', 'day')",
        "extract(YEAR FROM lower('NOW'))",
        "d < lower('TODAY')",
        "convert_timezone('UTC', 'UTC', lower('NOW'))",
    ],
)
def test_literals_and_conversions_without_a_cast_are_refused(text: str) -> None:
    assert clock_fault(text, TYPES)
    assert clock_fault(f"SELECT {text} AS x FROM raw WHERE n = 1", TYPES)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("date_add(to_date('1970-01-01'), n)", "now"),
        ("add_months(to_date('2024-01-01'), 1)", "today"),
        ("year(to_timestamp('2024-01-01 10:00:00'))", "10:00"),
        ("last_day(try_to_date('2024-01-01'))", "tomorrow"),
    ],
)
def test_a_day_that_a_call_makes_of_a_literal_is_not_the_clock(text: str, word: str) -> None:
    allowed = select_expressions(text)[0]
    assert not clock_fault(allowed, TYPES)
    day = allowed.partition("'")[2].partition("'")[0]
    assert "takes its date from the clock" in clock_fault(allowed.replace(day, word), TYPES)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT at AS x FROM raw UNION ALL SELECT t FROM raw", True),
        ("SELECT n FROM raw WHERE at IN (SELECT t FROM raw)", True),
        ("SELECT n FROM raw WHERE at > (SELECT max(t) FROM raw)", True),
        ("SELECT * FROM raw JOIN (SELECT lower(t) AS u FROM raw) ON u = at", True),
        (
            "WITH a AS (SELECT at, trim(t) AS u FROM raw) SELECT coalesce(at, b.u) AS x FROM a AS "
            "b",
            True,
        ),
        ("SELECT at AS x, t FROM raw UNION ALL SELECT at, t FROM raw", False),
        ("SELECT n FROM raw WHERE t IN (SELECT t FROM raw)", False),
        (
            "WITH a AS (SELECT cast(t AS timestamp) AS u, at FROM raw) SELECT coalesce(at, u) AS "
            "x FROM a",
            False,
        ),
        ("SELECT cast(t AS timestamp) AS t, at FROM raw WHERE at > n", False),
    ],
)
def test_parts_of_a_query_make_no_text_a_time_of_each_other(query: str, told: bool) -> None:
    assert (
        ("makes a time of the text" in clock_fault(query, TYPES))
        is bool(clock_fault(query, TYPES))
        is told
    )


@pytest.mark.parametrize("name", sorted(NAMES - {"grouping__id"}))
@pytest.mark.parametrize("quote", ["", "`"])
def test_a_name_that_no_column_has_is_an_absent_column(
    spark: "SparkSession", name: str, quote: str
) -> None:
    frame = spark.createDataFrame(
        [("2024-03-01", "f", 1, 1)], "t string, __sha256 string, __number bigint, _row bigint"
    )
    select = SELECT.format("cast(t AS timestamp)").replace("''", quote + name + quote)
    if name in BARE and not quote:
        with pytest.raises(SettingsError, match="not decided by the row"):
            mapped_rows(frame, select, True, {})
        return
    (null,) = mapped_rows(
        frame, f"{select}, cast(t AS timestamp) AS arrival_ts", True, {}
    ).collect()
    (told,) = mapped_rows(
        frame, f"{select}, cast(t AS timestamp) AS arrival_ts", False, {}
    ).collect()
    assert (null["entity"], null[RAISED], null["__lacking"]) == (None, "", None)
    assert told["__lacking"] == f"the file lacks the column {name}"


def test_a_column_of_such_a_name_is_read(spark: "SparkSession") -> None:
    frame = spark.createDataFrame(
        [("ada", "f", 1)], "user string, __sha256 string, __number bigint"
    )
    select = SELECT.format("TIMESTAMP '2024-03-01'").replace("''", "user")
    assert session_names(select_expressions(select)) == ("user",)
    (row,) = mapped_rows(
        frame, f"{select}, TIMESTAMP '2024-03-01' AS arrival_ts", True, {}
    ).collect()
    assert row["entity"] == "ada"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT user FROM raw", ["user"]),
        ("SELECT user AS user FROM raw", ["user"]),
        ("SELECT upper(USER) AS user FROM raw WHERE `user` > 'a'", ["USER", "user"]),
        ("SELECT no query (", []),
        ("SELECT entity AS user FROM raw GROUP BY user", []),
        ("WITH a AS (SELECT entity AS user FROM raw) SELECT a.user FROM a", []),
        ("SELECT entity, 'user' FROM raw", []),
        ("SELECT user.entity FROM raw AS user", []),
        ("SELECT user.entity FROM user", []),
        ("SELECT user.entity, user FROM user", ["user"]),
        ("SELECT raw.user FROM raw", []),
    ],
)
def test_names_that_neither_an_input_nor_the_query_gives_are_found(
    query: str, names: list[str]
) -> None:
    assert sorted(unknown_session_names(query, {"entity"})) == names
    assert not unknown_session_names(query, {"entity", "user"})


def test_the_clock_in_a_literal_makes_the_select_unfit(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([("x", "f", 1)], "t string, __sha256 string, __number bigint")
    with pytest.raises(UnfitSelect, match="takes its date from the clock"):
        mapped_rows(frame, SELECT.format("TIMESTAMP 'now'"), True, {})


def test_every_function_of_the_engine_was_looked_at(spark: "SparkSession") -> None:
    """A new one: say in `kernel.core.unsteady` whether a row decides it, try it, and add it to the
    list."""
    known = KNOWN.read_text("utf-8").split()
    assert {r[0] for r in spark.sql("SHOW FUNCTIONS").collect()} - {*known} == set()


def test_variables_of_the_server_are_texts(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([("x",)], "t string")
    (row,) = frame.selectExpr("'${env:HOME}' AS a", "'${system:user.name}' AS b").collect()
    assert tuple(row) == ("${env:HOME}", "${system:user.name}")
