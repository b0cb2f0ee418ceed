"""What an engine's error about a query means: an absent column, a mistake in the query's text, or a row of the data.

Lives here: Spark's conditions and SQL states, and the kinds and words by which Sail, which has neither, says the same.
Does not live here: what follows from it (`mapping`, `load.counting`), and whether the engine is gone (`engine.loss`).
"""

import re
from typing import Any

from backfill_assets.core.engines import SHORT_OF_MEMORY

# What is wrong with the text of `select` itself, whatever the files are: syntax, functions and their arguments.
OF_THE_TEXT = ("42601", "42883", "42605", "42803")
# Classes of SQL states that speak of data and types, never of the machine: data exceptions, what Spark cannot analyse
# or does not support, and files that it cannot decode.
OF_THE_DATA = ("22", "42", "0A", "KD")
_SAIL_ABSENT = re.compile(r'attribute ObjectName\(\[Identifier\("((?:[^"\\]|\\.)*)"\)')
_SAIL_DATA = frozenset({
    "ParseException", "UnsupportedOperationException", "IllegalArgumentException", "AnalysisException",
    "ArithmeticException", "ArrayIndexOutOfBoundsException", "DateTimeException",
    "NumberFormatException", "SparkRuntimeException",
})  # fmt: skip


def analysis_errors() -> tuple[type[Exception], ...]:
    """The kinds that an engine raises over a query that it cannot analyse."""
    from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException

    return AnalysisException, IllegalArgumentException, UnsupportedOperationException


def is_sails(error: Any) -> bool:
    """Whether the error is one of Sail's: Spark's name a condition."""
    return getattr(error, "getCondition", lambda: "")() is None


def absent_column(error: Any) -> str:
    """The column, as the query spells it, that the error calls absent; empty where it speaks of something else."""
    if is_sails(error):
        found = _SAIL_ABSENT.search(str(error))
        return found[1] if found and "missing from the schema" in str(error) else ""
    told = (error.getMessageParameters() or {}).get("objectName", "").strip("`").split("`.`")[0]
    return told if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN") else ""


def is_of_the_text(error: Any) -> bool:
    """Whether the query is at fault, whatever the data."""
    if is_sails(error):
        # What else it does not support may lie in the types of one file's columns.
        return type(error).__name__ == "ParseException" or "unknown function" in str(error)
    return (error.getSqlState() or "") in OF_THE_TEXT


def is_of_the_data(error: Exception) -> bool:
    """Whether the error speaks of data and types, and not of the machine."""
    if is_sails(error):
        return type(error).__name__ in _SAIL_DATA and not SHORT_OF_MEMORY.search(str(error))
    state = getattr(error, "getSqlState", lambda: None)() or ""
    return bool(state.startswith(OF_THE_DATA))
