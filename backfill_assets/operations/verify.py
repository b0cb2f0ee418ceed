"""Verification: logs, files and rows of tables held against their receipts by a second reader.

Not here: what else may be wrong with a lake or its machine (`operations.doctor`).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError, refuse_unknown, unwritten
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES
from backfill_assets.operations.doctor_tables import (
    Diagnosis,
    examine_rows,
    examine_snapshots,
    examine_table,
    run_checks,
)
from backfill_assets.operations.rejected import ledgers_of


@dataclass(frozen=True)
class VerifyRequest:
    """What to verify."""

    tables: Sequence[str] = ()  # empty: all, with the ledgers
    days: Collection[date] | None = None  # rows of these days; None: all
    rows: bool = True  # False: only logs and sizes of files
    deep: bool = False  # also the bytes of earlier versions and of snapshots


def verify(lake: Lake, contracts: Sequence[Contract], request: VerifyRequest) -> list[Diagnosis]:
    """Return every finding about the tables, good ones included; a damaged table hides no other. Changes nothing.

    Raises UnknownName for a table that the lake does not have, BackfillError if none of the days was written.
    """
    known = {c.name: c for c in (*contracts, *ledgers_of(contracts))}
    refuse_unknown("table", request.tables, known, "Nothing was verified")
    chosen = [known[name] for name in request.tables] or list(known.values())
    if request.days is not None and not any(map(partial(_holds, lake, request.days), chosen)):
        raise unwritten("the verification", "Nothing was verified")
    landed = {c.source: c.name for c in contracts if c.is_landed}
    findings = run_checks(
        (f"the table {c.name}", partial(examine_table, lake, c, landed.get(c.source, ""), request.rows, request.deep))
        for c in chosen
    )
    if request.rows:
        receipted = [c for c in chosen if c.columns not in (ARRIVALS.columns, FILES.columns)]
        findings += run_checks((f"the contents of {c.name}", partial(_rows, lake, c, request.days)) for c in receipted)
    return findings + (run_checks([("snapshots", partial(examine_snapshots, lake, True))]) if request.deep else [])


def _holds(lake: Lake, days: Collection[date], contract: Contract) -> bool:
    """Whether a table has receipts of some of the days; also if its log is damaged, which is a finding."""
    try:
        return not {*days}.isdisjoint(lake.store.view(contract.name, contract.day_column).latest)
    except BackfillError:
        return True


def _rows(lake: Lake, contract: Contract, days: Collection[date] | None) -> Iterator[Diagnosis]:
    try:
        view = lake.store.view(contract.name, contract.day_column)
    except BackfillError:  # its log is damaged, which is a finding already
        return
    if view.latest:
        yield examine_rows(lake, contract, view, days)
