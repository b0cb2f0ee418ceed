"""Work, and tags and values by which runs and receipts name a plan, its chunk, versions of a
rollback.

`Work` is days of tables for one run, with why and how: buttons, sensors, commands and plans all ask
for it. Elsewhere: how its days change (`write_mode`), which days need it (`needs`), tags of
Dagster's runs (`dagster.adapter.backfill_requests`), one table of it (`kernel.write.candidate`),
the plan itself (`plans.model`), restoring files (`plans.restore`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import groupby

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import (
    DayRange,
    contiguous_ranges,
    inclusive_range,
    parse_span,
    some_days,
)
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.write_mode import ON_BAD_DAYS_TAG, WriteMode

# In `Provenance.tags` and `Receipt.tags`: the plan's id, and the chunk's number.
PLAN_TAG, CHUNK_TAG = (
    "plan",
    "chunk",
)
CODE_TAG = "code"  # of runs and receipts of a plan that works by older code: which
ROLLBACK, RELEASE, PUBLISH = "rollback", "release", "publish"  # reasons of receipts
REPLAY = "replay-late"  # the reason of receipts that release rows of the ledger `too_late`
# Tag of a rollback's receipt: `VERSION`, or `VERSION:FIRST..LAST …` where days differ.
TO_VERSION = "to_version"


def target_tags(targets: Mapping[date, int]) -> dict[str, str]:
    """The tag of a receipt that puts days back to these versions; `restored_version` reads it."""
    chosen = sorted(set(targets.values()))
    if len(chosen) == 1:
        return {TO_VERSION: str(chosen[0])}
    parts = []
    for version in chosen:
        days = [day for day, target in targets.items() if target == version]
        parts += [f"{version}:{span.start}..{span.last}" for span in contiguous_ranges(days)]
    return {TO_VERSION: " ".join(parts)}


def restored_version(receipt: Receipt, day: date) -> int | None:
    """The version to which a rollback's receipt restored `day`; None if it names none."""
    text = receipt.tags.get(TO_VERSION, "")
    with suppress(ValueError, BackfillError):
        if ":" not in text:
            return int(text)
        for part in text.split():
            version, _, span = part.partition(":")
            if ".." in span and day in parse_span(span):
                return int(version)
    return None


MANUAL = "manual"  # the reason of what a person asked for


@dataclass(frozen=True)
class Work:
    """Days to make of each of some tables; a run of Dagster has one range of days for all its
    tables."""

    days: DayRange
    tables: tuple[str, ...]  # upstream first
    reason: str = MANUAL  # into the receipts, and so are the next two
    note: str = ""
    # A plan's id, chunk and code, the write mode, bad days.
    tags: Mapping[str, str] = field(default_factory=dict)
    force: frozenset[str] = frozenset()  # tables whose days are made although they are right
    # Days of the first table that need it, with identities.
    needed: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0  # how often the asked days were tried as they are

    @property
    def table(self) -> str:
        """The first table."""
        return self.tables[0]

    @property
    def key(self) -> str:
        """The run key, which Dagster remembers for ever: it names everything that makes this a new
        request. Its digest differs from the digests of releases that counted attempts in other
        tags."""
        return (
            f"{self.table} {self.needed_span} {digest_of(['asked', dict(self.needed)])} attempt "
            f"{self.attempt}"
        )

    @property
    def needed_days(self) -> frozenset[date]:
        """The days of the first table that need it; days between them are settled."""
        return frozenset(map(date.fromisoformat, self.needed))

    @property
    def needed_span(self) -> DayRange:
        """The range of the needed days; where none is named, all days."""
        if not self.needed:
            return self.days
        return inclusive_range(min(self.needed_days), max(self.needed_days))

    @property
    def mode(self) -> WriteMode:
        """How days change, as asked. Raises as `WriteMode.of_tags`."""
        return WriteMode.of_tags(self.tags)

    def parts(self, contracts: Iterable[Contract]) -> "Iterator[Work]":
        """Yield the work as runs of tables with equal partitions, in order: of tables with others
        than every day, for the partitions that cover one of the days; none where there is none.
        `contracts`: of all its tables."""
        known = {c.name: c for c in contracts}
        for _, group in groupby(self.tables, lambda name: known[name].partitions):
            tables = tuple(group)
            first = known[tables[0]]
            if first.calendar.is_daily and not first.left_out:
                yield replace(self, tables=tables)
            elif keys := first.keys_in(self.days):
                yield replace(self, tables=tables, days=some_days(keys))

    @property
    def receipt_tags(self) -> dict[str, str]:
        """The tags of its receipts."""
        return {name: value for name, value in self.tags.items() if name != ON_BAD_DAYS_TAG}


def forced_tables(
    tables: Iterable[str], force: bool, written: Iterable[str] = ()
) -> frozenset[str]:
    """The tables whose right days are made, too: all but the `written` ones under `force`, else
    none."""
    if not force:
        return frozenset()
    return frozenset(tables).difference(written)
