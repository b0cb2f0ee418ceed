"""Totals that manifests declare, held against contents of the content store, exactly and without a
JVM.

Not here: reading manifests (`intake.declared`), and what follows for a content that disagrees
(`dumps`, `scan`).
"""

import re
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING

from backfill_assets.intake.batches import BAD_REASON, BAD_TEXT, ROW_NUMBER
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.declared import MOST_DIGITS, DeclaredTotals, exact_number
from backfill_assets.intake.ledger import OF_TOTALS
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.embedded import duckdb_cursor, sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.folder import LakeFolder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EXACT = Context(prec=4 * MOST_DIGITS)  # a sum of 10^400 numbers beside 400 digits behind the point
# 38 digits hold their sums.
EXACT_TYPES = re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|DECIMAL\((1?\d|2[0-8]),\d+\)")
AT_ONCE = 10_000  # values


def totals_disagreement(
    lake: LakeFolder, file: StoredFile, declared: Sequence[DeclaredTotals]
) -> str:
    """Say how a content differs from the totals that its manifests declare; "" where it agrees.

    Rows are all records of the file, quarantined ones too. A sum is over all values of a column of
    the file that are numbers: a fraction counts as its shortest decimal, NULL and other texts count
    for nothing.
    """
    if declared and file.refused is not None and file.is_undecoded:
        return f"{OF_TOTALS}{declared[0].manifest}) are held against nothing: {file.refused}"
    for one in declared:
        if one.fault:
            return f"{OF_TOTALS}{one.manifest}) cannot be read: {one.fault}"
    differing, reasons = list[str](), list[str]()
    for one in declared:
        differences = _differences_from_totals(lake, file, one)
        if differences:
            differing.append(one.manifest)
            reasons += differences
    if not reasons:
        return ""
    return f"{OF_TOTALS}{differing[0]}) disagree: {'; '.join(reasons)}"


def _differences_from_totals(
    lake: LakeFolder, file: StoredFile, declared: DeclaredTotals
) -> list[str]:
    """How a content differs from what one manifest declares of it: rows, sums, absent columns; a
    text for each."""
    differences = []
    if declared.rows not in (None, file.rows):
        differences.append(f"the file has {file.rows} rows, declared are {declared.rows}")
    if not declared.sums:
        return differences
    with duckdb_cursor(lake) as engine:
        rows = f"read_parquet({sql_literal(str(file.parquet))}, hive_partitioning = false)"
        described = engine.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        kinds = {name: str(kind) for name, kind, *_ in described}
        there = kinds.keys() - {ROW_NUMBER, BAD_TEXT, BAD_REASON}
        for column, wanted in declared.sums.items():
            if column not in there:
                differences.append(f"the file has no column {printable_text(column)!r}")
                continue
            found, others = _column_sum(engine, rows, column, kinds[column])
            if found != wanted:
                besides = f" and {others} value(s) that are no numbers" if others else ""
                differences.append(
                    f"the sum of {printable_text(column)} is {found:f}{besides}, declared is "
                    f"{wanted:f}"
                )
    return differences


def _column_sum(
    engine: "DuckDBPyConnection", rows: str, column: str, kind: str
) -> tuple[Decimal, int]:
    """The exact sum of a column, and how many of its values are no numbers."""
    name = quoted_name(column)
    query = (
        f"SELECT CAST({name} AS VARCHAR), count(*) FROM {rows} WHERE {name} IS NOT NULL GROUP BY 1"
    )
    if EXACT_TYPES.fullmatch(kind):
        # DuckDB adds these exactly, so that the query gives their sum in place of each value.
        query = f"SELECT CAST(sum({name}) AS VARCHAR), 1 FROM {rows} HAVING count({name}) > 0"
    result, total, others = engine.execute(query), Decimal(0), 0
    with localcontext(EXACT):
        while batch := result.fetchmany(AT_ONCE):
            for text, times in batch:
                number = exact_number(text)
                if number is not None:
                    total += number * times
                elif text.strip():
                    others += times
    return total, others
