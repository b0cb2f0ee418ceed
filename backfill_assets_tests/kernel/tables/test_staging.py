"""Staged files: invisible until they are published, gone when they are not, whoever was killed
meanwhile. Not here: judging staged rows (`test_audit`) and publishing them (`test_replace`)."""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from backfill_assets.engines.frame_files import conformed_frame, stage_frame
from backfill_assets.intake.landed_days import stage_rows
from backfill_assets.intake.ledger import FILES
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import WRITES, Staged, marker_folder, sweep_writes
from backfill_assets.kernel.tables.store import ensure_table
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import publish_by_hand, read_staged
from backfill_assets_tests.processes import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on_spark("Spark is the writer that it looks at")

ROWS = [{"entity": "A", "value": n, "event_date": day(n)} for n in range(3)]
STAGE = """
import sys
from pathlib import Path
from backfill_assets_tests.kernel.tables.test_staging import ROWS, STAGING
from backfill_assets_tests.files import bare_lake, stage_by_hand
staged = stage_by_hand(bare_lake(Path(sys.argv[1])), STAGING, ROWS)
print(staged.write_id, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def other(lake: Lake) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A process that has staged rows, and its write id."""
    with start("-c", STAGE, lake.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def writes(lake: Lake) -> set[str]:
    return {p.name for p in (lake.table_place("staging").local() / WRITES).iterdir()}


@pytest.mark.usefixtures("processes")
def test_a_killed_process_leaves_files_that_the_next_sweep_removes_and_a_living_one_keeps_its_own(
    lake: Lake, other: "tuple[subprocess.Popen[str], str]"
) -> None:
    process, write_id = other
    assert sweep_writes(lake, "staging") == 0
    assert writes(lake) == {write_id}
    process.kill()
    process.wait(60)
    assert sweep_writes(lake, "staging") == 1
    assert writes(lake) == set()
    assert sweep_writes(lake, "staging") == 0


def test_a_sweep_never_touches_what_the_log_names(lake: Lake) -> None:
    done = publish_by_hand(lake, STAGING, ROWS)
    (
        (lake.root / marker_folder("staging")) / done.write_id
    ).touch()  # killed between the commit and tidying up
    published = sorted((lake.table_place("staging").local() / WRITES).rglob("*.parquet"))
    unchanged = published[0].with_name("part-1.parquet")
    unchanged.write_bytes(b"of a day that did not change")
    assert sweep_writes(lake, "staging") == 0
    assert sorted((lake.table_place("staging").local() / WRITES).rglob("*.parquet")) == published
    assert list((lake.root / marker_folder("staging")).iterdir()) == []


@pytest.mark.parametrize("of", ["markers of the table", "markers", "the write", "all writes"])
def test_a_sweep_takes_and_removes_nothing_through_a_link(
    lake: Lake, tmp_path: Path, of: str
) -> None:
    done = publish_by_hand(lake, STAGING, ROWS)
    folder, marker = (
        lake.table_place("staging").local() / WRITES,
        lake.root / marker_folder("staging") / done.write_id,
    )
    marker.touch()
    link = {
        "the write": folder / done.write_id,
        "all writes": folder,
        "markers": marker.parent.parent,
    }.get(of, marker.parent)
    shutil.copytree(link, theirs := tmp_path / "theirs")
    link.rename(tmp_path / "moved")
    link.symlink_to(theirs)
    before = sorted(theirs.rglob("*"))
    with pytest.raises(BackfillError, match="a link leads out of"):
        sweep_writes(lake, "staging")
    assert sorted(theirs.rglob("*")) == before


def test_rows_of_ours_are_staged_without_an_engine(lake: Lake) -> None:
    ensure_table(lake, FILES)
    now = datetime(2024, 3, 1, tzinfo=UTC)
    row = ("landed", "a", "sha", day(0), 1, 0, 1, 10, 5, now, day(0), now, "digest", None)
    (file,) = stage_rows(lake, FILES, [row]).files
    (read,) = pq.read_table(Path(file.path)).to_pylist()
    assert tuple(read.values()) == row


def staged_by_spark(spark: "SparkSession", lake: Lake, *cells: tuple[object, ...]) -> Staged:
    frame = spark.createDataFrame(list(cells), "entity string, value bigint, event_date date")
    return stage_frame(lake, STAGING, conformed_frame(frame, STAGING))


def test_spark_writes_one_file_per_day_and_nothing_else(spark: "SparkSession", lake: Lake) -> None:
    staged = staged_by_spark(
        spark, lake, ("A", 1, day(0)), ("B", None, day(0)), ("A", 1, day(1)), ("C", 3, None)
    )
    assert [f.partition for f in staged.files] == [str(day(0)), str(day(1)), None]
    assert {p for p in staged.folder.rglob("*") if p.is_file()} == {
        Path(f.path) for f in staged.files
    }
    back = read_staged(spark, STAGING, staged).orderBy("event_date", "entity").collect()
    assert [tuple(r) for r in back] == [
        ("C", 3, None),
        ("A", 1, day(0)),
        ("B", None, day(0)),
        ("A", 1, day(1)),
    ]


def test_what_fails_half_way_leaves_nothing(spark: "SparkSession", lake: Lake) -> None:
    frame = spark.createDataFrame(
        [("A", 1, day(0))], "entity string, value bigint, event_date date"
    )
    bad = frame.selectExpr("entity", "cast(raise_error('no') as bigint) value", "event_date")
    with pytest.raises(Exception, match="no"):
        stage_frame(lake, STAGING, bad)
    assert writes(lake) == set()
