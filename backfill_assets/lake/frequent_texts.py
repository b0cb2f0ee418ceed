"""The most frequent texts of a column per day, as SQL of DuckDB and as the histograms that receipts keep.

Not here: comparing them (`core.profiles`) and the other figures of an audit (`audit`). A column with many values costs
an approximate count of a sample, because only days with few are grouped by value.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.profiles import REST, VALUES_KEPT, Bucket
from backfill_assets.lake.fingerprints import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VALUE_CHARS = 24  # a longer text is no category, and receipts stay small
ROWS_PER_VALUE = 4  # of a day with fewer rows a value, nothing can be said
Found = dict[date | None, dict[Bucket, int]]
Counted = Mapping[str, Mapping[date | None, tuple[int, int]]]


def distinct(column: str, row_hash: str) -> str:
    """Return the expression of the approximate number of texts among a sixteenth of the rows, chosen by their hash."""
    return f"approx_count_distinct({quoted(column)}) FILTER (WHERE {row_hash} < '1')"


def frequent_texts(engine: "DuckDBPyConnection", rows: str, day_column: str, counted: Counted) -> dict[str, Found]:
    """Return, per column and day, the rows of each frequent text and of the others as `REST`; days with too few rows to
    say anything are left out. `counted`: per column and day of the query `rows`, the rows that are not NULL and their
    `distinct` texts.
    """
    most = 2 * VALUES_KEPT
    found: dict[str, Found] = {
        c: {d: {REST: n} for d, (n, texts) in days.items() if texts > most} for c, days in counted.items()
    }
    few = {c: [d for d, (n, _) in days.items() if d and n and d not in found[c]] for c, days in counted.items()}
    if not (few := {c: days for c, days in few.items() if days}):
        return found
    for day, which, text, n in engine.execute(_query(rows, day_column, few)).fetchall():
        found[[*few][which]].setdefault(day, {})[REST if text is None else text] = int(n)
    return found


def _query(rows: str, day_column: str, few: Mapping[str, Sequence[date]]) -> str:
    """The rows per day, column (its place in `few`) and text, from one reading of the files."""
    day, places = quoted(day_column), range(len(few))
    some = {d for days in few.values() for d in days}
    texts = ", ".join(f"{_of_days(c, day, few[c], some)} AS c{i}" for i, c in enumerate(few))
    which = " ".join(f"WHEN grouping(c{i}) = 0 THEN {i}" for i in places)
    named = f"rank <= {VALUES_KEPT} AND texts <= {2 * VALUES_KEPT} AND length(text) <= {VALUE_CHARS}"
    return (
        f"WITH narrow AS (SELECT {day} AS day, {texts} FROM ({rows}) WHERE {day} IN ({_dates(some)})), "
        f"by_text AS (SELECT day, CASE {which} END AS which, coalesce({', '.join(f'c{i}' for i in places)}) AS text, "
        f"count(*) AS n FROM narrow GROUP BY GROUPING SETS ({', '.join(f'(day, c{i})' for i in places)})), "
        "ranked AS (SELECT *, row_number() OVER (of_day ORDER BY n DESC, text) AS rank, count(*) OVER of_day AS texts, "
        "sum(n) OVER of_day AS all_rows FROM by_text WHERE text IS NOT NULL "
        f"WINDOW of_day AS (PARTITION BY day, which)) SELECT day, which, CASE WHEN {named} THEN text END, sum(n) "
        f"FROM ranked WHERE texts > {2 * VALUES_KEPT} OR all_rows >= {ROWS_PER_VALUE} * texts GROUP BY ALL"
    )


def _of_days(column: str, day: str, days: Collection[date], read: Collection[date]) -> str:
    """The column's text on these of the days that are read, else NULL."""
    return (
        quoted(column) if len(days) == len(read) else f"CASE WHEN {day} IN ({_dates(days)}) THEN {quoted(column)} END"
    )


def _dates(days: Collection[date]) -> str:
    return ", ".join(f"DATE '{d}'" for d in days)
