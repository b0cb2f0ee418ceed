"""The `[source] select` of a lake: only calls of forgiving functions are rewritten, everything else
stays as written.

Tested here: `intake.select`, token by token, and what it may look at. Not tested here: what Spark
makes of the text (`intake.test_deliveries`).
"""

import contextlib

import pytest

from backfill_assets.intake.select import (
    FORGIVING,
    OWN_COLUMNS,
    can_raise,
    refuse_beyond_the_row,
    select_expressions,
    selected_clocks,
    selected_names,
    selected_words,
    with_stars_expanded,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.unsteady import UNDECIDED
from backfill_assets_tests import strategies  # noqa: F401 - the profile of properties

AS_WRITTEN = [
    "seq",
    "'cast(x AS int)' AS note",
    '"cast(x AS int)" AS note',
    "`cast(x)` AS note",
    r"'it\'s cast(x)' AS note",
    "'it''s cast(x)' AS note",
    "cast AS x",
    "now AS x",
    "forecast(x) AS x",
    "try_cast(x AS int) AS x",
    "concat(a, ',', b) AS x",
    "a[f(1, 2)] AS x",
    "coalesce(nullif(trim(a), ''), concat_ws('-', b, c)) AS x",
    "CASE WHEN status IN ('A', 'M') THEN 1 ELSE 0 END AS value",
    "transform(a, x -> x + 1) AS x",
    "größe AS `naïve name`",
    "concat('🙂', name) AS x",
    "a   AS\n\t x",
]
PLAIN = [
    "seq",
    "seq AS seq",
    "`a b` AS entity",
    "'upsert' AS op",
    "0 AS flag",
    "-1 value",
    "cast(at AS timestamp_ntz) AS arrival_ts",
    "cast( cast(n AS double) AS bigint ) AS value",
]
RISKY = [
    "value * 1 AS value",
    "CASE WHEN flag = 1 THEN 1 ELSE 0 END AS flag",
    "nullif(entity, '') AS entity",
    "abs(n) AS value",
    "cast(a + 1 AS int) AS flag",
    "a[1] AS value",
    "m.key AS value",
    "-value AS value",
    "to_timestamp(at, fmt) AS event_ts",
    "INTERVAL '1' DAY AS value",
    "raise_error('x') AS op",
]


@pytest.mark.parametrize(
    ("text", "is_risky"), [*((t, False) for t in PLAIN), *((t, True) for t in RISKY)]
)
def test_columns_literals_and_forgiving_casts_need_no_guard_and_all_else_does(
    text: str, is_risky: bool
) -> None:
    assert can_raise(select_expressions(text)[0]) is is_risky


@pytest.mark.parametrize("text", AS_WRITTEN)
def test_what_needs_no_rewriting_stays_as_written(text: str) -> None:
    assert select_expressions(text) == (text,)


@pytest.mark.parametrize(("name", "forgiving"), FORGIVING.items())
def test_calls_that_would_end_the_job_are_made_to_give_null(name: str, forgiving: str) -> None:
    assert select_expressions(f"{name}(a) AS x") == (f"{forgiving}(a) AS x",)
    assert select_expressions(f"{name.upper()} (a) AS x") == (f"{forgiving} (a) AS x",)


def test_a_list_tells_the_columns_it_gives_and_the_names_it_uses() -> None:
    text = "a AS Event_Key, `b`, cast(_file AS date) `at`, 'c' x"
    assert selected_names(text) == ("event_key", "b", "at", "x")
    assert {"_file", "a"} <= selected_words(text)
    assert "c" not in selected_words(text)
    assert selected_clocks(f"{text}, n AS Seq, a AS arrival_ts") == ("seq", "arrival_ts")


@pytest.mark.parametrize("name", sorted(UNDECIDED))
def test_what_the_row_does_not_decide_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is not decided by the row"):
        select_expressions(f"a, concat(b, {name}()) AS x")


@pytest.mark.parametrize(
    "text", ["current_date AS x", "CURRENT_TIMESTAMP AS x", "system.builtin.NOW() AS x"]
)
def test_it_is_refused_without_brackets_in_capitals_or_with_its_catalog(text: str) -> None:
    with pytest.raises(SettingsError, match="is not decided by the row"):
        select_expressions(text)


REFUSED = {
    **dict.fromkeys(("a; DROP TABLE raw", "a;"), "more than one statement"),
    **dict.fromkeys(
        ("f(a AS x", "f(a)) AS x", "a[1 AS x", "", " \n ", "-- nothing", "a, b,", "a,, b"),
        "brackets or commas do not match",
    ),
    **dict.fromkeys(("concat('a, b) AS x", "`a AS x"), "cannot be read"),
    "(SELECT max(x) FROM other) AS x": "not an expression over one row",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items())
def test_a_select_that_is_no_list_of_expressions_is_refused(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as caught:
        select_expressions(text)
    assert caught.value.object == "[source] select in lake.toml"


@pytest.mark.parametrize(
    "text", ["a::bigint AS x", "bigint(a) AS x", "`now`() AS x", "session_user AS x"]
)
def test_other_ways_of_writing_a_cast_or_the_clock_do_not_pass_as_written(text: str) -> None:
    with contextlib.suppress(SettingsError):
        assert select_expressions(text) != (text,)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("to_json(struct(*)) AS x", "to_json(struct(`B``c`, `a`, `user`)) AS x"),
        ("struct( * EXCEPT (`b``C`, User), 1) AS x", "struct( `a`, 1) AS x"),
        ("concat_ws('*', *) AS x", "concat_ws('*', `B``c`, `a`, `user`) AS x"),
        ("struct(a.*, 2 * a) AS x", "struct(a.*, 2 * a) AS x"),
    ],
)
def test_a_star_means_the_columns_of_the_file_and_nothing_of_ours(text: str, given: str) -> None:
    assert with_stars_expanded(text, ["user", *OWN_COLUMNS, "a", "B`c"]) == given


