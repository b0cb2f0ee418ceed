"""What a query gives, or Spark for many thin days, is staged as files of the contract, by its
partition column, or not at all.
Not here: publishing what was staged (`test_query_files`)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest

from backfill_assets.engines.frame_files import MANY_FOLDERS, conformed_frame, stage_frame
from backfill_assets.engines.sail import Sail
from backfill_assets.engines.session import set_confs
from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.contracts import Column
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.query_files import stage_query
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, read_staged
from backfill_assets_tests.processes import run_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

on_spark = pytest.mark.on_spark("only what it computed is parted without it")
TASKS = "spark.sql.shuffle.partitions"
EVERY = {
    "n": "INT",
    "b": "BOOLEAN",
    "d": "DOUBLE",
    "c": "DECIMAL(38,9)",
    "raw": "BINARY",
    "texts": "ARRAY<STRING>",
    "at": "TIMESTAMP",
    "on": "DATE",
}
KINDS = replace(
    STAGING,
    columns=(
        *STAGING.columns[:2],
        *(Column(n, t, "any", nullable=True) for n, t in EVERY.items()),
        STAGING.columns[2],
    ),
)
ROW = "SELECT DATE '{}' AS arrival_date, DATE '2024-02-26' AS event_date, 1::BIGINT AS deliveries, 1::BIGINT AS keys, \
0::BIGINT AS moved_keys, NULL::BIGINT AS greatest_lateness_s, 'f' AS fingerprint, '{}' AS arrival_month"


def test_rows_lie_in_the_folder_of_their_partition(lake: Lake) -> None:
    query = f"{ROW.format(day(0), '2024-02')} UNION ALL {ROW.format('2024-03-02', '2024-03')}"
    staged = stage_query(lake, ARRIVALS, query)
    assert sorted(f.partition or "" for f in staged.files) == ["2024-02", "2024-03"]
    assert audit_files(lake, staged.paths, ARRIVALS)[day(0)].rows == 1
    staged.drop()
    assert not staged.folder.exists()


@pytest.fixture
def few_rows(spark: "SparkSession") -> "Iterator[SparkSession]":
    before = spark.conf.get(TASKS)
    set_confs(spark, {TASKS: "1"})
    yield spark
    set_confs(spark, {TASKS: before or ""})


def every_kind(spark: "SparkSession", days: int) -> "DataFrame":
    """A row of every type for each of the days, the last of which is NULL, and one of NULLs."""
    cells = (
        "CAST(id AS INT) n",
        "id % 2 = 0 b",
        "if(id = 1, double('NaN'), -0D) d",
        "CAST(id AS DECIMAL(38,9)) c",
        "CAST('ab' AS BINARY) raw",
        "array('x', NULL, 'é') texts",
        "TIMESTAMP'1969-12-31 23:59:59.999999' at",
        "DATE'0001-01-01' on",
    )
    day_of = f"if(id = {days - 1}, NULL, date_add(DATE'{day(0)}', CAST(id AS INT))) event_date"
    full = spark.range(days).selectExpr("CAST(id AS STRING) entity", "id value", *cells, day_of)
    nulls = spark.range(1).selectExpr(
        "'none' entity",
        "CAST(NULL AS BIGINT) value",
        *(f"CAST(NULL AS {t}) {n}" for n, t in EVERY.items()),
        f"DATE'{day(0)}' event_date",
    )
    return full.unionByName(nulls)


@on_spark
def test_few_rows_of_many_days_are_written_at_once_and_are_the_same_rows_in_the_same_folders(
    few_rows: "SparkSession", tmp_path: Path
) -> None:
    lake, frame = bare_lake(tmp_path), conformed_frame(every_kind(few_rows, MANY_FOLDERS), KINDS)
    parted, by_spark = (
        stage_frame(lake, KINDS, frame, MANY_FOLDERS),
        stage_frame(lake, KINDS, frame, 1),
    )
    assert "DuckDB" in written_by(parted.paths[0])
    assert "parquet-mr" in written_by(by_spark.paths[0])
    assert [f.partition for f in parted.files] == [f.partition for f in by_spark.files]
    assert parted.files[-1].partition is None
    assert audit_files(lake, parted.paths, KINDS) == audit_files(lake, by_spark.paths, KINDS)
    back, told = (
        read_staged(few_rows, KINDS, s).selectExpr("hash(*)").collect() for s in (parted, by_spark)
    )
    assert sorted(back) == sorted(told)
    assert {p for p in parted.folder.rglob("*") if p.is_file()} == {
        Path(f.path) for f in parted.files
    }


def written_by(path: str) -> str:
    return str(pq.read_metadata(path).created_by)


@on_spark
def test_text_that_is_no_utf8_is_refused_and_leaves_nothing(
    few_rows: "SparkSession", tmp_path: Path
) -> None:
    lake = bare_lake(tmp_path)
    bad = few_rows.range(1).selectExpr(
        "CAST(X'FF' AS STRING) entity", "id value", f"DATE'{day(0)}' event_date"
    )
    with pytest.raises(ContractBroken, match="cannot be read back"):
        stage_frame(lake, STAGING, conformed_frame(bad, STAGING), MANY_FOLDERS)
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list((lake.root / ".staging" / "staging").iterdir())


@on_spark
@pytest.mark.parametrize("days", [1, MANY_FOLDERS])
def test_to_write_rows_spark_is_not_asked_to_analyse_their_plan(
    few_rows: "SparkSession", tmp_path: Path, days: int
) -> None:
    frame = conformed_frame(every_kind(few_rows, days), KINDS)
    stage_frame(bare_lake(tmp_path), KINDS, frame, days).drop()
    assert cast(Any, frame)._cached_schema is None  # pyspark keeps what an analysis gave
    assert frame.columns == list(KINDS.column_names)
    assert cast(Any, frame)._cached_schema is not None


WIDE, DAYS, LITTLE = 3, 7, "1m"
WRITES = """
    import json, sys
    from pathlib import Path
    from backfill_assets.engines.session import own_server
    from backfill_assets.engines.frame_files import write_frame
    from backfill_assets_tests.second_engine_probe import session_on

    wide, days, memory, to = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    with session_on("sail") as session:
        frame = session.range(2 * days).selectExpr(
            *(f"id + {n} AS c{n}" for n in range(wide)),
            f"CASE WHEN id < 2 * {days} - 1 THEN date_add(DATE '1969-12-25', cast(id % {days} AS INT)) END AS day",
        )
        write_frame(frame, to, "day", days + 1, memory)
        back = session.read.parquet(to).selectExpr("count(*)", "sum(c0)", "sum(c1)").collect()[0]
        left = [p.name for p in own_server(session).scratch.glob("unordered_*")]
    print(json.dumps([list(back), left, sorted({p.parent.name for p in Path(to).rglob("*.parquet")})]))
"""


@pytest.mark.usefixtures("processes")
def test_more_days_than_sails_memory_has_room_for_open_files_are_written_in_turn(
    tmp_path: Path,
) -> None:
    assert Sail().files_at_once(LITTLE, WIDE + 1) == 1
    rows, left, folders = json.loads(
        run_python(WRITES, str(WIDE), str(DAYS), LITTLE, tmp_path / "out")
    )
    assert rows == [2 * DAYS, sum(range(2 * DAYS)), sum(range(2 * DAYS)) + 2 * DAYS]
    assert left == []
    assert len(folders) == DAYS + 1  # a file each
    assert folders[0] == "day=1969-12-25"
    assert folders[-1] == "day=__HIVE_DEFAULT_PARTITION__"
