"""Days that Dagster shows as materialized and that no receipt names: their asset returned nothing to its IO manager.

An asset without a return value never reaches an IO manager, and Dagster records its days all the same. Not here: days
with a receipt that Dagster does not show (`reconcile`).
"""

from datetime import date

import dagster as dg

from backfill_assets.core.days import days_text, parse_day
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.operations.standing import keep_attention
from backfill_assets.orchestration.dagster_private import instance_id
from backfill_assets.orchestration.naming import PLAIN

KEPT_AS = "green_days"  # the name under which the lake keeps them, for `status`


def look_for_green_days(instance: dg.DagsterInstance, lake: Lake, states: States) -> dict[str, str]:
    """A line per table of an asset with such days, by table; the lake keeps the lines until the next look."""
    found: dict[str, str] = {}
    for contract in (c for c in states.contracts.values() if c.made_by and not c.external):
        shown = instance.get_materialized_partitions(PLAIN.of(contract))
        written = states.view.table(contract.name).latest
        if days := [day for key in shown if (day := _day(key)) is not None and day not in written]:
            found[contract.name] = (
                f"{contract.made_by} {days_text(sorted(days))}: green in Dagster, and no receipt names them: the asset "
                "returned nothing. Return a frame without rows where a day has none, and materialize these days again"
            )
    keep_attention(lake.root, instance_id(instance), KEPT_AS, found)
    return found


def _day(key: str) -> date | None:
    try:
        return parse_day(key)
    except BackfillError:
        return None
