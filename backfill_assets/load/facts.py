"""Numbers about days, for people and plots: what a table's own functions count on a candidate before it is written.

Lives here: calling them. Does not live here: what they count (`pipeline.transforms`) and where they are shown
(`orchestration.metadata`). They decide nothing: no gate, no digest and no receipt contains them.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged

Facts = dict[date, dict[str, Any]]


def staged_facts(
    lake_session: LakeSession,
    states: States,
    table: Table,
    staged: Staged | None,
    profiles: Mapping[date | None, DayProfile],
) -> Facts:
    """All that the table's own functions say of a staged candidate, per day."""
    if staged is None or (table.facts is None and table.revisions is None):
        return {}
    facts = day_facts(lake_session, table, staged)
    for day, found in revisions(lake_session, states, table, staged, profiles).items():
        facts[day] = {**facts.get(day, {}), **found}
    return facts


def day_facts(lake_session: LakeSession, table: Table, staged: Staged) -> Facts:
    """What the table's `facts` say of every day of what was staged, by name; NULLs are left out."""
    if table.facts is None:
        return {}
    told: Facts = {}
    for files in file_batches(staged.paths, table.contract):
        told |= _found(lake_session.lake, table.facts(selection(files, table.contract)))
    return told


def revisions(
    lake_session: LakeSession,
    states: States,
    table: Table,
    staged: Staged,
    profiles: Mapping[date | None, DayProfile],
    *,
    at_once: int = AT_ONCE,
) -> Facts:
    """What the table's `revisions` say of the days whose rows differ from those that are there, each by itself."""
    view = states.view.table(table.name)
    changed: Sequence[date] = [
        d
        for d, p in profiles.items()
        if d is not None
        and d in view.stamps
        and view.stamps[d].entry.rows
        and view.stamps[d].entry.content != p.content
    ]
    if table.revisions is None or not changed:
        return {}
    told: Facts = {}
    try:
        there = frozenset(lake_session.lake.store.data_files(table.contract, view.version, changed))
    except Altered:  # what the days held is not known; making them again must not fail for it
        return {}
    for files in file_batches([*there, *staged.paths], table.contract, at_once):  # of a day both sides come together
        sides = [f for f in files if f in there], [f for f in files if f not in there]
        before, after = (_of_days(side, table.contract, changed) for side in sides)
        told |= _found(lake_session.lake, table.revisions(before, after))
    return told


def _of_days(files: Sequence[str], contract: Contract, days: Sequence[date]) -> str:
    """A query for the rows of these days in these files."""
    listed, day = ", ".join(f"DATE '{d}'" for d in days), quoted(contract.day_column)
    return f"SELECT * FROM ({selection(files, contract)}) WHERE {day} IN ({listed})"


def _found(lake: Lake, query: str) -> Facts:
    with connection(lake) as engine:
        found = engine.execute(query)
        names = [column[0] for column in found.description or ()]
        return _by_day(names, found.fetchall())


def _by_day(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Facts:
    """Numbers by name per day; the day is the first column."""
    told = {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in rows if row[0] is not None}
    return {day: {n: v for n, v in numbers.items() if v is not None} for day, numbers in told.items()}
