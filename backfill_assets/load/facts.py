"""Numbers of days for people and plots: the table's own functions over a candidate before it is written.

Not here: the queries (`pipeline.transforms`) and Dagster's metadata (`orchestration.metadata`). No gate, digest or
receipt contains these numbers.
"""

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
    """All numbers of the days of a staged candidate, by name; NULLs are left out."""
    if staged is None:
        return {}
    facts = day_facts(lake_session, table, staged)
    for day, found in revisions(lake_session, states, table, staged, profiles).items():
        facts[day] = {**facts.get(day, {}), **found}
    return facts


def day_facts(lake_session: LakeSession, table: Table, staged: Staged) -> Facts:
    """The numbers that the table's `facts` give of every staged day."""
    told: Facts = {}
    if table.facts is not None:
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
    """The numbers that the table's `revisions` give of each day whose rows differ from the published ones."""
    view = states.view.table(table.name)
    entries = {d: view.stamps[d].entry for d in profiles if d is not None and d in view.stamps}
    changed = [d for d, entry in entries.items() if entry.rows and entry.content != profiles[d].content]
    if table.revisions is None or not changed:
        return {}
    told: Facts = {}
    try:
        there = frozenset(lake_session.lake.store.data_files(table.contract, view.version, changed))
    except Altered:  # nothing is known of the days before, which must not hinder the rebuild
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
    """Numbers by name per day; the day is the first column."""
    with connection(lake) as engine:
        found = engine.execute(query)
        _, *names = [column[0] for column in found.description or ()]
        rows = found.fetchall()
    return {
        day: {n: v for n, v in zip(names, numbers, strict=True) if v is not None}
        for day, *numbers in rows
        if day is not None
    }
