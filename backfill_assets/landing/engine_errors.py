"""Errors of an engine over landed rows: an absent column, a mistake in `select`, a `select` that fits not, or bad data.

Not here: whether the engine is gone (`engine.loss`). Spark gives conditions and SQL states; an engine without them,
kinds and words.
"""

import re
from typing import Any

from backfill_assets.core.engines import SHORT_OF_MEMORY, SPARK, Engine
from backfill_assets.core.errors import SettingsError

OF_SELECT = "[source] select in lake.toml"
UNFIT = "select does not fit its columns: "  # how such a reason begins
# The text of `select` is wrong, whatever the files are: syntax, functions and their arguments.
OF_THE_TEXT = ("42601", "42883", "42605", "42803")
# Classes of SQL states that speak of data and types, never of the machine: data exceptions, what Spark cannot analyse
# or does not support, and files that it cannot decode.
OF_THE_DATA = ("22", "42", "0A", "KD")
_ABSENT = re.compile(r'attribute ObjectName\(\[Identifier\("((?:[^"\\]|\\.)*)"\)')
_OF_DATA = frozenset({
    "ParseException", "UnsupportedOperationException", "IllegalArgumentException", "AnalysisException",
    "ArithmeticException", "ArrayIndexOutOfBoundsException", "DateTimeException",
    "NumberFormatException", "SparkRuntimeException",
})  # fmt: skip


class UnfitSelect(Exception):
    """`select` cannot be applied to files of this schema; the text says why. The files are refused, others are read."""

    def __init__(self, why: str) -> None:
        super().__init__(UNFIT + why)


def analysis_errors() -> tuple[type[Exception], ...]:
    """The kinds that an engine raises over a query that it cannot analyse."""
    from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException

    return AnalysisException, IllegalArgumentException, UnsupportedOperationException


def has_no_condition(error: Any) -> bool:
    """Whether the error is of another engine than Spark, whose errors name a condition."""
    return getattr(error, "getCondition", lambda: "")() is None


def absent_column(error: Any) -> str:
    """The column, as the query spells it, that the error calls absent; empty for any other error."""
    if has_no_condition(error):
        found = _ABSENT.search(str(error))
        return found[1] if found and "missing from the schema" in str(error) else ""
    told = (error.getMessageParameters() or {}).get("objectName", "").strip("`").split("`.`")[0]
    return told if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN") else ""


def is_of_the_text(error: Any) -> bool:
    """Whether the query is at fault, whatever the data."""
    if has_no_condition(error):
        # What else it does not support may lie in the types of one file's columns.
        return type(error).__name__ == "ParseException" or "unknown function" in str(error)
    return (error.getSqlState() or "") in OF_THE_TEXT


def is_of_the_data(error: Exception) -> bool:
    """Whether the error speaks of data and types, and not of the machine."""
    if has_no_condition(error):
        return type(error).__name__ in _OF_DATA and not SHORT_OF_MEMORY.search(str(error))
    state = getattr(error, "getSqlState", lambda: None)() or ""
    return bool(state.startswith(OF_THE_DATA))


def refusal(error: Exception, engine: Engine = SPARK) -> Exception:
    """UnfitSelect for an error of analysing one schema; SettingsError where `select` fits no file."""
    line = str(error).splitlines()[0]
    if not is_of_the_text(error):
        return UnfitSelect(line)
    return SettingsError(
        OF_SELECT, f"{engine.name} refuses it ({line})",
        "Nothing was read",
        "Correct the expression; it sees the file's columns only",
    )  # fmt: skip
