"""What `[source] select` may look at: the values of one row, by any function of Spark that gives the same for the same.

Lives here: what is refused by name, and what passes. Does not live here: casts (`test_select`), what engines make of it
(`test_mapping`).
"""

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.select import refuse_beyond_the_row

BEYOND = {
    "IDENTIFIER('reflect')('java.lang.System', 'getProperty', 'user.name')": "cannot be read",
    "IDENTIFIER('entity')": "identifier is no function",
    "(TABLE text.`/etc/hostname`)": "cannot be read",
    "(FROM text.`/etc/hostname`)": "subquery",
    "(FROM text.`/etc/hostname` SELECT value)": "subquery|not an expression",
    "(VALUES (1))": "subquery",
    "a IN (VALUES (1))": "subquery",
    "exists(TABLE x)": "cannot be read",
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
        "date_format(a, 'yyyy-MM')", "floor(a / 2)", "concat(a, ',', b)", "concat_ws('-', a, b)", "a || b", "a[0]",
        "regexp_extract(a, '(x)', 1)", "regexp_replace(a, 'x', '')", "a RLIKE 'x'", "get_json_object(a, '$.x')",
        "from_json(a, 'x INT').x", "extract(year FROM a)", "trim(BOTH 'x' FROM a)", "substring(a FROM 1 FOR 2)",
        "overlay(a PLACING 'b' FROM 3)", "transform(a, x -> x + 1)", "aggregate(a, 0, (s, x) -> s + x)", "m['k']",
        "CASE WHEN a > 1 THEN 'x' ELSE b END", "a BETWEEN 1 AND 2", "a IN ('x', 'y')", "sha2(a, 256)", "xxhash64(a)",
        "cast(a AS array<string>)", "make_date(a, b, c)", "pmod(a, 7)", "to_varchar(a, '99')", "hll_sketch_estimate(a)",
        "xpath_string(a, 'b/c')", "time_to_micros(a)", "named_struct('x', a).x", "INTERVAL '1' DAY + a", "a * 10L",
        "timestamp'2024-03-01'", "from_unixtime(a)", "to_timestamp(a, 'yyyy')", "nvl2(a, b, c)", "raise_error('x')",
        "`a b` + 1", "split(a, ';')[1]", "element_at(split(_file, '/'), -2)", "try_divide(a, b)", "hash(a, b)",
    ],
)  # fmt: skip
def test_functions_of_one_row_pass(text: str) -> None:
    refuse_beyond_the_row(f"seq, {text} AS value")


@pytest.mark.parametrize("name", ["table", "values", "from", "user", "cast", "date", "timestamp"])
def test_a_column_may_be_called_as_it_likes(name: str) -> None:
    refuse_beyond_the_row(f"seq, {name} AS entity, cast({name} AS string) AS op")
