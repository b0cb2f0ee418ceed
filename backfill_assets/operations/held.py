"""Held days by the rollback that put them back, and the commands that release them.

Not here: rolling back and releasing (`rollback`) and drawing (`cli.status`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.core.days import contiguous
from backfill_assets.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.view import writes_of


@dataclass(frozen=True)
class Hold:
    """Days per table that one rollback put back: of a `plan` (and a `chunk`), or of a table alone."""

    days: Mapping[str, tuple[date, ...]]
    plan: str = ""
    chunk: str = ""

    @property
    def release(self) -> str:
        """Return the command that releases them."""
        return release_command(self.days, {PLAN_TAG: self.plan, CHUNK_TAG: self.chunk})

    @property
    def rollback(self) -> str:
        """Name the rollback in words."""
        chunk = f", chunk {self.chunk}" if self.chunk else ""
        return f"the rollback of plan {self.plan}{chunk}" if self.plan else "a rollback"

    def to_dict(self) -> dict[str, Any]:
        """Return the hold as JSON values; days as ranges, both ends included."""
        spans = {t: [{"from": str(r.start), "to": str(r.last)} for r in contiguous(d)] for t, d in self.days.items()}
        return {"plan": self.plan or None, "chunk": self.chunk or None, "days": spans, "release": self.release}


def release_command(days: Mapping[str, tuple[date, ...]], tags: Mapping[str, str]) -> str:
    """Return the command that releases days: by plan (and chunk) where the receipt's `tags` name one, else by the first
    of the tables and its days."""
    if tags.get(PLAN_TAG):
        chunk = f" --chunk {tags[CHUNK_TAG]}" if tags.get(CHUNK_TAG) else ""
        return f"backfill-assets release --plan {tags[PLAN_TAG]}{chunk} --yes"
    table, found = next(iter(days.items()))
    return f"backfill-assets release {table} --days {min(found)}..{max(found)} --yes"


def holds(lake: Lake, states: States, held: Mapping[str, list[date]]) -> tuple[Hold, ...]:
    """Group held days (per table) by their rollback. Reads only the commits that hold them."""
    of_plans: dict[tuple[str, str], dict[str, list[date]]] = {}
    of_tables: list[Hold] = []
    for table, days in held.items():
        alone: list[date] = []
        stamps = {d: stamp for d in sorted(days) if (stamp := states.stamp(table, d)) is not None}
        for receipt, found in writes_of(lake.store, table, stamps):
            if receipt is not None and PLAN_TAG in receipt.tags:
                key = (receipt.tags[PLAN_TAG], receipt.tags.get(CHUNK_TAG, ""))
                of_plans.setdefault(key, {}).setdefault(table, []).extend(found)
            else:
                alone += found
        of_tables += [Hold({table: tuple(span)}) for span in contiguous(alone)]
    planned = [Hold({t: tuple(sorted(d)) for t, d in found.items()}, *key) for key, found in of_plans.items()]
    return (*planned, *of_tables)
