"""Landed values on Sail: texts that the engines read differently are doubted, and expressions of
`select` refused.

Tested here: forms of text, pairs of types, expressions; what cuts texts is computed. Not tested
here: what becomes of a doubted row (`test_mapping`).
"""

import json
import re

import pytest

from backfill_assets.engines.sail import DOUBTFUL, Sail
from backfill_assets.intake.casting import refuse_engine_differences
from backfill_assets.intake.mapping import RAISED, mapped_rows
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import PayloadColumn
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.processes import run_python

COLUMNS = {"a": "string", "n": "bigint", "t": "timestamp_ntz", "f": "double", "d": "decimal(9,2)"}

# What Spark 4.2.0 and Sail 0.7.2 make of these texts differs; found by casting 150 texts to 12
# types on both.
DIFFER = {
    "DECIMAL": ["1e3", "1E3", "1e-400", "٣", "1٣", "1E-5"],
    "DOUBLE": ["1d", "1f", "1D"],
    "DATE": [
        " 2024-03-01 ",
        "2024-03-01T",
        "2024-03-01T10:00:00",
        "2024-03-01T10:00:00Z",
        "294247-01-10 04:00:54",
    ],
    "TIMESTAMP": ["294247-01-10 04:00:54.775807"],
    "BOOLEAN": ["on", "off", "tru"],
}
AGREE = {
    "DECIMAL": ["1", " 1.50 ", "-.5", "1.", "abc", ""],
    "DOUBLE": ["1e3", "NaN", "-Infinity", "0x10", "1.5"],
    "DATE": ["2024-03-01", "2024-3-1", "2024-03", "2024-02-30", "abc"],
    "TIMESTAMP": [
        "2024-03-01T10:00:00Z",
        "2024-03-01 10:00:00 Europe/Berlin",
        "0001-01-01",
        "epoch",
    ],
    "BOOLEAN": ["true", " T ", "0", "yes", "n", "2"],
}


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in DIFFER.items() for t in texts])
def test_a_text_that_the_engines_read_differently_is_doubted(kind: str, text: str) -> None:
    assert re.search(DOUBTFUL[kind], text)


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, texts in AGREE.items() for t in texts])
def test_a_text_that_they_read_alike_is_not(kind: str, text: str) -> None:
    assert not re.search(DOUBTFUL[kind], text)


