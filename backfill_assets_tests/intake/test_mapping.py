"""`select` over values it was not written for: the row is told, the file is told, and all others
are read.

Lives here: expressions that raise, and types that do not fit, over a few files. Does not live here:
reading `select` (`test_select`), the rules of usable rows (`intake.test_deliveries`), whole scans
(`intake.test_counting`).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from backfill_assets.engines.session import set_confs
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.mapping import session_settings
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.intake.test_deliveries import (
    MOMENT,
    PLAIN,
    judged,
    parquet,
    settings,
    stocked,
)

pytestmark = pytest.mark.on_spark("it is what Spark makes of select; of Sail: test_differing")
COLUMNS = ("seq", "at", "key", "n", "who", "flag")
RISKY = PLAIN.replace("n AS value", "n * 1 AS value").replace(
    "0 AS flag", "CASE WHEN n * 1 > 0 AND flag = 1 THEN 1 ELSE 0 END AS flag"
)


def text(*rows: tuple[object, ...]) -> bytes:
    lines = [
        ",".join(COLUMNS),
        *(",".join(map(str, (i, MOMENT, *row))) for i, row in enumerate(rows, 1)),
    ]
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_value_that_makes_select_raise_costs_its_row(
    spark: "SparkSession", tmp_path: Path, compiled: bool
) -> None:
    confs = {
        "spark.sql.codegen.wholeStage": str(compiled).lower(),
        "spark.sql.codegen.factoryMode": "CODEGEN_ONLY" if compiled else "NO_CODEGEN",
        "spark.sql.subexpressionElimination.enabled": "true",
    }
    before = {key: str(spark.conf.get(key)) for key in confs}
    set_confs(spark, confs)
    try:
        bad = stocked(
            tmp_path,
            "a.csv",
            text(
                ("k", "n/a", "A", 1), ("k", 5, "A", "yes"), ("k", 7, "A", 1), ("k", 2**63, "A", 0)
            ),
        )
        found = judged(
            spark,
            [bad, stocked(tmp_path, "b.csv", text(("k", -3, "B", 0)))],
            settings("csv", RISKY),
        )
    finally:
        set_confs(spark, before)
    told = {(r["entity"], r["row_number"]): (r["value"], r["flag"], r["reason"]) for r in found}
    raised = "{}: select raises an error on this row"
    value, flag = raised.format("value"), raised.format("flag")
    number, bit = "value is NULL or no whole number of 64 bits", "flag is neither 0 nor 1"
    assert told == {
        ("A", 1): (None, None, f"{value}; {flag}; {number}; {bit}"),
        ("A", 2): (5, None, f"{flag}; {bit}"),
        ("A", 3): (7, 1, None),
        ("A", 4): (None, None, f"{value}; {flag}; {number}; {bit}"),
        ("B", 1): (-3, 0, None),
    }
    assert {r["arrival_date"].day for r in found} == {5}, "the row stays with its day"


def test_guarded_values_are_the_very_values(spark: "SparkSession", tmp_path: Path) -> None:
    far = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    columns: dict[str, Any] = {
        "seq": [1, 2],
        "n": [2**53, -(2**53)],
        "who": ["0", ""],
        "key": ["1 \u00e4\U0001f600", "\\x"],
        "at": [datetime.fromisoformat(MOMENT)] * 2,
        "v": pa.array([far, None], pa.timestamp("us", "UTC")),
    }
    guarded = (
        "seq + 0 AS seq, at AS arrival_ts, coalesce(v, at) AS version_ts, at + INTERVAL '0' DAY "
        "AS event_ts, "
        "key || '' AS event_key, lower('UPSERT') AS op, nullif(who, '') AS entity, n + 0 AS "
        "value, 1 - 1 AS flag"
    )
    found = judged(spark, [parquet(tmp_path, "a.parquet", columns)], settings("parquet", guarded))
    assert [(r["seq"], r["value"], r["entity"], r["event_key"], r["reason"]) for r in found] == [
        (1, 2**53, "0", columns["key"][0], None),
        (2, -(2**53), None, "\\x", None),
    ]
    assert [r["version_ts"].year for r in found] == [9999, 2024]


def test_a_delete_needs_no_value_and_none_that_can_be_read(
    spark: "SparkSession", tmp_path: Path
) -> None:
    chosen = settings("csv", RISKY.replace("'upsert' AS op", "who AS op"))
    found = judged(
        spark,
        [stocked(tmp_path, "a.csv", text(("k", "n/a", "delete", 1), ("k", "n/a", "x", 1)))],
        chosen,
    )
    assert [r["reason"] is None for r in found] == [True, False]


def files_of_other_types(folder: Path) -> dict[str, StoredFile]:
    """A file that is as select wants it (`good`), and others with one column that is not."""
    good: dict[str, Any] = {
        "seq": [1, 2],
        "key": ["k"] * 2,
        "at": [datetime.fromisoformat(MOMENT)] * 2,
        "who": ["A"] * 2,
        "n": [1, 2],
    }
    nanoseconds = pa.array([1_709_632_800_000_000_001] * 2, pa.timestamp("ns"))
    changed: dict[str, dict[str, Any]] = {
        "good": {},
        "struct": {"n": [{"a": 1}] * 2},
        "nested": {"who": [["A"]] * 2},
        "binary": {"key": [b"\xff\xfe", b"ok"]},
        "cut": {"at": nanoseconds},
    }
    return {
        name: parquet(folder, f"{name}.parquet", good | columns)
        for name, columns in changed.items()
    }


def test_a_file_whose_types_do_not_fit_is_one_row_with_its_reason_and_the_others_are_read(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    select = PLAIN.replace("cast(at AS timestamp_ntz)", "at").replace(
        "n AS value", "n + 0 AS value"
    )
    files = files_of_other_types(tmp_path)
    capfd.readouterr()
    rows = judged(spark, list(files.values()), settings("parquet", select))
    told = {
        n: [(r["row_number"], r["reason"]) for r in rows if r["sha256"] == f.sha256]
        for n, f in files.items()
    }
    assert told["good"] == [(1, None), (2, None)]
    assert [n for n, _ in told["struct"]] == [0]
    assert told["struct"][0][1].startswith("select does not fit its columns: [DATATYPE_MISMATCH")
    assert told["nested"] == [
        (
            0,
            "select does not fit its columns: entity must be a string, but select makes it "
            "array<string>",
        )
    ]
    assert told["binary"] == [(1, "event_key is bytes that are no UTF-8 text"), (2, None)]
    assert {r.split(";")[0] for _, r in told["cut"]} == {
        "at of the file has digits below the microsecond, which would be cut off in 2 of its rows"
    }
    assert capfd.readouterr().err == "", "nothing is printed of what is dealt with"


def test_expressions_are_shared_where_none_can_raise() -> None:
    assert session_settings("id AS event_key, at AS event_ts") == {}
    apart = {"spark.sql.subexpressionElimination.enabled": "false"}
    assert session_settings("id AS event_key, n * 1 AS value") == apart
    assert session_settings("id AS event_key, at AS event_ts", DEFAULT_PAYLOAD[:1]) == apart, (
        "its values are cast"
    )
