"""SQL that Sail may run, and what is refused by name. Nothing is run here: `test_sail_plans` holds
the list to Sail."""

import pytest
import sqlglot

from backfill_assets.engines.sail_differences import converts_alike, sql_differences, tables_read

KEY, KEYED = frozenset({"entity", "day"}), "PARTITION BY entity ORDER BY value DESC NULLS LAST, day"
TYPES = {
    "value": "BIGINT",
    "i": "INT",
    "x": "DOUBLE",
    "event_ts": "TIMESTAMP",
    "entity": "STRING",
    "day": "DATE",
    "z": "BINARY",
}


def read(query: str) -> list[str]:
    return tables_read(sqlglot.parse_one(query, read="spark"))


def test_the_tables_that_a_query_reads_are_those_it_does_not_make_itself() -> None:
    query = (
        "WITH a AS (SELECT * FROM given) SELECT * FROM a JOIN parquet.`/data/x` p, `View` AS v, "
        "explode(array(1)) AS t"
    )
    assert {*read(query)} == {"given", "parquet./data/x", "view"}
    assert read("SELECT 1 IN (SELECT n FROM other) FROM VALUES (1) AS t(n)") == ["other"]
    assert read("WITH a AS (SELECT * FROM a) SELECT * FROM a") == ["a"], "one of that name outside"
    assert read(
        "WITH a AS (SELECT * FROM b) SELECT * FROM (WITH a AS (SELECT * FROM A) SELECT * FROM a)"
    ) == ["b"]


@pytest.mark.parametrize(
    "text",
    [
        "-value",
        "sum(i)",
        "year(event_ts) + 1",
        "try_add(value, 1)",
        "date_sub(day, i)",
        "day > '2024-03-01'",
        "day = '2024-03-01' OR event_ts <> '2024-03-01 12:00:00' OR day IN ('2024-03-01')",
        "CASE WHEN value > 0 THEN value ELSE i END",
        "coalesce(x, 1)",
        "sort_array(collect_set(value))",
        "value > 0 AND entity LIKE 'a%'",
        "coalesce(value, 0)",
        "event_ts - INTERVAL '1' HOUR",
        "concat(date_format(event_ts, 'yyyy'), floor(x), entity || 'a')",
        "value / 2 > 1 AND entity IN ('a') AND regexp_replace(entity, 'a', '') <> '' AND value "
        "div 2 = 1",
        "SELECT max(n) FROM (SELECT value AS n FROM staging)",
        "concat(hex(z), '-', sha2(z, 256), cast(octet_length(z) AS STRING))",
        "CASE WHEN value > 0 THEN value END",
        f"SELECT entity, row_number() OVER ({KEYED}) AS n, lag(value, 1, 0) OVER (ORDER BY "
        "entity, day) AS m FROM a",
        "SELECT sum(cast(value AS DECIMAL(30,0))) OVER (PARTITION BY entity), rank() OVER (ORDER "
        "BY value) FROM a",
        f"SELECT max(value) OVER ({KEYED} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM "
        "staging",
        "SELECT entity, count(*) AS n FROM staging WHERE value IS NOT NULL GROUP BY entity HAVING "
        "count(*) > 1",
        "SELECT entity, d AS day, sum(cast(value AS DECIMAL(30,0))) AS n FROM (SELECT *, "
        "explode(sequence(day, "
        "date_add(day, 6))) AS d FROM staging) GROUP BY ALL",
    ],
)
def test_what_both_engines_compute_alike_is_let_through(text: str) -> None:
    assert sql_differences(text, TYPES, [KEY]) == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("value + 1", ["+"]),
        ("i * 2", ["*"]),
        ("cast(event_ts AS BIGINT)", ["cast as bigint"]),
        ("CASE WHEN value > 0 THEN value ELSE entity END", ["case of STRING and number"]),
        ("entity = 1", ["= of STRING and number"]),
        ("day = 1", ["= of moment and number"]),  # Sail answers it, by the days since 1970
        ("day IN (1, 2)", ["in of moment and number"]),
        ("sum(value)", ["sum"]),
        ("day - day", ["-"]),
        ("min(struct(value, entity))", ["min of STRUCT"]),
        ("max(x)", ["max of DOUBLE"]),
        ("coalesce(x, cast(value AS DECIMAL(18,2)))", ["coalesce of DECIMAL and DOUBLE"]),
        # Sail makes DECIMAL(30,15) of both: 0.1D + 0.2D becomes 0.3, 1e-20 zero, 1e300 an error.
        ("coalesce(x, 1.5)", ["coalesce of DECIMAL and DOUBLE"]),
        ("CASE WHEN x > 0 THEN x ELSE -0.5 END", ["case of DECIMAL and DOUBLE"]),
        ("greatest(x, 0.5)", ["greatest of DECIMAL and DOUBLE"]),
        ("coalesce(x, 1.5D)", []),
        ("coalesce(x, 1e0)", []),
        ("x > 0.5", []),
        ("split(entity, '[,;]')", ["split"]),
        ("slice(split(entity, '/'), 0, 2)", ["slice from the end"]),
        ("cast(z AS STRING)", ["cast as string"]),
        ("upper(z)", ["upper of BINARY"]),
        ("my_own(value)", ["my_own"]),
        ("concat(hex(entity), z)", ["concat of BINARY"]),
        ("concat(unhex(entity), hex(z))", ["concat of BINARY"]),
        ("x || entity", ["|| of DOUBLE"]),
        ("value / cast(2 AS DECIMAL(5,2))", ["/ of DECIMAL"]),
        ("left(entity, -1)", ["left from the end"]),
        ("SELECT collect_list(value) FROM a", ["collect_list unsorted"]),
        ("SELECT rand() FROM a", ["rand"]),
        ("weekday(event_ts) = 1", ["weekday"]),
        ("entity RLIKE '(?i)a'", ["rlike"]),
        (
            "SELECT row_number() OVER (ORDER BY value) FROM staging",
            ["row_number over an order that may not be total"],
        ),
        (
            f"SELECT row_number() OVER ({KEYED}) FROM a JOIN b",
            ["row_number over an order that may not be total"],
        ),
        (
            f"SELECT lag(value, 1, value) OVER ({KEYED}) FROM a",
            ["lag with a default that is no literal"],
        ),
        (
            "SELECT first_value(value) OVER (ORDER BY entity) FROM a",
            ["first_value", "first_value over"],
        ),
        (
            "SELECT count(*) OVER (ORDER BY day RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS n "
            "FROM a",
            ["range", "count over range"],
        ),
        ("SELECT rank() OVER w FROM a WINDOW w AS (ORDER BY value)", ["a window that is named"]),
        ("SELECT * FROM staging LIMIT 5", ["limit"]),
        ("SELECT entity, max_by(entity, value) AS n FROM staging GROUP BY entity", ["max_by"]),
        ("SELECT current_date FROM staging", ["current_date"]),
        ("value > ((", ["value > (("]),
    ],
)
def test_what_is_known_to_differ_is_refused_by_name(text: str, names: list[str]) -> None:
    assert list(sql_differences(text, TYPES, [KEY])) == names


@pytest.mark.parametrize(
    "kind",
    ["void", "array<void>", "struct<a b:void>", "interval day to second", "map<int,void>", "?"],
)
def test_no_type_of_a_column_ends_the_check(kind: str) -> None:
    assert sql_differences("x", {"x": kind}) == {}
    assert converts_alike(kind, "STRING") == (kind == "void")
