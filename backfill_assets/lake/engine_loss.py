"""Telling a lost engine from a failed query.

Lives here: which errors mean that the engine died or cannot be reached, and the one-line error that says so. Does not
live here: replacing the engine, which the next `open_session` does.
"""

import re
from collections.abc import Iterator

from backfill_assets.core.errors import EngineLost
from backfill_assets.lake.engine_confs import scrub

_REASON_LENGTH = 200
_LOST_TYPES = frozenset(
    {"RetriesExceeded", "Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}
)
# Only these kinds of error may speak about the engine's own connection; a query's error may quote the same words.
_SPEAKERS = frozenset(
    {"SparkConnectGrpcException", "SparkConnectException", "RpcError", "Py4JError", "PySparkRuntimeError"}
)
_LOST_WORDS = re.compile(
    r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|Connection refused|Socket closed|Connection reset"
    r"|GOAWAY|Stream removed|INVALID_HANDLE\.SESSION|SESSION_CLOSED|SESSION_CHANGED|SESSION_NOT_FOUND|NO_ACTIVE_SESSION"
    r"|RETRIES_EXCEEDED|Channel is closed|Cannot invoke RPC on closed channel|Answer from Java side is empty",
    re.IGNORECASE,
)
_STOPPED_CONTEXT = re.compile(
    r"SparkContext was shut ?down|Cannot call methods on a stopped SparkContext", re.IGNORECASE
)


def is_engine_loss(error: BaseException) -> bool:
    """True if `error` (or what caused it) means that the engine is gone, so that a retry needs a new session."""
    return any(_is_loss(e) for e in _chain(error))


def engine_lost(error: BaseException) -> EngineLost:
    """The one-line error for `error`: without stack trace, without token."""
    told = next((e for e in _chain(error) if _is_loss(e)), error)
    words = _LOST_WORDS.search(str(told)) or _STOPPED_CONTEXT.search(str(told))
    first = next((line.strip() for line in str(told).splitlines() if line.strip()), "")
    reason = scrub(words[0] if words else first)[:_REASON_LENGTH]
    return EngineLost(
        "Spark", f"the engine died or cannot be reached ({type(told).__name__}: {reason})",
        "What was running on it did not finish; what it had committed stands",
        "Run again, a new engine is started; its log is server.log in the lake's folder .server",
    )  # fmt: skip


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _is_loss(error: BaseException) -> bool:
    if isinstance(error, EngineLost):
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _LOST_TYPES:
        return True
    text = str(error)
    return bool((names & _SPEAKERS and _LOST_WORDS.search(text)) or _STOPPED_CONTEXT.search(text))
