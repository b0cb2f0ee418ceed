"""Independence of days: a user's transform must give a day the same rows alone as among the days of a range.

A run hands all its days to a transform at once. A join or window that does not name the day then reads rows that belong
to other days, and what a day holds depends on how a range was cut into runs. Each version of a table's code is held to
it once, at its first write of several days. Not here: what a query plan shows (`steadiness`), and proofs of days that
are written (`operations.prove`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date

from backfill_assets.core.days import from_inclusive
from backfill_assets.core.errors import OTHER_ROWS_ALONE, ContractBroken
from backfill_assets.core.states import States
from backfill_assets.lake.matching import differences
from backfill_assets.lake.staging import Staged
from backfill_assets.load.candidate import RebuildRequest

Stage = Callable[[Sequence[date]], Staged]  # computes and stages the rows of some days


def refuse_dependent(
    request: RebuildRequest, states: States, staged: Staged, days: Sequence[date], stage: Stage
) -> None:
    """Compute the middle one of these days alone, too (`stage`), and raise ContractBroken if its rows are not those in
    `staged`.

    Does nothing for tables of this package, for one day, for code that wrote days of one run together before, and where
    rows of other days came, which are refused by name. Values of DOUBLE columns may differ: their sums depend on the
    order of rows.
    """
    table, came = request.table, {f.partition for f in staged.files}
    others = came - {str(d) for d in days} if table.contract.partition_column == table.contract.day_column else ()
    if not table.brings_code or len(days) == 1 or others or _has_passed(states, table.name):
        return
    day, lake = days[len(days) // 2], request.lake_session.lake
    with request.phases.phase("alone"):
        alone = stage([day])
        try:
            found = differences(lake, table.contract, staged.paths, alone.paths, from_inclusive(day, day)).days
        finally:
            alone.drop()
    doubles = {c.name for c in table.contract.columns if c.kind.kind == "DOUBLE"}
    for other in found:
        if other.added or other.removed or set(other.columns) - doubles:
            columns = f", in {', '.join(other.columns)}" if other.columns else ""
            raise ContractBroken(
                f"the transform of {table.name}",
                f"{day} {OTHER_ROWS_ALONE} {len(days)} days: {other.added} added, {other.removed} removed, "
                f"{other.changed} changed{columns}",
                "Nothing was written",
                "A run hands over all its days at once: join and aggregate within the window of each row's own day "
                "(`backfill-assets guide own-tables`)",
            )


def _has_passed(states: States, table: str) -> bool:
    """Whether one write by today's code made several of the table's present days."""
    codes, stamps = states.codes[table], states.view.table(table).stamps.values()
    return max(Counter(s.version for s in stamps if codes.are_of(s)).values(), default=0) > 1
