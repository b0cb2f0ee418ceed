"""Days of a table as Spark SQL names them, for reading: typed dates only, as an IN list.

Lives here: the predicate of exact days. Does not live here: any statement that changes a table (`committer`).
BETWEEN on a partition column has failed inside Delta 4.4.0 with Spark 4.2 (facts: delta).
"""

from collections.abc import Iterable
from datetime import date


def days_predicate(column: str, days: Iterable[date]) -> str:
    """The exact days as Spark SQL; raises ValueError for no day (an empty list must never mean the whole table)."""
    listed = ", ".join(f"DATE'{d.isoformat()}'" for d in sorted(set(days)))
    if not listed:
        raise ValueError("a predicate of days needs at least one")
    return f"`{column}` IN ({listed})"
