"""Numbers about days, for people and plots: what a table's own functions count on a candidate before it is written.

Lives here: calling them. Does not live here: what they count (`pipeline.transforms`) and where they are shown
(`orchestration.metadata`). They decide nothing: no gate, no digest and no receipt contains them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import States
from backfill_assets.lake.audit import connection, selection
from backfill_assets.lake.model import Table
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.stretches import stretches
from backfill_assets.lake.table import days_predicate

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
    with connection(lake_session.lake) as engine:
        for files in stretches(staged.paths, table.contract):
            found = engine.execute(table.facts(selection(files, table.contract)))
            told |= _by_day([column[0] for column in found.description or ()], found.fetchall())
    return told


def revisions(
    lake_session: LakeSession,
    states: States,
    table: Table,
    staged: Staged,
    profiles: Mapping[date | None, DayProfile],
) -> Facts:
    """What the table's `revisions` say of the days whose rows differ from those that are there."""
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
    column = table.contract.day_column
    before = lake_session.read(table.name, view.version, column, changed)
    staged_rows = lake_session.lake.store.read_staged(lake_session.spark(), table.contract, staged)
    after = staged_rows.where(days_predicate(column, changed))
    found = table.revisions(before, after)
    return _by_day(found.columns, found.collect())


def _by_day(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Facts:
    """Numbers by name per day; the day is the first column."""
    told = {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in rows if row[0] is not None}
    return {day: {n: v for n, v in numbers.items() if v is not None} for day, numbers in told.items()}
