"""`is_stale`: an automation condition that is true for the days whose receipts say that they need a
rebuild.

Here: asking the lake, once per tick for all assets that share it. Not here: which days need a
rebuild (`kernel.core.needs`), and the sensors, which ask the same and try again
(`dagster.adapter.ticks`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import Naming, declared_table_name, key_table_name
from backfill_assets.dagster.run_requests import request_identities
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.needs import Needs, rebuild_needs
from backfill_assets.kernel.core.process import lake_folder
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.settings import is_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.attention import keep_alarms
from backfill_assets.reading.readable import observe_others

IDENTITY_CHARS = 10
SEEN, ASKED = "seen", "asked"  # what the cursor keeps of a tick: the days by their identities


def is_stale(
    lake: str | Path,
    *,
    key_prefix: str | Sequence[str] = (),
    missing: bool = False,
    while_stale: bool = False,
) -> "dg.AutomationCondition[Any]":
    """A condition that is true for the stale days of the asset's table in the folder `lake`: by
    receipts they were made from inputs that have changed since (to the column, whoever wrote them),
    and all their inputs are in place. It composes: `is_stale(lake) &
    ~dg.AutomationCondition.in_progress()`.

    A day is true until it is requested, and then again only when its inputs, code or settings
    change, or somebody else writes it: a day whose run failed is left alone as it is. `.since(…)`
    is not needed.

    key_prefix: as of `build_lake_defs`; an asset that returns its rows to a `LakeIOManager` needs
    none. missing: also for days that were never made and that deliveries or written days downstream
    ask for. while_stale: at every tick as long as the day is stale, requested or not; for
    conditions that keep count themselves.

    The daemon cannot evaluate it: name the assets in a `dg.AutomationConditionSensorDefinition(…,
    use_user_code_server=True)`, as `build_lake_defs(automation="conditions")` does. Days of a table
    that the lake does not have, and of assets without partitions of times, are never true.
    """
    naming = Naming.below(key_prefix)
    return _StaleDays(_shared_tables(lake_folder(str(lake)), naming.prefix), missing, while_stale)


@dataclass(frozen=True)
class _LakeAtTick:
    """The lake at one tick: which days need a rebuild."""

    states: States
    found: Needs


@dataclass(frozen=True)
class _LakeTables:
    """The tables of a lake by asset keys, looked at once per tick."""

    root: Path
    naming: Naming
    # At most one.
    _newest: list[tuple[datetime, _LakeAtTick]] = field(
        default_factory=list, compare=False, repr=False
    )

    def table_of(self, key: dg.AssetKey, states: States) -> str | None:
        """The table of an asset, also of one that returns its rows to a `LakeIOManager`; None
        without one."""
        names = (
            declared_table_name(key, states.contracts.values()),
            self.naming.table_of(key),
            key_table_name(key),
        )
        return next((name for name in names if name in states.contracts), None)

    def lake_at_tick(self, at: datetime) -> _LakeAtTick | None:
        """The lake as the tick of the moment `at` first saw it, with what others wrote until then;
        None where there is no lake. Tables of others that cannot be read are kept for `status`."""
        if not is_lake(self.root):
            return None
        if not self._newest or self._newest[0][0] != at:
            pipeline = chosen_pipeline(lake := read_lake(self.root))
            _, failed = observe_others(lake, pipeline.contracts)
            keep_alarms(
                lake.root, "is_stale", "external", {str(n): str(e) for n, e in enumerate(failed)}
            )
            states = pipeline.states(read_view(lake, pipeline.contracts))
            self._newest[:] = [
                (at, _LakeAtTick(states, rebuild_needs(states, {}, at.astimezone(UTC).date())))
            ]
        return self._newest[0][1]


@cache
def _shared_tables(root: Path, prefix: tuple[str, ...]) -> _LakeTables:
    """One object per lake, which all its conditions share."""
    return _LakeTables(root, Naming.below(prefix))


@dataclass(frozen=True)
class _StaleDays(dg.AutomationCondition[Any]):
    tables: _LakeTables
    or_missing: bool
    while_stale: bool

    @property
    def name(self) -> str:
        return "is_stale"

    @property
    def description(self) -> str:
        more = ", or never made though its inputs are there" if self.or_missing else ""
        return f"by the receipts of its lake the day is stale{more}, and its inputs are in place"

    def evaluate(self, context: "dg.AutomationContext[Any]") -> "dg.AutomationResult[Any]":
        """The days that are stale and were not requested as they are now; none for an asset without
        a table in the lake. The cursor keeps what was seen and asked for the next tick."""
        has_days = isinstance(context.partitions_def, dg.TimeWindowPartitionsDefinition)
        lake_at_tick = self.tables.lake_at_tick(context.evaluation_time) if has_days else None
        table = self.tables.table_of(context.key, lake_at_tick.states) if lake_at_tick else None
        if lake_at_tick is None or table is None:
            return dg.AutomationResult(context, context.get_empty_subset())
        found = _day_identities(lake_at_tick, table, self.or_missing)
        asked = {} if self.while_stale else _requested_days(context, found)
        days = {day for day, identity in found.items() if asked.get(day) != identity}
        true = context.candidate_subset.compute_intersection_with_partition_keys(days)
        return dg.AutomationResult(context, true, cursor=json.dumps({SEEN: found, ASKED: asked}))


def _requested_days(
    context: "dg.AutomationContext[Any]", found: Mapping[str, str]
) -> dict[str, str]:
    """The days of `found` that were requested, each with what it would have been made from at that
    time."""
    before = json.loads(context.cursor or "{}")
    seen, asked = before.get(SEEN, {}), before.get(ASKED, {})
    requested = context.get_previous_requested_subset(context.key)
    newly = requested.expensively_compute_partition_keys() if requested is not None else ()
    asked |= {day: seen[day] for day in newly if day in seen}
    return {day: asked[day] for day in found if day in asked}


def _day_identities(lake_at_tick: _LakeAtTick, table: str, missing: bool) -> dict[str, str]:
    """Per day (text) that is ready to be made again a digest of what a rebuild of it would be made
    from."""
    states = lake_at_tick.states
    days = [
        d for d in lake_at_tick.found.ready[table] if missing or states.of(table, d) is State.STALE
    ]
    found = request_identities(states, table, days).items()
    return {str(day): digest_of([str(day), identity])[:IDENTITY_CHARS] for day, identity in found}
