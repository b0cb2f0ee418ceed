"""Tables of Spark, adopted where they lie: days as DATE and as text, times in INT96, the layout of
dbt, OPTIMIZE.

Not tested here: everything else about adopted tables (`test_adopted_tables.py`).
"""

import hashlib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from backfill_assets.cli.app import app
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.assets.projects import DAYS, ONE_RUN, cause, materialize

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.on_spark("the table is written by Spark's own Delta"),
]

D2 = "2024-01-02"
CREATE = (
    "CREATE TABLE {t} (id STRING, at TIMESTAMP, cents DECIMAL(12,2), day {kind}) USING delta "
    "PARTITIONED BY (day)"
)
STORY = """
INSERT INTO {t} SELECT concat('k', id), timestamp'2024-01-01 10:00:00.000001', id / 3, {kind}'2024-01-01' FROM range(9);
INSERT INTO {t} SELECT concat('k', id), timestamp'2024-01-02 10:00:00', id, {kind}'2024-01-02' FROM range(5);
INSERT INTO {t} SELECT concat('m', id), timestamp'2024-01-02 11:00:00', NULL, {kind}'2024-01-02' FROM range(5);
OPTIMIZE {t}"""


def written(spark: SparkSession, place: Path, kind: str, by_day: bool) -> str:
    """A table with a day that was appended to and compacted, and one that was overwritten as dbt
    does; or one that nothing lays out, with files of one day each. Its name."""
    table, story = (
        f"delta.`{place}`",
        STORY.format(t=f"delta.`{place}`", kind="date" if kind == "DATE" else ""),
    )
    spark.sql(
        CREATE.format(t=table, kind=kind).removesuffix("" if by_day else " PARTITIONED BY (day)")
    )
    for statement in story.split(";")[: None if by_day else -1]:
        spark.sql(statement)
    cents = "CAST(1.5 AS DECIMAL(12,2)) AS cents"
    row = f"'z' AS id, timestamp'2024-01-03' AS at, {cents}, CAST('2024-01-03' AS {kind}) AS day"
    rows = spark.sql(f"SELECT {row}")
    write = rows.write.format("delta").mode("overwrite" if by_day else "append")
    write.option("partitionOverwriteMode", "dynamic").save(str(place))
    return table


def command(lake: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["--lake", str(lake), *words])
    assert done.exit_code == code, done.output
    return done.output


def orders(rows: list[tuple[str, datetime]]) -> dg.AssetsDefinition:
    """The asset that wrote the table until now: these rows of the second day."""

    @dg.asset(name="orders", partitions_def=DAYS, backfill_policy=ONE_RUN, code_version="1")
    def made() -> Any:
        ids, times = zip(*rows, strict=True)
        cents = pa.array([None] * len(ids), pa.decimal128(12, 2))
        at = pa.array(times, pa.timestamp("us", "UTC"))
        return pa.table(
            {"id": list(ids), "at": at, "cents": cents, "day": [date.fromisoformat(D2)] * len(ids)}
        )

    return made


def digests(place: Path) -> dict[str, str]:
    found = (p for p in place.rglob("*.parquet") if "_delta_log" not in p.parts)
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


@pytest.mark.parametrize(("kind", "by_day"), [("DATE", True), ("STRING", True), ("DATE", False)])
def test_a_table_of_sparks_own_is_rebuilt_and_put_back_where_it_lies(
    spark: SparkSession, tmp_path: Path, kind: str, by_day: bool, instance: dg.DagsterInstance
) -> None:
    place, lake = tmp_path / "theirs", tmp_path / "lake"
    table = written(spark, place, kind, by_day)
    before, files = sorted(spark.table(table).collect()), digests(place)
    assert "3 day(s), 2024-01-01..2024-01-03, 20 row(s)" in command(
        lake, "adopt", "orders", "--from", str(place), "--day", "day", "--key", "id"
    )
    assert {name: now for name, now in digests(place).items() if name in files} == files
    version = read_lake(lake).store.head("orders")
    spark.sql(f"REFRESH TABLE {table}")
    assert sorted(spark.table(table).collect()) == before
    result = materialize(
        lake, [orders([("n", datetime(2024, 1, 2, tzinfo=UTC))])], D2, instance=instance
    )
    assert result.success, cause(result)
    assert spark.table(table).where(f"day = '{D2}'").count() == 1
    opened = read_lake(lake)
    frame = LakeSession(opened).read("orders", version, "day")
    assert sorted(map(tuple, frame.select("id", "at", "cents").collect()), key=str) == sorted(
        ((r.id, r.at, r.cents) for r in before), key=str
    )
    command(
        lake, "rollback", "--table", "orders", "--to-version", str(version), "--from", D2, "--yes"
    )
    spark.sql(f"REFRESH TABLE {table}")
    assert sorted(spark.table(table).collect()) == before
    command(lake, "release", "orders", "--from", D2, "--to", D2, "--yes")
    spark.sql(f"OPTIMIZE {table} ZORDER BY (id)")
    assert "all is well" in command(lake, "verify", "--deep")
    command(lake, "maintain", "--yes")
    spark.sql(
        f"INSERT INTO {table} SELECT 'theirs', current_timestamp(), 1, CAST('2024-01-01' AS {kind})"
    )
    pipeline = chosen_pipeline(opened := read_lake(lake))
    states = pipeline.states(read_view(opened, pipeline.contracts))
    found = {str(d): states.of("orders", d) for d in states.view.table("orders").latest}
    assert found == {"2024-01-01": State.STALE, D2: State.OUTDATED, "2024-01-03": State.OUTDATED}


@pytest.mark.parametrize(
    ("properties", "change", "words"),
    [
        (
            "'delta.enableDeletionVectors' = 'true'",
            "DELETE FROM {t} WHERE id = 'k1'",
            "it has deletion vectors",
        ),
        (
            "'delta.enableDeletionVectors' = 'true'",
            "",
            "its protocol asks of every writer: deletionVectors",
        ),
        ("'delta.columnMapping.mode' = 'name'", "", "its columns are renamed by column mapping"),
        ("'delta.enableRowTracking' = 'true'", "", "its protocol asks of every writer:"),
        (
            "'delta.enableInCommitTimestamps' = 'true'",
            "",
            "its protocol asks of every writer: inCommitTimestamp",
        ),
    ],
)
def test_what_files_hide_is_refused(
    spark: SparkSession, tmp_path: Path, properties: str, change: str, words: str
) -> None:
    table = f"delta.`{tmp_path / 'theirs'}`"
    spark.sql(f"{CREATE.format(t=table, kind='DATE')} TBLPROPERTIES ({properties})")
    for statement in (
        f"INSERT INTO {table} SELECT 'k' || id, NULL, 1, date'{D2}' FROM range(5)",
        change.format(t=table),
    ):
        if statement:
            spark.sql(statement)
    said = command(
        tmp_path / "lake",
        "adopt",
        "orders",
        "--from",
        str(tmp_path / "theirs"),
        "--day",
        "day",
        "--key",
        "id",
        code=1,
    )
    assert words in " ".join(said.split())
    assert not (tmp_path / "lake").exists()
    if "DeletionVectors" in properties:  # the way out that the refusal names
        copy, left = tmp_path / "another", 4 if change else 5
        spark.read.format("delta").load(str(tmp_path / "theirs")).write.format("delta").partitionBy(
            "day"
        ).save(str(copy))
        adopted = command(
            tmp_path / "lake", "adopt", "orders", "--from", str(copy), "--day", "day", "--key", "id"
        )
        assert f"{left} row(s)" in adopted
