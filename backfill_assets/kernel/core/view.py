"""A view of a lake: its receipts and ledgers at one moment, as plain values.

Not here: reading them (`kernel.tables.view`) and what follows from them (`kernel.core.digests`,
`kernel.core.states`, `kernel.core.frontier`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property

from backfill_assets.kernel.core.closures import Closure
from backfill_assets.kernel.core.days import end_of_day, midnight
from backfill_assets.kernel.core.ledgers import ARRIVALS, LOAD_LEDGERS, source_table_name
from backfill_assets.kernel.core.receipts import Built, DayEntry

NO_VERSION = -1  # of a table that does not exist, or did not at the time in question


def exists_at(version: int) -> bool:
    """Whether a table existed at `version`: it did not at `NO_VERSION`."""
    return version > NO_VERSION


@dataclass(slots=True)  # not frozen: hundreds of thousands are made, that takes five times as long
class DayReceipt:
    """The latest receipt of a day: its entry there, and the table version, write, code and settings
    that made it."""

    entry: DayEntry
    version: int
    write_id: str
    code_digest: str
    settings_digest: str
    run_id: str
    # The text of the windows, cut and maturity it was made with (`kernel.core.digests`); "": not
    # known.
    parameters: str = ""
    engine: str = ""  # what computed it (`kernel.core.engines`); "": not known
    frontier: datetime | None = None  # of the inputs it was made from
    irreproducible: bool = False  # the same inputs, code and settings gave other rows before


@dataclass(frozen=True)
class TableView:
    """The state of a table at a version of its log."""

    version: int = NO_VERSION
    latest: Mapping[date, DayReceipt] = field(default_factory=dict)  # of each written day
    # The input versions that the newest receipt names.
    inputs: Mapping[str, int] = field(default_factory=dict)
    frontier: datetime | None = None  # the greatest that any receipt names
    # Days that a commit without a receipt touched after our last write of them (never trusted); of
    # the ledger `arrivals`, laid out by month, all days of the months it touched.
    foreign: frozenset[date] = frozenset()
    # By landed table, where receipts tell them apart.
    frontiers: Mapping[str, datetime] = field(default_factory=dict)
    others: tuple[int, ...] = ()  # versions without a receipt that moved rows, ascending
    # Tags of the receipts that released rows of `too_late`, oldest first.
    releases: tuple[Mapping[str, str], ...] = ()
    closure: Closure | None = None  # in force; None: every day may be written

    @property
    def exists(self) -> bool:
        """Whether the table has a version, so that its rows can be read."""
        return exists_at(self.version)

    def input_version(self, name: str) -> int:
        """The version of an input that the newest receipt names; `NO_VERSION` if it names none."""
        return self.inputs.get(name, NO_VERSION)

    @property
    def held_days(self) -> list[date]:
        """The days that a rollback put back and that are not released, ascending."""
        return sorted(d for d, receipt in self.latest.items() if receipt.entry.built is Built.HELD)

    def is_closed(self, day: date) -> bool:
        """Whether nobody may write the day any more."""
        return self.closure is not None and self.closure.holds(day)


NO_TABLE = TableView()


@dataclass(frozen=True)
class LandedDay:
    """One arrival day in the ledger `files`: the contents that name it, and its usable rows."""

    contents: int  # how many
    digest: str  # of the list of their names, ascending (`kernel.core.digests.digest_of`)
    usable_rows: int
    # Their names, where the day's input digest needs them (`Deliveries.days_by_names`).
    names: frozenset[str] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Release:
    """Late rows that count nevertheless."""

    arrival_days: frozenset[date]  # on which they came
    first: date  # event day
    last: date  # event day, included
    contents: frozenset[str]  # only in files with these SHA-256


@dataclass(frozen=True)
class Deliveries:
    """The ledgers of one source."""

    landed: Mapping[date, LandedDay] = field(default_factory=dict)  # by arrival day
    # by event day: (arrival day, fingerprint), ascending by arrival day
    arrivals: Mapping[date, tuple[tuple[date, str], ...]] = field(default_factory=dict)
    releases: tuple[Release, ...] = ()
    name: str = ""  # "": a lake's only source

    def days_by_names(self, as_of: datetime | None) -> list[date]:
        """The landed days whose input digest needs the names of their contents, not only the
        digest of these: on which or before which `as_of` falls, or with releases of late rows."""
        released = {day for release in self.releases for day in release.arrival_days}
        return [d for d in self.landed if d in released or _falls_before_end(as_of, d)]


def _falls_before_end(as_of: datetime | None, day: date) -> bool:
    return as_of is not None and as_of < end_of_day(day)


@dataclass(frozen=True)
class LakeView:
    """Everything that decides states, as read at one moment."""

    start: date  # the lake's first day
    as_of: datetime | None
    grace: timedelta  # a day's cut is the midnight after it plus this
    tables: Mapping[str, TableView]
    delivered: Mapping[str, Deliveries]  # by the landed table of a source
    others_write: frozenset[str] = frozenset()  # tables whose foreign days are judged

    def table(self, name: str) -> TableView:
        """The view of a table; an empty one for a table that does not exist yet."""
        return self.tables.get(name, NO_TABLE)

    def awaits_others(self, name: str) -> frozenset[date]:
        """The days that others may write, and wrote as nobody accepted it yet: no run makes or
        reads them by itself."""
        return self.table(name).foreign if name in self.others_write else frozenset()

    @cached_property
    def sources(self) -> Mapping[str, "Source"]:
        """The sources, by the table that their landed files are loaded into."""
        return {
            table: Source(view=self, table=table, **vars(delivered))
            for table, delivered in self.delivered.items()
        }

    def source(self, table: str) -> "Source":
        """The source whose landed files are loaded into `table`; one without deliveries if there is
        none."""
        return self.sources.get(table) or Source(view=self, table=table)

    def is_due(self, arrival_day: date) -> bool:
        """Whether any delivery of that day may be loaded: the day begins before `as_of`."""
        return self.as_of is None or midnight(arrival_day) < self.as_of


@dataclass(frozen=True, kw_only=True)
class Source(Deliveries):
    """The deliveries of a source in a view, and the `table` that its landed files are loaded
    into."""

    view: LakeView
    table: str

    @property
    def loaded(self) -> TableView:
        """The table that its landed files are loaded into."""
        return self.view.table(self.table)

    @property
    def ledger_name(self) -> str:
        """The name of its ledger `arrivals`."""
        return source_table_name(ARRIVALS, self.name)

    @property
    def ledger(self) -> TableView:
        """The head of its ledger `arrivals`."""
        return self.view.table(self.ledger_name)

    @property
    def loaded_version(self) -> int:
        """The version of the landed table that the ledger names: the newest that was loaded whole;
        `NO_VERSION`: none."""
        return self.ledger.input_version(self.table)

    @property
    def is_loaded(self) -> bool:
        """Whether any load came to its end: the ledger names a version of the landed table."""
        return exists_at(self.loaded_version)

    def is_doubted(self, arrival_day: date) -> bool:
        """Whether another program may have changed the day in a ledger: it must be loaded again."""
        return arrival_day in self.doubted

    @cached_property
    def doubted(self) -> frozenset[date]:
        """The days that other programs may have changed in a ledger."""
        return frozenset[date]().union(
            *(
                self.view.table(source_table_name(ledger, self.name)).foreign
                for ledger in LOAD_LEDGERS
            )
        )

    def doubted_arrivals(self) -> frozenset[date]:
        """The loaded arrival days whose rows of `arrivals` another program may have changed. While
        there are any, no event day's deliveries are known: any row of them may be gone. The next
        load rewrites them."""
        return frozenset(d for d in self.ledger.foreign if d in self.loaded.latest)
