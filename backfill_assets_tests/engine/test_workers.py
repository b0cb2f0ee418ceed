"""Machines of an engine elsewhere: rows that their tasks wrote are counted, and one that is blind is named.

Not here: a real cluster with a blind worker (`end_to_end/test_machines.py`), files of sessions of others
(`test_foreign.py`).
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.errors import SparkRuntimeException

from backfill_assets.core.errors import SettingsError, TransientError
from backfill_assets.engine import workers
from backfill_assets.engine.workers import (
    counted_write,
    refuse_blind_workers,
    refuse_lost_rows,
    worker_of,
)
from backfill_assets.places.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage "
    "1.0 (TID 7) (10.0.0.3 executor 2): org.apache.spark.SparkFileNotFoundException: File file:/lake/a.parquet does "
    "not exist"
)


def addressed(folder: Path, name: str) -> str:
    return f"file://{folder / name}"


def test_machines_that_see_the_folder_of_a_lake_are_not_refused_and_leave_nothing_in_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    refuse_blind_workers(spark, Folder(str(tmp_path)), partial(addressed, tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_machines_with_a_folder_of_their_own_are_refused_with_what_to_do(spark: "SparkSession", tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with pytest.raises(SettingsError, match=r"of 4,096 rows that its machines wrote there, 0 are here.*same path"):
        refuse_blind_workers(spark, Folder(str(ours)), partial(addressed, theirs))


@pytest.mark.parametrize("blind", [set[str](), {"b process 2"}, {"b process 2", "c process 3"}])
def test_of_several_machines_the_blind_ones_are_named_and_no_other(
    blind: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everyone = {"a process 1", "b process 2", "c process 3"}
    each = workers.ASKED // len(everyone)
    names = [name for name in sorted(everyone - blind) for _ in range(each)]
    rest = ["a process 1"] * (workers.ASKED - each * len(everyone))
    monkeypatch.setattr(workers, "_write_names", lambda *_: everyone)
    monkeypatch.setattr(workers, "_names_found", lambda *_: names + rest)
    ask = partial(refuse_blind_workers, cast("SparkSession", None), Folder(str(tmp_path)), str)
    if not blind:
        ask()
        return
    with pytest.raises(SettingsError) as refusal:
        ask()
    assert {name for name in everyone if name in str(refusal.value)} == blind


def test_a_frame_is_written_once_whether_or_not_its_engine_counts_meanwhile(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = tmp_path / "rows"
    counted = counted_write(spark.range(5), lambda rows: rows.write.mode("append").parquet(f"file://{folder}"))
    assert counted in (5, None)
    assert spark.read.parquet(str(folder)).count() == 5


@pytest.mark.parametrize(("counted", "asked"), [(4, False), (5, True), (3, True), (None, True)])
def test_machines_are_asked_again_where_rows_are_lost_or_not_counted(
    counted: int | None, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[Any] = []
    monkeypatch.setattr(workers, "refuse_blind_workers", lambda *about: questions.append(about))
    hold = partial(refuse_lost_rows, cast("SparkSession", None), Folder(str(tmp_path)), str, "the table raw")
    if counted in (4, None):
        hold((counted, 4))
    else:
        with pytest.raises(TransientError, match=f"the table raw: of {counted} rows .*, 4 are here"):
            hold((counted, 4))
    assert bool(questions) == asked


@pytest.mark.parametrize(("said", "worker"), [(FAILED, "10.0.0.3 executor 2"), ("PATH_NOT_FOUND", "")])
def test_the_machine_of_a_failed_task_is_read_from_what_spark_says(said: str, worker: str) -> None:
    assert worker_of(SparkRuntimeException(said)) == worker