def test_a_star_alone_is_refused() -> None:
    with pytest.raises(SettingsError, match="no delivery column"):
        with_stars_expanded("*", ["a"])


BEYOND = {
    "IDENTIFIER('reflect')('java.lang.System', 'getProperty', 'user.name')": "cannot be read",
    "IDENTIFIER('entity')": "identifier is no function",
    "(TABLE text.`/etc/hostname`)": "cannot be read",
    "(FROM text.`/etc/hostname`)": "subquery",
    "(FROM text.`/etc/hostname` SELECT value)": "subquery|not an expression",
    "(VALUES (1))": "subquery",
    "a IN (VALUES (1))": "subquery",
    "exists(TABLE x)": "cannot be read",
    "map(a)": "cannot be read",
    "row_number() OVER (ORDER BY a)": "not an expression over one row",
    "sum(a) OVER ()": "not an expression over one row",
    "max(a)": "not an expression over one row",
    "explode(a)": "not an expression over one row",
    "mine(a)": "mine is no function",
    "spark_catalog.default.mine(a)": "mine is no function",
    "current_timezone()": "current_timezone is not decided by the row",
    "python_worker_logs()": "python_worker_logs is no function",
    "input_file_block_length()": "not decided by the row",
}


@pytest.mark.parametrize("text", BEYOND)
def test_what_looks_at_more_than_the_row_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=BEYOND[text]):
        refuse_beyond_the_row(f"seq, coalesce({text}, 'x') AS entity")
    with pytest.raises(SettingsError, match=BEYOND[text]):
        refuse_beyond_the_row(f"{text} AS entity")


@pytest.mark.parametrize(
    "text",
    [
        "date_format(a, 'yyyy-MM')",
        "floor(a / 2)",
        "concat(a, ',', b)",
        "concat_ws('-', a, b)",
        "a || b",
        "a[0]",
        "regexp_extract(a, '(x)', 1)",
        "regexp_replace(a, 'x', '')",
        "a RLIKE 'x'",
        "get_json_object(a, '$.x')",
        "from_json(a, 'x INT').x",
        "extract(year FROM a)",
        "trim(BOTH 'x' FROM a)",
        "substring(a FROM 1 FOR 2)",
        "overlay(a PLACING 'b' FROM 3)",
        "transform(a, x -> x + 1)",
        "aggregate(a, 0, (s, x) -> s + x)",
        "m['k']",
        "CASE WHEN a > 1 THEN 'x' ELSE b END",
        "a BETWEEN 1 AND 2",
        "a IN ('x', 'y')",
        "sha2(a, 256)",
        "xxhash64(a)",
        "cast(a AS array<string>)",
        "make_date(a, b, c)",
        "pmod(a, 7)",
        "to_varchar(a, '99')",
        "hll_sketch_estimate(a)",
        "xpath_string(a, 'b/c')",
        "time_to_micros(a)",
        "named_struct('x', a).x",
        "INTERVAL '1' DAY + a",
        "a * 10L",
        "timestamp'2024-03-01'",
        "from_unixtime(a)",
        "to_timestamp(a, 'yyyy')",
        "nvl2(a, b, c)",
        "raise_error('x')",
        "`a b` + 1",
        "split(a, ';')[1]",
        "element_at(split(_file, '/'), -2)",
        "try_divide(a, b)",
        "hash(a, b)",
    ],
)
def test_functions_of_one_row_pass(text: str) -> None:
    refuse_beyond_the_row(f"seq, {text} AS value")
