"""The bucket of a number as both engines' SQL says it, so that histograms of either are the same.

Lives here: that one expression. Does not live here: what a bucket is for and how histograms are judged (`core.drift`),
and counting them (`audit`, `profile`).
"""

from backfill_assets.core.contracts import Column
from backfill_assets.lake.fingerprints import Dialect, quoted

BEYOND_BUCKETS = float(1 << 62)  # greater doubles share its bucket


def bucket(column: Column, dialect: Dialect) -> str:
    """The bucket of a number (`core.drift`): its whole part's length in bits, negative below 0; NULL of NULL."""
    n = _whole(column, dialect)
    below = f"WHEN {n} < 0 THEN -1 - length(bin(-({n} + 1)))"  # the least number has no opposite
    return f"CASE WHEN {n} = 0 THEN 0 WHEN {n} > 0 THEN length(bin({n})) {below} END"


def _whole(column: Column, dialect: Dialect) -> str:
    """The number without its fraction, as a whole number of 64 bits; NULL of NaN."""
    n, kind = quoted(column.name, dialect), column.kind.kind
    if kind == "BOOLEAN":
        return f"CAST({n} AS INT)"
    if kind in ("INT", "BIGINT"):
        return n
    if kind == "DOUBLE":
        n = f"CASE WHEN NOT isnan({n}) THEN greatest(least({n}, {BEYOND_BUCKETS!r}), -{BEYOND_BUCKETS!r}) END"
    return f"CAST({n} AS BIGINT)" if dialect is Dialect.SPARK else f"CAST(trunc({n}) AS BIGINT)"