def test_a_doubted_row_says_the_whole_way_into_the_table(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([("1e2",), ("1",)], "amt string").selectExpr(
        "*", "'a' AS __sha256", "1L AS __number"
    )
    select = "amt, 'k' AS event_key, TIMESTAMP_NTZ'2024-03-01 00:00:00' AS event_ts"
    payload = [PayloadColumn("amt", "DECIMAL(18,4)", nullable=False)]
    rows = mapped_rows(
        frame.withColumn("_file", frame.amt), select, True, {}, payload, Sail()
    ).collect()
    assert [(r["amt"], r[RAISED]) for r in rows] == [
        (
            None,
            "amt: Sail may read a DECIMAL(18,4) of this form otherwise than Spark: set engine = "
            "embedded, then "
            "`backfill --force` the arrival day, and Spark decides",
        ),
        (1, ""),
    ]


@pytest.mark.parametrize("word", ["offset", "limit", "range"])
def test_a_column_called_as_a_clause_is_a_column(spark: "SparkSession", word: str) -> None:
    frame = spark.sql(f"SELECT 3L AS `{word}`, 'a' AS __sha256, 1L AS __number, 'f' AS _file")
    select = (
        f"{word} AS amt, concat(`{word}`, '-') AS event_key, TIMESTAMP_NTZ'2024-03-01 00:00:00' "
        "AS event_ts"
    )
    (row,) = mapped_rows(
        frame, select, True, {}, [PayloadColumn("amt", "BIGINT", nullable=False)], Sail()
    ).collect()
    assert (row["amt"], row["event_key"]) == (3, "3-")


def test_pairs_of_types_that_differ_are_not_converted() -> None:
    converts = Sail().converts
    assert converts("string", read_type("DECIMAL(18,2)"))
    assert converts("void", read_type("BIGINT"))
    assert not converts("double", read_type("DECIMAL(38,18)"))
    assert not converts("double", read_type("STRING"))
    assert not converts("bigint", read_type("TIMESTAMP"))
    assert not converts("timestamp_ntz", read_type("STRING"))
    assert not converts("string", read_type("ARRAY<BIGINT>"))
    assert not converts("bigint", read_type("DATE")), "Spark refuses the file"
    assert not converts("struct<a:int>", read_type("STRING"))


@pytest.mark.parametrize(
    "expression",
    [
        "a AS x",
        "`a` AS c",
        "'upsert' AS op",
        "t AS version_ts",
        "nullif(a, '') AS entity",
        "n IS NULL AS f",
        "coalesce(try_cast(nullif(a, '') AS bigint), 0) AS value",
        "try_cast(a AS timestamp_ntz) AS t",
        "CASE WHEN a = 'D' THEN 'delete' ELSE 'upsert' END AS op",
        "concat(a, '-', a) AS k",
        "substring(a, 1, 3) AS s",
        "absent AS value",
        "date_format(t, 'yyyy-MM') AS k",
        "floor(n / 2) AS value",
        "lower(a) AS k",
        "a[0] AS x",
        "concat(n, '-', a) AS k",
        "try_multiply(n, 2) AS value",
        "array_join(split(n, '/'), '') AS k",
        "regexp_extract(a, '(x)', 1) AS k",
        "left(a, 3) AS k",
        "absent * 2 AS value",
        "split(a, ',')[0] AS k",
        "try_cast(n AS date) AS d",
        "concat(a, array_join(slice(split(a, '/'), 1, 2), '/')) AS entity",
    ],
)
def test_what_is_not_known_to_differ_may_run(expression: str) -> None:
    refuse_engine_differences([expression], COLUMNS, Sail())


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("n * 1 AS value", ": \\*:"),
        ("nvl(t, t) AS version_ts", ": nvl:"),
        ("a RLIKE 'x' AS flag", ": rlike:"),
        ("1 + n AS value", ": \\+:"),
        ("concat(t, a) AS k", "concat of TIMESTAMP"),
        ("try_cast(a AS date) AS d", "cast as date"),
        ("try_cast(f AS decimal(18,2)) AS d", "cast as decimal"),
        ("coalesce(n, 'x') AS y", "coalesce of STRING and number"),
        ("CASE WHEN n = 'D' THEN 1 ELSE 0 END AS flag", ": = of STRING and number"),
        ("array_join(split(a, '[/]'), '') AS k", ": split:"),
        ("array_join(split(a, ''), '') AS k", ": split:"),
        ("array_join(slice(split(a, '/'), -2, 2), '') AS k", "slice from the end"),
        ("array_join(slice(split(a, '/'), 0, 2), '') AS k", "slice from the end"),
    ],
)
def test_what_differs_is_refused_by_name(expression: str, named: str) -> None:
    with pytest.raises(
        SettingsError, match=rf'{named}.*on sail not always what Spark gives.*engine = "embedded"'
    ):
        refuse_engine_differences([expression], COLUMNS, Sail())


PATHS = ["", "/", "//a//b//", "a/b/c", "/ä/日本/😀", "a b", ".[x]|/\\/", None]
CUT = """
    import json, sys
    import pyarrow as pa
    from backfill_assets_tests.second_engine_probe import session_on
    with session_on("sail") as session:
        frame = session.createDataFrame(pa.table({"a": json.loads(sys.argv[1])}))
        rows = frame.selectExpr("array_join(slice(split(a, '/'), 1, 2), '/')", "array_join(split(a, '/'), '-')")
        print(json.dumps([list(r) for r in rows.collect()]))
"""


@pytest.mark.usefixtures("processes")
def test_parts_of_a_path_are_those_that_spark_gives() -> None:
    """Spark splits as Python does; over 27 texts and 12 delimiters both engines were found to
    agree."""
    told = json.loads(run_python(CUT, json.dumps(PATHS)))
    cut = [None if a is None else a.split("/") for a in PATHS]
    assert told == [[c and "/".join(c[:2]), c and "-".join(c)] for c in cut]
