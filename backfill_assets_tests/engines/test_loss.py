"""Which errors end an engine that still answers, and what a full disk is told as.
Not here: losses of the connection (`test_session`) and a disk that is really full
(`end_to_end.test_full_disk`)."""

import errno

import pytest

from backfill_assets.engines.loss import (
    failing_alone,
    is_disk_full,
    is_engine_loss,
    is_poisoned,
    write_failed_error,
)
from backfill_assets.engines.session import explained_error
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.source_position import column_names
from backfill_assets.kernel.core.errors import BackfillError, EngineLost


class SparkConnectGrpcException(Exception):
    """Stands for pyspark's error of that name."""


class NumberFormatException(Exception):
    """Stands for pyspark's error of that name, which quotes data."""


class OperationalError(Exception):
    """Stands for SQLAlchemy's error of that name."""


LOST_CLASS = (
    "(java.lang.NoClassDefFoundError) Could not initialize class "
    "org.apache.spark.sql.delta.DeltaLog$"
)


@pytest.mark.parametrize(
    "words",
    [
        LOST_CLASS,
        "java.lang.OutOfMemoryError: unable to create native thread",
        "java.lang.ExceptionInInitializerError",
    ],
)
def test_an_engine_that_cannot_load_a_class_or_has_no_memory_is_lost(words: str) -> None:
    assert is_poisoned(SparkConnectGrpcException(words))
    assert is_engine_loss(SparkConnectGrpcException(words))
    assert not is_poisoned(NumberFormatException(f"The value '{words}' cannot be cast"))


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (SparkConnectGrpcException("(java.io.IOException) No space left on device"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (OperationalError("(sqlite3.OperationalError) database or disk is full"), True),
        (
            EngineLost("the server", "it did not start (OSError: No space left on device)", "", ""),
            True,
        ),
        (NumberFormatException("The value 'No space left on device' cannot be cast"), False),
    ],
)
def test_a_full_disk_is_told_from_data_that_speaks_of_one(error: Exception, full: bool) -> None:
    assert is_disk_full(error) is full


def test_files_that_spark_could_not_write_are_an_error_in_four_parts() -> None:
    words = (
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/tables/raw/_w. "
        "SQLSTATE: 58030"
    )
    told = str(write_failed_error(SparkConnectGrpcException(words)))
    assert told.startswith(
        "the folder /lake/tables/raw/_w: Spark could not write its files there. What was"
    )
    assert "server.log" in told
    assert write_failed_error(NumberFormatException(words)) is None, "which quotes data"


class PanicException(BaseException):
    """Stands for the error of that name by which Rust's code ends, which is no `Exception`."""


@pytest.mark.parametrize(
    "error",
    [KeyError("schemaString"), RecursionError("deep"), OSError(22, "odd"), PanicException("x")],
)
def test_any_failure_of_one_table_is_an_error_about_it_that_names_its_type(
    error: BaseException,
) -> None:
    words = f"^the table orders: it cannot be read .{type(error).__name__}"
    with pytest.raises(BackfillError, match=words) as told, failing_alone("the table orders"):
        raise error
    assert told.value.__cause__ is error


def test_a_failure_of_ours_names_the_line_of_ours() -> None:
    words = r"JSONDecodeError in intake/source_position\.py:\d+"
    with pytest.raises(BackfillError, match=words) as told, failing_alone("the table orders"):
        column_names("{")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(1),
        LandingError("a", "b", "c", "d"),
        OSError(errno.ENOSPC, "full"),
        SparkConnectGrpcException("StatusCode.UNAVAILABLE"),
    ],
)
def test_what_is_no_fault_of_the_table_passes_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)) as told, failing_alone("the table orders"):
        raise error
    assert told.value is error


def test_a_file_that_a_transform_names_and_is_not_there_is_no_fault_of_the_machine() -> None:
    assert explained_error(FileNotFoundError(errno.ENOENT, "no such file", "rates.csv")) is None
    refused = explained_error(PermissionError(errno.EACCES, "Permission denied", "rates.csv"))
    assert refused is not None
    assert refused.object == "rates.csv"
