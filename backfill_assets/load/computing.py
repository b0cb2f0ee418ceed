"""Computes days and stages their rows; a day of a user's code is computed again, in another order, and compared.

Not here: the plan of the rows (`making`), auditing and committing them (`derived`), and days of receipts (`recompute`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.core.days import from_inclusive
from backfill_assets.core.errors import OTHER_ROWS_AGAIN, OTHER_ROWS_ALONE, ContractBroken
from backfill_assets.core.states import States
from backfill_assets.lake.matching import DayDifference, differences
from backfill_assets.lake.session import ReorderedSession
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.writing import conform, stage
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.making import plan_rows
from backfill_assets.load.steadiness import refuse_changed_settings

ALWAYS_ALONE_BYTES = 4 * 2**20  # some hundred thousand rows: one day of them is cheap to compute twice


def stage_days(request: RebuildRequest, states: States, todo: Sequence[date]) -> Staged:
    """Compute and stage the rows of the days `todo`. The caller deletes what it returns."""
    contract = request.table.contract
    if request.given is not None:
        with request.phases.phase("write"):
            return request.given.stage()
    with request.phases.phase("transform"):
        frame = plan_rows(request, states, todo)
    with request.phases.phase("write"):
        refuse_changed_settings(request.lake_session.spark(), f"the table {contract.name}")
        return stage(request.lake_session.lake, contract, conform(frame, contract), len(todo))


def refuse_dependent(request: RebuildRequest, states: States, staged: Staged, days: Sequence[date]) -> None:
    """Compute the middle one of these days again, alone, from input rows in another order and other partitions, and
    raise ContractBroken if its rows differ from the rows in `staged`: a join or window that does not name the day reads
    rows of the other days that a run hands over at once; chance, a tie, a list as it comes, a sum of DOUBLEs give
    others.

    Done at the first write by each version of a table's code, at its first write of several days, and at later ones of
    little data: the days of the first one may have had no key in common. For no table of this package, and not where
    rows of other days came, which are refused by name. A tie that does not show on that day waits for `prove`.
    """
    table, came = request.table, {f.partition for f in staged.files}
    others = came - {str(d) for d in days} if table.contract.partition_column == table.contract.day_column else ()
    if request.given is not None or not table.brings_code or others:
        return
    if _has_passed(states, table.name, staged, len(days)):
        return
    day, lake_session = days[len(days) // 2], request.lake_session
    reordered = replace(request, lake_session=ReorderedSession(lake_session.lake, lake_session))
    with request.phases.phase("alone"):
        alone = stage_days(reordered, states, [day])
        try:
            span = from_inclusive(day, day)
            found = differences(lake_session.lake, table.contract, staged.paths, alone.paths, span).days
        finally:
            alone.drop()
    if differing := [d for d in found if d.added or d.removed or d.changed]:
        raise _dependence_error(table.name, day, len(days), differing[0])


def _dependence_error(table: str, day: date, days: int, found: DayDifference) -> ContractBroken:
    columns = f", in {', '.join(found.columns)}" if found.columns else ""
    what = f"{OTHER_ROWS_ALONE} {days} days" if days > 1 else OTHER_ROWS_AGAIN
    return ContractBroken(
        f"the transform of {table}",
        f"{day} {what}: {found.added} added, {found.removed} removed, {found.changed} changed{columns}",
        "Nothing was written",
        "A run hands over all its days at once, in no order: join and aggregate within the window of each row's own "
        "day, order by columns that hold the key, sort lists, sum DECIMALs in place of DOUBLEs, take chance from a "
        "hash of the key (`backfill-assets guide own-tables`)",
    )


def _has_passed(states: States, table: str, staged: Staged, days: int) -> bool:
    """Whether today's code made a present day before, and, for a write of several days that is not small, several
    present days by one write."""
    codes, latest = states.codes[table], states.view.table(table).latest.values()
    at_once = max(Counter(s.version for s in latest if codes.are_of(s)).values(), default=0)
    if days == 1:
        return at_once > 0
    return at_once > 1 and sum(f.size for f in staged.files) > ALWAYS_ALONE_BYTES
