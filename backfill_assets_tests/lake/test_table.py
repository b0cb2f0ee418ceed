"""The only statements that change a table: exact days, typed predicates, one commit per receipt, nothing on the side.

Lives here: what Delta really does with them. Does not live here: whether to write at all (`lake.replace`).
"""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from backfill_assets.core.receipts import parse_receipt
from backfill_assets.lake.table import (
    commit_append,
    commit_receipt,
    commit_replace,
    days_predicate,
    ensure_table,
    is_conflict,
    sql_path,
    sql_text,
)
from backfill_assets_tests.builders import RAW, STAGING, contract, day, receipt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "entity string, value bigint, event_date date"


def rows(spark: "SparkSession", *days: date, value: int = 1) -> "DataFrame":
    return spark.createDataFrame([("A", value, d) for d in days], SCHEMA)


def days_of(table: Path) -> list[tuple[date, int]]:
    return sorted((r["event_date"], r["value"]) for r in DeltaTable(str(table)).to_pyarrow_table().to_pylist())


@pytest.fixture
def table(spark: "SparkSession", tmp_path: Path) -> Path:
    """A table with a row on each of three days; its folder has a name that needs quoting."""
    path = tmp_path / "it's a `table`"
    ensure_table(spark, path, STAGING, 30)
    predicate = days_predicate("event_date", map(day, range(3)))
    commit_replace(rows(spark, day(0), day(1), day(2)), path, predicate, receipt(write_id="first"), "event_date")
    return path


def test_a_replace_changes_the_named_days_only_and_an_empty_frame_empties_them(
    spark: "SparkSession", table: Path
) -> None:
    predicate = days_predicate("event_date", [day(2), day(0)])
    commit_replace(rows(spark, day(2), value=7), table, predicate, receipt(write_id="second"), "event_date")
    assert days_of(table) == [(day(1), 1), (day(2), 7)]
    found = [parse_receipt(c.get("userMetadata")) for c in DeltaTable(str(table)).history()]
    assert [r.write_id for r in found if r] == ["second", "first"]


def test_a_row_outside_the_named_days_is_refused_and_nothing_is_written(spark: "SparkSession", table: Path) -> None:
    version = DeltaTable(str(table)).version()
    with pytest.raises(Exception, match="DELTA_REPLACE_WHERE_MISMATCH"):
        commit_replace(
            rows(spark, day(0), day(1)),
            table,
            days_predicate("event_date", [day(0)]),
            receipt(write_id="x"),
            "event_date",
        )
    assert DeltaTable(str(table)).version() == version


def test_one_receipt_is_one_commit_however_often_it_is_sent(spark: "SparkSession", table: Path) -> None:
    for value in (5, 6):
        predicate = days_predicate("event_date", [day(0)])
        commit_replace(rows(spark, day(0), value=value), table, predicate, receipt(write_id="again"), "event_date")
    assert days_of(table)[0] == (day(0), 5)


def test_a_receipt_alone_adds_and_removes_no_file(spark: "SparkSession", table: Path) -> None:
    before = sorted(DeltaTable(str(table)).file_uris())
    commit_receipt(spark, table, receipt(write_id="alone"))
    after = DeltaTable(str(table))
    assert sorted(after.file_uris()) == before
    newest = parse_receipt(after.history(1)[0].get("userMetadata"))
    assert newest is not None
    assert newest.write_id == "alone"


def test_a_table_is_made_once_with_its_contract_and_without_what_other_engines_cannot_read(
    spark: "SparkSession", table: Path
) -> None:
    ensure_table(spark, table, RAW, 30)
    made = DeltaTable(str(table))
    assert [(f.name, f.nullable) for f in made.schema().fields] == [(c.name, c.nullable) for c in STAGING.columns]
    settings = made.metadata().configuration
    assert settings["delta.enableDeletionVectors"] == "false"
    assert settings["delta.enableExpiredLogCleanup"] == "false"
    assert settings["delta.deletedFileRetentionDuration"] == "interval 30 days"
    assert made.metadata().partition_columns == ["event_date"]


def test_a_null_in_a_required_column_is_refused(spark: "SparkSession", table: Path) -> None:
    bad = spark.createDataFrame([(None, 1, day(0))], SCHEMA)
    with pytest.raises(Exception, match="NOT_NULL"):
        commit_append(bad, table, receipt(write_id="null"))


def test_no_day_never_means_every_day() -> None:
    with pytest.raises(ValueError, match="at least one day"):
        days_predicate("event_date", [])
    assert days_predicate("d", [day(1), day(0), day(1)]) == "`d` IN (DATE'2024-02-26', DATE'2024-02-27')"


def test_names_and_texts_are_quoted() -> None:
    assert sql_path(Path("a`b")) == "delta.`a``b`"
    assert sql_text("it's \\ here") == "'it\\'s \\\\ here'"
    assert contract("x", "day").partition_column == "day"


def test_every_kind_of_conflict_is_told_from_other_failures() -> None:
    conflict = type("ConcurrentAppendException", (Exception,), {})
    assert is_conflict(conflict("files were added"))
    assert is_conflict(RuntimeError("[DELTA_CONCURRENT_DELETE_READ] x"))
    assert not is_conflict(RuntimeError("disk full"))
