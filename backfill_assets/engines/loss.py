"""Errors that mean a lost engine, a full disk or too little memory, and the one-line errors for
them.

Also the one-line error for whatever else one of several sources or tables causes (`failing_alone`).
Not here: replacing the engine, which the next `open_session` does.
"""

import errno
import logging
import re
import shutil
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from backfill_assets.engines.abilities import SHORT_OF_MEMORY
from backfill_assets.kernel.core.errors import (
    BackfillError,
    EngineLost,
    SettingsError,
    TransientError,
)
from backfill_assets.kernel.core.texts import printable_text, scrub_secrets, shortened_text

_REASON_LENGTH = 200
_TIGHT_BYTES = 256 << 20  # a load's own files of some days
_LOST_TYPES = {
    "RetriesExceeded",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "BrokenPipeError",
}
# Only these kinds of error may speak about the engine's own connection; a query's error may quote
# the same words.
_CONNECTION_ERRORS = {
    "SparkConnectGrpcException",
    "SparkConnectException",
    "RpcError",
    "PySparkRuntimeError",
}
_LOST_MESSAGES = re.compile(
    r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|Connection refused|Socket "
    r"closed|Connection reset"
    r"|GOAWAY|Stream "
    r"removed|INVALID_HANDLE\.SESSION|SESSION_CLOSED|SESSION_CHANGED|SESSION_NOT_FOUND|NO_ACTIVE_SESSION"
    r"|RETRIES_EXCEEDED|DEADLINE_EXCEEDED|Channel is closed|Cannot invoke RPC on closed channel",
    re.IGNORECASE,
)
_STOPPED_CONTEXT = re.compile(
    r"SparkContext was shut ?down|Cannot call methods on a stopped SparkContext", re.I
)
# The engine lives, and yet every query that needs this class or thread fails on it until it is
# replaced.
_POISONED = re.compile(
    r"NoClassDefFoundError|Could not initialize "
    r"class|ExceptionInInitializerError|UnsatisfiedLinkError"
    r"|java\.lang\.OutOfMemoryError"
)
_FULL = re.compile(
    r"No space left on device|Disk quota exceeded|database or disk is full", re.IGNORECASE
)
_WRITE_FAILED = re.compile(
    r"TASK_WRITE_FAILED\] Task failed while writing rows to (?:file:)?(\S+?)\.? "
)
# They print on stderr what is raised as well.
QUERY_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_FULL_NUMBERS = frozenset({errno.ENOSPC, errno.EDQUOT})
# Kinds of error that carry what the JVM said; others quote data and what users wrote.
_JVM_ERRORS = _CONNECTION_ERRORS | {
    "UnknownException",
    "SparkException",
    "SparkRuntimeException",
    "CommitFailedError",
}


def silence_raised_errors() -> None:
    """Keep pyspark from printing errors of queries, which it raises as well."""
    from pyspark.logger import PySparkLogger  # whoever asks first for a logger decides its class

    for name in QUERY_LOGS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def is_poisoned(error: BaseException) -> bool:
    """True if the engine that raised `error` answers and must be replaced: a class or memory is
    lost to it."""
    return any(_has_jvm_message(e, _POISONED) for e in _error_chain(error))


def is_disk_full(error: BaseException) -> bool:
    """True if `error` (or what caused it) means that a disk or a quota is full, here or in the
    engine."""
    return any(_is_full_disk_error(e) for e in _error_chain(error))


