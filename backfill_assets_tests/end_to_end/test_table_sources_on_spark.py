"""A Delta table as Spark writes it, read where it lies by Spark: partitions, changes, a new column,
times in INT96.

Not here: everything else about such sources (`test_table_sources`).
"""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.scan import scan_all
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import DayRange
from backfill_assets_tests.end_to_end.worlds import SHARED, World
from backfill_assets_tests.tables import rows_in, settings_text

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.in_turn("tables of Spark"),
    pytest.mark.on_spark("the table is written by Spark's own Delta"),
]
SELECT = (
    "id AS event_key, at AS event_ts, who AS entity, n AS value, IF(note IS NULL, 0, 1) AS flag"
)
STORY = """
CREATE TABLE {t} (id STRING, at TIMESTAMP, who STRING, n BIGINT, day DATE) USING delta PARTITIONED BY (who, day)
    TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true');
INSERT INTO {t}
    SELECT concat('k', id), timestamp'{at}', concat('w ', id % 2, '%'), id, date'2024-02-29' FROM range(100);
ALTER TABLE {t} ADD COLUMNS (note STRING);
INSERT INTO {t} SELECT concat('m', id), timestamp'{at}', NULL, id, NULL, 'new' FROM range(10);
UPDATE {t} SET n = n + 1000 WHERE id IN ('k5', 'k6');
DELETE FROM {t} WHERE id IN ('k7', 'm1');
MERGE INTO {t} USING (SELECT 'k8' AS id UNION ALL SELECT 'x') s ON {t}.id = s.id
    WHEN MATCHED THEN UPDATE SET who = 'moved'
    WHEN NOT MATCHED THEN INSERT (id, at, n) VALUES (s.id, timestamp'{at}', 7);
OPTIMIZE {t}"""
BY_VECTORS = """
ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name');
DELETE FROM {t} WHERE id = 'k9';
UPDATE {t} SET n = -1 WHERE id = 'k10'"""


def test_a_table_of_sparks_own_is_read_in_place_and_ends_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, now = tmp_path / "orders", utc_now()
    for statement in STORY.format(t=f"delta.`{table}`", at=f"{now:%Y-%m-%d} 00:00:00.000001").split(
        ";"
    ):
        spark.sql(statement)
    world = World(tmp_path / "lake")
    world.root.mkdir()
    toml = settings_text(table, SELECT).replace("2024-03-01", str(now.date() - timedelta(days=1)))
    (world.root / "lake.toml").write_text(toml + SHARED)
    days = DayRange(now.date() - timedelta(days=1), now.date() + timedelta(days=1))
    world.backfill(days)
    newest = {r["event_key"]: r for r in world.content("staging") if r["known_until"] is None}
    assert {k: (r["entity"], r["value"], r["event_ts"], r["flag"]) for k, r in newest.items()} == {
        r["id"]: (r["who"], r["n"], _plain(r["at"]), int(r["note"] is not None))
        for r in rows_in(table)
    }
    assert len(newest) == 109
    assert len(world.content("raw")) == 110 + 2 * 2 + 2 + 2 + 1, (
        "no row that a rewritten file repeats"
    )
    assert world.content("quarantine") == []
    before = world.contents()
    spark.sql(f"OPTIMIZE delta.`{table}` ZORDER BY (id)")
    world.backfill(days)
    assert (scan_all(world.open()[0]).known, world.contents()) == (
        len(world.content("files")),
        before,
    )
    _assert_vectors_are_read(spark, world, table, days)


def _assert_vectors_are_read(
    spark: SparkSession, world: World, table: Path, days: DayRange
) -> None:
    """Rows that a vector takes away are deletes; a renamed column is read by its name of now, also
    in the rows that came before."""
    before = world.contents()
    for statement in BY_VECTORS.format(t=f"delta.`{table}`").split(";"):
        spark.sql(statement)
    world.backfill(days)
    assert {r["event_key"] for r in world.content("staging") if r["known_until"] is None} == {
        r.id for r in spark.sql(f"SELECT id FROM delta.`{table}`").collect()
    }
    rows = len(world.content("raw"))
    assert rows == len(before["raw"]) + 1 + 2, "a row that was deleted, and two sides of another"
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN n TO amount")
    spark.sql(f"UPDATE delta.`{table}` SET amount = -2 WHERE id = 'k11'")
    with pytest.raises(LandingError, match="its column n is called amount now"):
        world.backfill(days)
    assert len(world.content("raw")) == rows
    toml = (world.root / "lake.toml").read_text()
    (world.root / "lake.toml").write_text(toml.replace("n AS value", "amount AS value"))
    world.backfill(days)
    assert {r["event_key"]: r["value"] for r in world.content("raw") if r["op"] != "delete"} == {
        **{r["event_key"]: r["value"] for r in before["raw"] if r["op"] != "delete"},
        "k10": -1,
        "k11": -2,
    }
    held = {r["event_key"]: r["value"] for r in world.content("staging") if not r["known_until"]}
    now = spark.sql(f"SELECT id, amount FROM delta.`{table}`").collect()
    assert held == {r.id: r.amount for r in now}


def _plain(at: datetime) -> datetime:
    return at.replace(tzinfo=None)
