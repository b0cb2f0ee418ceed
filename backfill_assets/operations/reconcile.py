"""Reconciliation: the rows of two sides matched by a business key, in both directions, by SQL that is kept.

Not here: what a side may be (`reconcile_sides`), matching the rows (`lake.matching`).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.matched_columns import compared_columns, parse_tolerances
from backfill_assets.lake.matching import Matching
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.reconcile_report import ReconcileReport, ReconcileRequest
from backfill_assets.operations.reconcile_sides import (
    NOTHING,
    Side,
    by_grain,
    columns_of,
    open_side,
    refuse_lacking,
    unreadable,
)
from backfill_assets.operations.sql import own_engine

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def reconcile(lake: Lake, pipeline: Pipeline, asked: ReconcileRequest) -> ReconcileReport:
    """Match the rows of both sides; needs no JVM and changes nothing.

    Raises BackfillError for a side that cannot be read or changes meanwhile, for columns that a side lacks, and if both
    sides are empty.
    """
    with own_engine(lake) as engine:
        left, right = (open_side(engine, lake, pipeline, text) for text in (asked.left, asked.right))
        try:
            if asked.grain:
                left, right = (by_grain(engine, side, asked.grain, asked.columns) for side in (left, right))
                asked = replace(asked, key=(asked.grain,))
            matching, unmatched = _matching(engine, left, right, asked)
            with unreadable(f"{left.name} or {right.name}", "Leave the column out (--ignore), or cast it in a query"):
                report = _report(matching, (left, right), unmatched, asked)
        finally:
            for side in (left, right):
                side.refuse_changed()
        if not any(report.rows):
            raise BackfillError(
                "the reconciliation", f"neither {left.name} nor {right.name} has rows (of these days)", NOTHING,
                "Name sides that hold rows",
            )  # fmt: skip
        return report


Unmatched = tuple[tuple[str, ...], tuple[str, ...]]  # the columns of each side that the other lacks


def _matching(
    engine: "DuckDBPyConnection", left: Side, right: Side, asked: ReconcileRequest
) -> tuple[Matching, Unmatched]:
    """Decide key, day and compared columns; raises BackfillError where a side lacks one."""
    contract = left.contract or right.contract
    key = tuple(asked.key) or tuple(dict.fromkeys((contract.day_column, *contract.key)) if contract else ())
    if not key:
        raise BackfillError(
            "the reconciliation", "no key is known: neither side is a table of a lake", NOTHING,
            "Name the columns that identify a row: --key a,b",
        )  # fmt: skip
    day = asked.day_column or (contract.day_column if contract else None)
    types = [columns_of(engine, side) for side in (left, right)]
    for side, there in zip((left, right), types, strict=True):
        refuse_lacking(side, [*key, *([day] if day else [])], there, "of --key or the day")
        refuse_lacking(side, [*asked.columns, *asked.tolerance], there, "of --columns or --tolerance")
    if asked.days and not day:
        raise BackfillError(
            "the reconciliation", "it is to compare days, and no column gives a row's day", NOTHING,
            "Name it with --day-column",
        )  # fmt: skip
    compared = compared_columns(engine, types, key, asked.columns, asked.ignore)
    columns = parse_tolerances(compared, asked.tolerance)
    alone = [tuple(c for c in one if c not in (*two, *asked.ignore)) for one, two in (types, types[::-1])]
    unmatched = ((), ()) if asked.columns else (alone[0], alone[1])
    selects = left.select, right.select
    return Matching(engine, selects, key, day, columns, asked.days, asked.seed), unmatched


def _report(
    matching: Matching, sides: tuple[Side, Side], unmatched: Unmatched, asked: ReconcileRequest
) -> ReconcileReport:
    """Match the rows, and gather what was found."""
    nulls, doubled = matching.match([statement for side in sides for statement in side.setup])
    days, columns, examples = matching.days(), matching.columns_found(), matching.examples()
    drawn, digests = matching.spot_check(asked.sample), matching.digests() if asked.sha256 else None
    return ReconcileReport(
        sides[0].name, sides[1].name, tuple(matching.key), days, columns, nulls, doubled, unmatched, examples, drawn,
        digests, ";\n".join([*matching.script, ""]),
    )  # fmt: skip
