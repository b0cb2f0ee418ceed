"""Machines of an engine elsewhere: rows that their tasks wrote are counted, and one that is blind
is named.

Not here: a real cluster with a blind worker (`end_to_end/test_machines.py`), files of sessions of
others (`test_foreign.py`).
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkException, SparkRuntimeException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException, SparkException

from backfill_assets.engines.workers import (
    blind_workers,
    counted_write,
    failed_worker,
    refuse_blind_workers,
    refuse_lost_rows,
)
from backfill_assets.kernel.core.errors import SettingsError, TransientError
from backfill_assets.kernel.place.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.3 executor 2)"
)
FAILED = (
    f"{LOST}: org.apache.spark.SparkFileNotFoundException: File file:/lake/a.parquet does not exist"
)


def addressed(folder: Path, name: str) -> str:
    return f"file://{folder / name}"


def test_machines_that_see_the_folder_of_a_lake_are_not_refused_and_leave_nothing_in_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    refuse_blind_workers(spark, Folder(str(tmp_path)), partial(addressed, tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_machines_with_a_folder_of_their_own_are_refused_with_what_to_do(
    spark: "SparkSession", tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with pytest.raises(
        SettingsError, match=r"of 4,096 rows that its machines wrote there, 0 are here.*same path"
    ):
        refuse_blind_workers(spark, Folder(str(ours)), partial(addressed, theirs))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (["a", "b", "a"], "c"),
        (["b"], "a, c"),
        ([], "a, b, c"),
        (["a", "b", "c"], "that it does not name"),
    ],
)
def test_of_several_machines_the_blind_ones_are_named_and_no_other(
    found: list[str], named: str
) -> None:
    assert blind_workers({"a", "b", "c"}, found) == named


def test_a_frame_is_written_once_whether_or_not_its_engine_counts_meanwhile(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = tmp_path / "rows"
    counted = counted_write(
        spark.range(5), lambda rows: rows.write.mode("append").parquet(f"file://{folder}")
    )
    assert counted in (5, None)
    assert spark.read.parquet(str(folder)).count() == 5


def test_rows_that_are_lost_though_all_machines_see_the_folder_now_end_a_write(
    spark: "SparkSession", tmp_path: Path
) -> None:
    hold = partial(
        refuse_lost_rows,
        spark,
        Folder(str(tmp_path)),
        partial(addressed, tmp_path),
        "the table raw",
    )
    hold((4, 4))
    hold((None, 4))
    for counted in (3, 5):
        with pytest.raises(
            TransientError, match=rf"the table raw: of {counted} rows .*, 4 are here"
        ):
            hold((counted, 4))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"{LOST}: java.io.IOException: Mkdirs failed to create file:/lake/x\n\tat org.apache.X",
            "10.0.0.3 executor 2 cannot write there (java.io.IOException: Mkdirs failed to create "
            "file:/lake/x)",
        ),
        (
            "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/x. SQLSTATE: 58030",
            "that it does not name cannot write there ([TASK_WRITE_FAILED]",
        ),
    ],
)
def test_a_machine_that_cannot_write_to_the_lake_is_named_with_what_it_says(
    said: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        refuse_blind_workers(
            failing(SparkException(said)), Folder(str(tmp_path)), partial(addressed, tmp_path)
        )
    assert str(refused.value).startswith(f"the folder {Folder(str(tmp_path)).uri()}: ")
    assert told in str(refused.value)
    assert "Nothing was published" in str(refused.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "other", [SparkException("PATH_NOT_FOUND"), SparkConnectGrpcException("StatusCode.UNAVAILABLE")]
)
def test_another_error_of_asking_the_machines_passes_as_it_is(
    other: PySparkException, tmp_path: Path
) -> None:
    with pytest.raises(type(other)):
        refuse_blind_workers(failing(other), Folder(str(tmp_path)), partial(addressed, tmp_path))


def failing(error: Exception) -> Mock:
    """A session whose queries raise the error."""
    return Mock(range=Mock(side_effect=error))


@pytest.mark.parametrize("counted", [5, None])
def test_machines_are_asked_again_where_rows_are_lost_or_not_counted(
    counted: int | None, spark: "SparkSession", tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with pytest.raises(SettingsError, match="sees another folder"):
        refuse_lost_rows(
            spark, Folder(str(ours)), partial(addressed, theirs), "the table raw", (counted, 4)
        )


@pytest.mark.parametrize(
    ("said", "worker"), [(FAILED, "10.0.0.3 executor 2"), ("PATH_NOT_FOUND", "")]
)
def test_the_machine_of_a_failed_task_is_read_from_what_spark_says(said: str, worker: str) -> None:
    assert failed_worker(SparkRuntimeException(said)) == worker
