"""Work: days of tables for one run, with why and how. Buttons, sensors, commands and plans all ask for it.

Not here: which days need it (`core.needs`), tags of Dagster's runs (`orchestration.work_tags`), one table of it
(`load.candidate`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.days import DayRange, from_inclusive
from backfill_assets.core.digests import digest_of
from backfill_assets.core.plans import ON_BAD_DAYS_TAG, WriteMode, mode_of

MANUAL = "manual"  # the reason of what a person asked for


@dataclass(frozen=True)
class Work:
    """Days to make of each of some tables; a run of Dagster has one range of days for all its tables."""

    days: DayRange
    tables: tuple[str, ...]  # upstream first
    reason: str = MANUAL  # into the receipts, and so are the next two
    note: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)  # a plan's id, chunk and code, the write mode, bad days
    force: frozenset[str] = frozenset()  # tables whose days are made although they are right
    needed: Mapping[str, str] = field(default_factory=dict)  # days of the first table that need it, with identities
    attempt: int = 0  # how often the asked days were tried as they are

    @property
    def table(self) -> str:
        """The first table."""
        return self.tables[0]

    @property
    def key(self) -> str:
        """The run key, which Dagster remembers for ever: it names everything that makes this a new request. Its digest
        differs from the digests of releases that counted attempts in other tags."""
        return f"{self.table} {self.needed_span} {digest_of(['asked', dict(self.needed)])} attempt {self.attempt}"

    @property
    def needed_days(self) -> frozenset[date]:
        """The days of the first table that need it; days between them are settled."""
        return frozenset(map(date.fromisoformat, self.needed))

    @property
    def needed_span(self) -> DayRange:
        """The range of the needed days; where none is named, all days."""
        return from_inclusive(min(self.needed_days), max(self.needed_days)) if self.needed else self.days

    @property
    def mode(self) -> WriteMode:
        """How days change. Raises BackfillError for an unknown write mode."""
        return mode_of(self.tags)

    @property
    def receipt_tags(self) -> dict[str, str]:
        """The tags of its receipts."""
        return {name: value for name, value in self.tags.items() if name != ON_BAD_DAYS_TAG}

    @property
    def on_bad_days(self) -> str:
        """What is done with days that are refused: `keep_good`, `refuse`, or "" (as the lake's settings say)."""
        return self.tags.get(ON_BAD_DAYS_TAG, "")


def forced(tables: Iterable[str], force: bool, written: Iterable[str] = ()) -> frozenset[str]:
    """The tables whose right days are made, too: all but the `written` ones under `force`, else none."""
    return frozenset(tables) - frozenset(written) if force else frozenset()
