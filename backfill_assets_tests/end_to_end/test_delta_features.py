"""Tables with what Delta gives to tables today, as Spark makes them: a source, an input and an adopted
table have at every version the rows that Spark reads there. Not here: loads of such a table
(`test_table_sources_on_spark`), and what is refused (`kernel.log.test_features`)."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from backfill_assets.foreign.adoptable import Adoption
from backfill_assets.foreign.adopting import adopt_table
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import LOG
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.replayed_table import ObservedTable, ReplayedTable, Rows, counted

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.on_spark("the tables are written by Spark's own Delta"),
]
WITH_MORE = (
    "id INT, day DATE, v STRING, n DECIMAL(6,2), "
    "s STRUCT<a: INT, b: ARRAY<STRUCT<c: FLOAT>>>, m MAP<STRING, DECIMAL(5,2)>"
)
RANGE = " FROM range({}, {}, 1, 1)"
ROWS = f"SELECT id, DATE'2024-03-01' + CAST(id % 2 AS INT), concat('v', id){RANGE}"
MORE = (
    f"{ROWS.removesuffix(RANGE)}, id * 1.25, IF(id % 4 = 0, NULL, named_struct('{{field}}', CAST(id AS INT), 'b', "
    f"array(named_struct('c', CAST(id / 7 AS FLOAT)), NULL))), map('k', CAST(id AS DECIMAL(5,2))){RANGE}"
)
# Of columns of `WITH_MORE`.
WIDER = (
    ("id", "BIGINT"),
    ("n", "DECIMAL(12,2)"),
    ("s.{field}", "BIGINT"),
    ("s.b.element.c", "DOUBLE"),
    ("m.value", "DECIMAL(12,4)"),
)
SWITCHES = (
    "enableDeletionVectors",
    "enableChangeDataFeed",
    "enableRowTracking",
    "enableInCommitTimestamps",
)
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
FIRST = int(os.environ.get("BACKFILL_ASSETS_DELTA_FIRST", "0"))  # the seed of the first one


class _Doors:
    """A table of Spark's, as a source of a lake, as an input of it, and adopted by another."""

    def __init__(self, spark: SparkSession, lake: Lake, place: Path) -> None:
        self.spark, self.lake, self.place = spark, lake, str(place)
        self.source = ReplayedTable(lake, self.place)
        self.input = ObservedTable(lake, self.place, "day")

    def differences(self, *, is_renamed: bool = False) -> Iterator[str]:
        """What differs between the rows that either door has and those that Spark reads.
        `is_renamed`: a column has another name since, or is another one, or commits of before are
        gone."""
        if is_renamed:  # `first_version`, the way out that the refusal names
            self.source = ReplayedTable(self.lake, self.place, self._newest_version())
        found = self.rows()
        mine = _of_columns(self.source.read_on(), self._columns())
        yield from _difference("source", mine, found)
        before, columns = self.input.rows, self.input.columns
        rows = self.input.look()
        expected = Rows({row: count for row, count in found.items() if "day" in dict(row)})
        yield from _difference("input", rows, _of_columns(expected, self.input.columns))
        changed = {dict(row)["day"] for row in (rows - before) + (before - rows)}
        if columns == self.input.columns and changed != {*map(str, self.input.days)}:
            yield f"the days {changed} changed, and the look found {[*map(str, self.input.days)]}"

    def adopted_difference(self, copy: Path) -> Iterator[str]:
        """What differs between the rows of Spark's and those of a `copy` of the table that a lake
        adopts; nothing where it refuses to."""
        shutil.copytree(self.place, copy / "orders")
        lake = bare_lake(copy / "lake")
        with suppress(BackfillError):
            adopt_table(lake, Adoption("orders", str(copy / "orders"), "day"), [])
            rows = DeltaTable(str(copy / "orders")).to_pyarrow_table().to_pylist()
            yield from _difference("adopted", counted(rows), self.rows())

    def rows(self) -> Rows:
        """The rows that Spark reads, without VARIANT."""
        frame = self.spark.read.format("delta").load(self.place).select(*self._columns())
        return counted(frame.toArrow().to_pylist())

    def _columns(self) -> tuple[str, ...]:
        """The columns, without the one of VARIANT."""
        frame = self.spark.read.format("delta").load(self.place)
        return tuple(name for name in frame.columns if name != "x")

    def _newest_version(self) -> int:
        return _newest_version(self.spark, f"delta.`{self.place}`")


