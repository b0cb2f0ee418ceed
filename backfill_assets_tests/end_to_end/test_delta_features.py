"""Tables with what Delta gives to tables today, as Spark makes them: a source and an input have at every
version the rows that Spark reads there. Not here: loads of such a table
(`test_table_sources_on_spark`), and what is refused (`kernel.log.test_features`)."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.kernel.log.log import LOG
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.replayed_table import ObservedTable, ReplayedTable, Rows, counted

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.on_spark("the tables are written by Spark's own Delta"),
]
PLAIN = "id INT, day DATE, v STRING"
ROWS = "SELECT id, DATE'2024-03-01' + CAST(id % 2 AS INT), concat('v', id) FROM range({}, {}, 1, 1)"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
# Features, the columns and properties of a table that has them, and what is done to it.
FEATURES = {
    "all that change no row": (
        "id BIGINT, day DATE, v STRING DEFAULT 'none', n BIGINT GENERATED ALWAYS AS IDENTITY, "
        "y INT GENERATED ALWAYS AS (YEAR(day)), at TIMESTAMP_NTZ",
        "'delta.enableRowTracking' = 'true', 'delta.checkpointPolicy' = 'v2', "
        "'delta.checkpointInterval' = '2', 'delta.enableInCommitTimestamps' = 'true', "
        "'delta.feature.allowColumnDefaults' = 'supported', 'delta.columnMapping.mode' = 'id'",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)",
    ),
    "type widening": (
        "id INT, day DATE, v STRING",
        "'delta.enableTypeWidening' = 'true'",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
    ),
    "a column that nobody reads": (
        "id BIGINT, day DATE, v STRING, x VARIANT",
        "'delta.enableVariantShredding' = 'true', 'delta.enableChangeDataFeed' = 'true'",
        "INSERT INTO {t} SELECT 9, DATE'2024-03-02', 'x', parse_json('{{\"a\": 1}}')",
    ),
    "checkpoints of several parts": (
        "id BIGINT, day DATE, v STRING",
        "'delta.checkpointInterval' = '2'",
        "INSERT INTO {t} SELECT 9, DATE'2024-03-02', 'x'",
    ),
}
STEPS = 8 if "BACKFILL_ASSETS_DELTA_HISTORIES" in os.environ else 5  # that a history has
HISTORIES = int(os.environ.get("BACKFILL_ASSETS_DELTA_HISTORIES", "1"))  # by `thorough.py` more


class _Doors:
    """A table of Spark's, as a source of a lake and as an input of it."""

    def __init__(self, spark: SparkSession, lake: Lake, place: Path) -> None:
        self.spark, self.lake, self.place = spark, lake, str(place)
        self.source = ReplayedTable(lake, self.place)
        self.input = ObservedTable(lake, self.place, "day")

    def differences(self, *, is_renamed: bool = False) -> Iterator[str]:
        """What differs between the rows that either door has and those that Spark reads.
        `is_renamed`: a column has another name since, or is another one."""
        if is_renamed:  # `first_version`, the way out that the refusal names
            self.source = ReplayedTable(self.lake, self.place, self._newest_version())
        found = self.rows()
        mine = _of_columns(self.source.read_on(), self._columns())
        yield from _difference("source", mine, found)
        before, columns = self.input.rows, self.input.columns
        rows = self.input.look()
        yield from _difference("input", rows, _of_columns(found, self.input.columns))
        changed = {dict(row)["day"] for row in (rows - before) + (before - rows)}
        if columns == self.input.columns and changed != {*map(str, self.input.days)}:
            yield f"the days {changed} changed, and the look found {[*map(str, self.input.days)]}"

    def rows(self) -> Rows:
        """The rows that Spark reads, without VARIANT."""
        frame = self.spark.read.format("delta").load(self.place).select(*self._columns())
        return counted(row.asDict(recursive=True) for row in frame.collect())

    def _columns(self) -> tuple[str, ...]:
        """The columns, without the one of VARIANT."""
        frame = self.spark.read.format("delta").load(self.place)
        return tuple(name for name in frame.columns if name != "x")

    def _newest_version(self) -> int:
        newest = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.place}` LIMIT 1").head()
        assert newest is not None
        return int(newest["version"])


def _difference(door: str, rows: Rows, expected: Rows) -> Iterator[str]:
    if rows != expected:
        yield f"{door}: too many {[*(rows - expected)][:3]}, too few {[*(expected - rows)][:3]}"


def _of_columns(rows: Rows, columns: tuple[str, ...]) -> Rows:
    """The rows with these columns only."""
    found = Rows()
    for row, count in rows.items():
        found[tuple(value for value in row if value[0] in columns)] += count
    return found


PART_SIZE = "spark.databricks.delta.checkpoint.partSize"


@pytest.fixture
def parts(spark: SparkSession) -> Iterator[None]:
    """Checkpoints with a part for every two actions."""
    spark.conf.set(PART_SIZE, "2")
    yield
    spark.conf.unset(PART_SIZE)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_with_a_feature_has_the_rows_that_spark_reads(
    spark: SparkSession, lake: Lake, tmp_path: Path, feature: str
) -> None:
    columns, properties, change = FEATURES[feature]
    name = f"delta.`{tmp_path / 'orders'}`"
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING delta TBLPROPERTIES ({properties}, {VECTORS})"
    )
    doors = _Doors(spark, lake, tmp_path / "orders")
    for statement in (
        f"INSERT INTO {name} (id, day, v) {ROWS.format(0, 6)}",
        change.format(t=name),
        f"UPDATE {name} SET v = 'w' WHERE id IN (1, 2)",
        f"DELETE FROM {name} WHERE id = 3",
    ):
        spark.sql(statement)
        assert [*doors.differences()] == [], statement
    _clean_log(tmp_path / "orders" / LOG)
    assert [*doors.differences(is_renamed=True)] == []


def _clean_log(log: Path) -> None:
    """Take away the commits before the newest checkpoint, if the log has one."""
    last = max((file.name for file in log.glob("*.checkpoint*")), default="")
    for commit in log.glob("*.json"):
        if commit.name.partition(".")[0] < last.partition(".")[0]:
            commit.unlink()


class _History:
    """A table of Spark's, and what may happen to it next."""

    def __init__(self, spark: SparkSession, place: Path, chance: random.Random) -> None:
        self.spark, self.chance, self.place = spark, chance, place
        self.name, self.column, self.number, self.rows = f"delta.`{place}`", "v", 0, 40
        mode = chance.choice(["name", "id", "none"])
        self.is_mapped, self.is_wide = mode != "none", False
        layout = chance.choice(["", "PARTITIONED BY (day)", "CLUSTER BY (day)"])
        switches = ["enableChangeDataFeed", "enableRowTracking", "enableInCommitTimestamps"]
        on = [f"'delta.{s}' = '{chance.choice(['false', 'true'])}'" for s in switches]
        self.run(
            f"CREATE TABLE {{t}} ({PLAIN}) USING delta {layout} TBLPROPERTIES ({VECTORS}, "
            f"'delta.columnMapping.mode' = '{mode}', 'delta.enableTypeWidening' = 'true', "
            f"'delta.checkpointInterval' = '3', "
            f"'delta.checkpointPolicy' = '{chance.choice(['classic', 'v2'])}', {', '.join(on)})"
        )
        self.run(f"INSERT INTO {{t}} {ROWS.format(0, self.rows)}")

    def run(self, statement: str) -> None:
        """Run a statement about the table `{t}`."""
        self.spark.sql(statement.format(t=self.name))

    def step(self) -> bool:
        """Let something happen to the table; whether a column has another name, or is another one,
        afterwards."""
        steps: list[Callable[[], bool]] = [
            self._insert,
            self._update,
            self._delete,
            self._merge,
            self._compact,
            self._restore,
            self._overwrite_day,
            self._purge,
            self._vacuum,
            self._widen,
        ]
        if self.is_mapped:
            steps += [self._rename, self._drop]
        return self.chance.choice(steps)()

    def _some(self) -> str:
        return f"id % {self.chance.randint(2, 7)} = {self.chance.randint(0, 1)}"

    def _insert(self) -> bool:
        self.run(f"INSERT INTO {{t}} {ROWS.format(self.rows, self.rows + 5)}")
        self.rows += 5
        return False

    def _update(self) -> bool:
        self.number += 1
        self.run(f"UPDATE {{t}} SET {self.column} = 'u{self.number}' WHERE {self._some()}")
        return False

    def _delete(self) -> bool:
        self.run(
            f"DELETE FROM {{t}} WHERE {self._some()} AND id > {self.chance.randint(0, self.rows)}"
        )
        return False

    def _merge(self) -> bool:
        low = self.chance.randint(0, self.rows)
        self.run(
            f"MERGE INTO {{t}} t USING (SELECT id FROM range({low}, {self.rows + 3})) s ON t.id = s.id "
            f"WHEN MATCHED AND t.{self._some()} THEN DELETE WHEN MATCHED THEN UPDATE SET {self.column} = 'm' "
            "WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, DATE'2024-03-02')"
        )
        return False

    def _compact(self) -> bool:
        self.run("OPTIMIZE {t}")
        return False

    def _purge(self) -> bool:
        self.run("REORG TABLE {t} APPLY (PURGE)")
        return False

    def _vacuum(self) -> bool:
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.run("VACUUM {t} RETAIN 0 HOURS")
        return False

    def _overwrite_day(self) -> bool:
        self.run(
            "INSERT INTO {t} REPLACE WHERE day = DATE'2024-03-02' SELECT * FROM {t} WHERE "
            f"day = DATE'2024-03-02' AND NOT ({self._some()})"
        )
        return False

    def _restore(self) -> bool:
        """Back by one version, whose files no vacuum took."""
        self.run("DELETE FROM {t} WHERE id % 5 = 0")
        newest = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").head()
        assert newest is not None
        self.run(f"RESTORE TABLE {{t}} TO VERSION AS OF {newest['version'] - 1}")
        return False

    def _widen(self) -> bool:
        if not self.is_wide:
            self.run("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT")
        self.is_wide = True
        return False

    def _rename(self) -> bool:
        self.number += 1
        self.run(f"ALTER TABLE {{t}} RENAME COLUMN {self.column} TO v{self.number}")
        self.column = f"v{self.number}"
        return True

    def _drop(self) -> bool:
        self.run(f"ALTER TABLE {{t}} DROP COLUMN {self.column}")
        self.run(f"ALTER TABLE {{t}} ADD COLUMN ({self.column} STRING)")
        return True


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_whatever_happens_to_a_table_both_doors_have_the_rows_that_spark_reads(
    spark: SparkSession, lake: Lake, tmp_path: Path, seed: int
) -> None:
    history = _History(spark, tmp_path / "orders", random.Random(seed))
    doors = _Doors(spark, lake, history.place)
    for _ in range(STEPS):
        is_renamed = history.step()
        assert [*doors.differences(is_renamed=is_renamed)] == []
