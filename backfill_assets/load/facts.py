"""Numbers of days for people and plots: the table's own functions over a candidate before it is written.

Not here: the queries (`pipeline.transforms`) and Dagster's metadata (`orchestration.metadata`). No gate, digest or
receipt contains these numbers.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import Altered
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import States
from backfill_assets.lake.embedded import AT_ONCE, connection, file_batches, selection
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Table
from backfill_assets.lake.staging import Staged

Facts = dict[date, dict[str, Any]]


def day_facts(
    lake: Lake,
    states: States,
    table: Table,
    staged: Staged | None,
    profiles: Mapping[date | None, DayProfile],
    *,
    at_once: int = AT_ONCE,
) -> Facts:
    """The numbers by name that the table's `facts` give of every staged day, and its `revisions` of each day whose rows
    differ from the published ones; NULLs are left out."""
    told: Facts = defaultdict(dict)
    if staged is None:
        return told
    if table.facts is not None:
        for files in file_batches(staged.paths, table.contract, at_once):
            _add(told, lake, table.facts(selection(files, table.contract)))
    view = states.view.table(table.name)
    entries = {d: view.stamps[d].entry for d in profiles if d is not None and d in view.stamps}
    changed = [d for d, entry in entries.items() if entry.rows and entry.content != profiles[d].content]
    if table.revisions is None or not changed:
        return told
    try:
        there = frozenset(lake.store.data_files(table.contract, view.version, changed))
    except Altered:  # nothing is known of the days before, which must not hinder the rebuild
        return told
    for files in file_batches([*there, *staged.paths], table.contract, at_once):  # of a day both sides come together
        sides = [f for f in files if f in there], [f for f in files if f not in there]
        _add(told, lake, table.revisions(*(_of_days(side, table.contract, changed) for side in sides)))
    return told


def _of_days(files: Sequence[str], contract: Contract, days: Sequence[date]) -> str:
    """A query for the rows of these days in these files."""
    listed, day = ", ".join(f"DATE '{d}'" for d in days), quoted(contract.day_column)
    return f"SELECT * FROM ({selection(files, contract)}) WHERE {day} IN ({listed})"


def _add(told: Facts, lake: Lake, query: str) -> None:
    """Add the numbers of a query by name; the day is its first column."""
    with connection(lake) as engine:
        found = engine.execute(query)
        _, *names = [column[0] for column in found.description or ()]
        rows = found.fetchall()
    for day, *numbers in (row for row in rows if row[0] is not None):
        told[day] |= {n: v for n, v in zip(names, numbers, strict=True) if v is not None}
