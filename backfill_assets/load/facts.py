"""Numbers about days, for people and plots: what a table's own functions count on a candidate before it is written.

Lives here: calling them. Does not live here: what they count (`pipeline.transforms`) and where they are shown
(`orchestration.metadata`). They decide nothing: no gate, no digest and no receipt contains them.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import States
from backfill_assets.lake.model import Table
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged, read_staged
from backfill_assets.lake.table import days_predicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Facts = dict[date, dict[str, Any]]


def staged_facts(
    lake_session: LakeSession, states: States, table: Table, staged: Staged, profiles: Mapping[date | None, DayProfile]
) -> Facts:
    """All that the table's own functions say of a staged candidate, per day."""
    if table.facts is None and table.revisions is None:
        return {}
    frame = read_staged(lake_session.spark(), table.contract, staged)
    facts = day_facts(table, frame)
    for day, found in revisions(lake_session, states, table, frame, profiles).items():
        facts[day] = {**facts.get(day, {}), **found}
    return facts


def day_facts(table: Table, frame: "DataFrame") -> Facts:
    """What the table's `facts` say of every day of a conformed frame, by name; NULLs are left out."""
    return _by_day(table.facts(frame)) if table.facts else {}


def revisions(
    lake_session: LakeSession,
    states: States,
    table: Table,
    frame: "DataFrame",
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
    return _by_day(table.revisions(before, frame.where(days_predicate(column, changed))))


def _by_day(found: "DataFrame") -> Facts:
    day, *names = found.columns
    return {r[day]: {n: r[n] for n in names if r[n] is not None} for r in found.collect() if r[day] is not None}