def _newest_version(spark: SparkSession, table: str) -> int:
    newest = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").head()
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
        self.field = "a"  # in the column `s`
        self.wider = [*WIDER]
        mode = chance.choice(["name", "id", "none"])
        self.is_mapped, self.is_plain = mode != "none", chance.random() < 0.2
        layout = chance.choice(["", "PARTITIONED BY (day)", "CLUSTER BY (day)"])
        on = [f"'delta.{s}' = '{chance.choice(['false', 'true'])}'" for s in SWITCHES]
        on += [
            f"'delta.columnMapping.mode' = '{mode}'",
            "'delta.enableTypeWidening' = 'true'",
            f"'delta.checkpointPolicy' = '{chance.choice(['classic', 'v2'])}'",
        ]
        if self.is_plain:  # one that can be adopted
            self.is_mapped, self.wider, on = False, [], []
            layout = chance.choice(["", "PARTITIONED BY (day)"])
        properties = ", ".join(["'delta.checkpointInterval' = '3'", *on])
        self.run(
            f"CREATE TABLE {{t}} ({WITH_MORE}) USING delta {layout} TBLPROPERTIES ({properties})"
        )
        self._insert_rows(0, self.rows)

    def run(self, statement: str) -> None:
        """Run a statement about the table `{t}`."""
        self.spark.sql(statement.format(t=self.name))

    def step(self) -> bool:
        """Let something happen to the table; whether a column has another name, or is another one,
        afterwards, or the commits of before are gone."""
        steps: list[Callable[[], bool | None]] = [
            self._insert,
            self._update,
            self._delete,
            self._merge,
            self._compact,
            self._restore,
            self._overwrite_day,
            self._overwrite_days,
            self._lose_days,
            self._purge,
            self._vacuum,
            self._clean,
        ]
        if self.is_mapped:
            steps += [self._rename, self._rename_field, self._drop]
        if not self.is_plain:
            steps += [self._widen, self._switch]
        return bool(self.chance.choice(steps)())

    def _some(self) -> str:
        return f"id % {self.chance.randint(2, 7)} = {self.chance.randint(0, 1)}"

    def _insert_rows(self, first: int, end: int) -> None:
        rows = MORE.format(first, end, field=self.field)
        self.run(f"INSERT INTO {{t}} (id, day, {self.column}, n, s, m) {rows}")

    def _insert(self) -> None:
        self._insert_rows(self.rows, self.rows + 5)
        self.rows += 5

    def _update(self) -> None:
        self.number += 1
        news = self.chance.choice(
            [f"{self.column} = 'u{self.number}'", f"s.{self.field} = {self.number}", "n = n + 1"]
        )
        self.run(f"UPDATE {{t}} SET {news} WHERE {self._some()}")

    def _delete(self) -> None:
        self.run(
            f"DELETE FROM {{t}} WHERE {self._some()} AND id > {self.chance.randint(0, self.rows)}"
        )

    def _merge(self) -> None:
        low = self.chance.randint(0, self.rows)
        self.run(
            f"MERGE INTO {{t}} t USING (SELECT id FROM range({low}, {self.rows + 3})) s ON t.id = s.id "
            f"WHEN MATCHED AND t.{self._some()} THEN DELETE WHEN MATCHED THEN UPDATE SET {self.column} = 'm' "
            "WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, DATE'2024-03-02') "
            f"WHEN NOT MATCHED BY SOURCE AND t.{self._some()} THEN UPDATE SET n = NULL"
        )

    def _compact(self) -> None:
        self.run("OPTIMIZE {t}")

    def _purge(self) -> None:
        self.run("REORG TABLE {t} APPLY (PURGE)")

    def _vacuum(self) -> None:
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.run("VACUUM {t} RETAIN 0 HOURS")

    def _overwrite_day(self) -> None:
        self.run(
            "INSERT INTO {t} REPLACE WHERE day = DATE'2024-03-02' SELECT * FROM {t} WHERE "
            f"day = DATE'2024-03-02' AND NOT ({self._some()})"
        )

    def _overwrite_days(self) -> None:
        """All rows are written anew; most of them as they were."""
        self.run(f"INSERT OVERWRITE {{t}} SELECT * FROM {{t}} WHERE NOT ({self._some()})")

    def _lose_days(self) -> None:
        """Some rows are of no day, and others again of one."""
        self.run(f"UPDATE {{t}} SET day = NULL WHERE {self._some()} AND id % 4 = 0")
        self.run(f"UPDATE {{t}} SET day = DATE'2024-03-03' WHERE day IS NULL AND {self._some()}")

    def _restore(self) -> None:
        """Back by one version, whose files no vacuum took."""
        newest = _newest_version(self.spark, self.name)
        self.run("DELETE FROM {t} WHERE id % 5 = 0")
        self.run(f"RESTORE TABLE {{t}} TO VERSION AS OF {newest}")

    def _clean(self) -> bool:
        _clean_log(self.place / LOG)
        return True

    def _widen(self) -> None:
        if self.wider:
            column, kind = self.wider.pop(self.chance.randrange(len(self.wider)))
            named = column.format(field=self.field)
            self.run(f"ALTER TABLE {{t}} ALTER COLUMN {named} TYPE {kind}")

    def _switch(self) -> None:
        """A feature is switched on or off for what is written from now on."""
        name = self.chance.choice(SWITCHES)
        value = self.chance.choice(["false", "true"])
        self.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.{name}' = '{value}')")

    def _rename(self) -> bool:
        self.number += 1
        self.run(f"ALTER TABLE {{t}} RENAME COLUMN {self.column} TO v{self.number}")
        self.column = f"v{self.number}"
        return True

    def _rename_field(self) -> bool:
        self.number += 1
        self.run(f"ALTER TABLE {{t}} RENAME COLUMN s.{self.field} TO a{self.number}")
        self.field = f"a{self.number}"
        return True

    def _drop(self) -> bool:
        self.run(f"ALTER TABLE {{t}} DROP COLUMN {self.column}")
        self.run(f"ALTER TABLE {{t}} ADD COLUMN ({self.column} STRING)")
        return True


@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
def test_whatever_happens_to_a_table_every_door_has_the_rows_that_spark_reads(
    spark: SparkSession, lake: Lake, tmp_path: Path, seed: int
) -> None:
    history = _History(spark, tmp_path / "orders", random.Random(seed))
    doors = _Doors(spark, lake, history.place)
    for number in range(STEPS):
        is_renamed = history.step()
        assert [*doors.differences(is_renamed=is_renamed)] == []
        assert [*doors.adopted_difference(tmp_path / str(number))] == []