def _is_full_disk_error(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL_NUMBERS
    # Of delta-rs, of a server that could not start for it, and of SQLAlchemy.
    is_system_error = isinstance(error, OSError | EngineLost)
    if is_system_error or type(error).__name__ == "OperationalError":
        return _FULL.search(str(error)) is not None
    return _has_jvm_message(error, _FULL)


def _has_jvm_message(error: BaseException, words: re.Pattern[str]) -> bool:
    """Whether an error carries what the JVM said, and these words are in it."""
    return bool(_type_names(error) & _JVM_ERRORS) and words.search(str(error)) is not None


def _type_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def is_engine_loss(error: BaseException) -> bool:
    """True if `error` (or what caused it) means that the engine is gone, so that a retry needs a
    new session."""
    return any(_is_loss_itself(e) for e in _error_chain(error))


def engine_lost_error(error: BaseException) -> EngineLost:
    """The one-line error for `error`: without stack trace, without token."""
    lost = next((e for e in _error_chain(error) if _is_loss_itself(e)), error)
    if isinstance(lost, EngineLost):
        return lost
    reason = scrub_secrets(_loss_reason(str(lost)))[:_REASON_LENGTH]
    return EngineLost(
        "Spark",
        f"the engine died or cannot be reached ({type(lost).__name__}: {reason})",
        "What was running on it did not finish; what it had committed stands",
        "Run again, a new engine is started; its log is server.log in the lake's folder .server",
    )


def _loss_reason(text: str) -> str:
    """The words of an error's text that tell of a loss, else its first line."""
    for words in (_LOST_MESSAGES, _STOPPED_CONTEXT, _POISONED):
        if found := words.search(text):
            return found[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


@contextmanager
def failing_alone(what: str) -> Iterator[None]:
    """Make whatever reading one of several sources or tables raises a BackfillError about `what`,
    so that a loop over them can go on: what others write may be anything. It names the exception's
    type and our line, as a fault of ours is to be found. Errors of the product, of a lost engine,
    of memory and of a full disk pass as they are.
    """
    try:
        yield
    except BackfillError:
        raise
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # of Rust, which is no `Exception`
        is_of_source = isinstance(error, Exception) or is_panic
        if not is_of_source or _is_of_machine(error):
            raise
        raise BackfillError(
            what,
            f"it cannot be read ({_error_summary(error)})",
            "Nothing of it was read or recorded; all others were",
            "Correct what its owner wrote there last, or take it out of lake.toml; if it is as it "
            "should be, this is a fault of backfill-assets: report it with this line",
        ) from error


def _is_of_machine(error: BaseException) -> bool:
    """Whether an error is about the engine, memory or a disk, whatever was read."""
    tests = (is_disk_full, is_engine_loss, is_poisoned, is_short_of_memory)
    return any(is_so(error) for is_so in tests)


def _error_summary(error: BaseException) -> str:
    """The type of an error, the line of this package that met it, and the beginning of what it
    says."""
    package = str(Path(__file__).parent.parent)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(package)]
    place = ""
    if own:
        file = own[-1].filename.removeprefix(package).lstrip("/")
        place = f" in {file}:{own[-1].lineno}"
    text = shortened_text(printable_text(" ".join(str(error).split())), _REASON_LENGTH)
    return f"{type(error).__name__}{place}: {text}"


def is_short_of_memory(error: BaseException) -> bool:
    """Return whether `error` (or its cause) means that the queries need more memory than the
    engine's pool has."""
    return any(_has_jvm_message(e, SHORT_OF_MEMORY) for e in _error_chain(error))


def memory_exceeded_error() -> SettingsError:
    """Return the one-line error for a query that does not fit the engine's memory."""
    return SettingsError(
        "the engine",
        "a query needs more memory than `memory` below [spark] leaves it",
        "Nothing was written",
        'Raise it in lake.toml, take fewer days at once, or set engine = "embedded", which needs '
        "less",
    )


def write_failed_error(error: BaseException) -> TransientError | None:
    """Return the one-line error for files that Spark's tasks could not write, whose cause Spark's
    message leaves out; None for any other error."""
    failed = [e for e in _error_chain(error) if _has_jvm_message(e, _WRITE_FAILED)]
    words = _WRITE_FAILED.search(str(failed[0])) if failed else None
    if words is None:
        return None
    return TransientError(
        f"the folder {words[1]}",
        "Spark could not write its files there",
        "What was being written did not take effect; what was committed before stands",
        "The last lines of server.log in the lake's folder .server say why (space, a limit, "
        "rights): mend it, stop the engine with `backfill-assets server stop`, and run the same "
        "command again",
    )


def disk_full_error(folders: Iterable[Path]) -> TransientError:
    """The one-line error for a full disk: which disk it may be, by its free space, and what to
    do."""
    spaces = {str(f): shutil.disk_usage(f) for f in folders if f.exists()}
    tight = {f: s for f, s in spaces.items() if s.free < _TIGHT_BYTES}
    listed = ", ".join(
        f"{f} ({s.free >> 20:,} of {s.total >> 20:,} MiB are free now)"
        for f, s in (tight or spaces).items()  # a failed write may have freed some
    )
    return TransientError(
        f"the disk of {listed or 'the lake'}",
        "no space is left on it, or a quota is used up",
        "What was being written did not take effect; what was committed before stands",
        "Free space there, then run the same command again",
    )


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _is_loss_itself(error: BaseException) -> bool:
    if isinstance(error, EngineLost):
        return True
    names, text = _type_names(error), str(error)
    if names & _LOST_TYPES or _STOPPED_CONTEXT.search(text):
        return True
    if names & _CONNECTION_ERRORS and _LOST_MESSAGES.search(text):
        return True
    return _has_jvm_message(error, _POISONED)
