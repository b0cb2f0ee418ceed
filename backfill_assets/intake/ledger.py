"""The machinery's own tables: contracts of `files`, `quarantine` and `arrivals`, read without a
JVM.

Not here: writing them (`intake.scan`, `intake.raw`), splitting a load's rows (`intake.deliveries`),
and the table `too_late`. `files` holds append-only events; the newest per content wins.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeVar

from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.paths import day_of_path
from backfill_assets.kernel.core import ledgers
from backfill_assets.kernel.core.contracts import LANDING, Column, Contract, Input, InputKind
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.view import LandedDay, exists_at
from backfill_assets.kernel.tables.store import TableStore

# How a reason begins that speaks of a file's manifest; the manifest's path follows.
OF_TOTALS = "its totals ("
# How a reason begins that refuses a dump which may not be whole; its day follows.
OF_DUMP = "the dump of "
WITHDRAWN = "withdrawn"
LANDED = "landed"
LOADED_BEFORE = "loaded before "  # how a note begins that does not refuse the file
KEYED = "+"  # in `counted_by` of releases before 0.3, beside some paths; it says nothing more
K = TypeVar("K", date, tuple[date, date])
LONG_BEFORE = datetime.min.replace(tzinfo=UTC)
Event = Mapping[str, Any]  # a row of `files`, by the names of its columns

FILES = Contract(
    name=ledgers.FILES,
    description="What has landed: one row per file and arrival day; of a path and content the "
    "newest event wins.",
    columns=(
        Column("event", "STRING", "landed, or withdrawn by `landing accept`"),
        Column("path", "STRING", "below the folder that [source] files names"),
        Column("sha256", "STRING", "of the file's bytes: the identity that input digests use"),
        Column("arrival_date", "DATE", "a day on which rows of the file arrived", nullable=True),
        Column(
            "rows",
            "BIGINT",
            "rows of the file on that day, counted apart from Spark's readers in total",
        ),
        Column("bad_rows", "BIGINT", "of these, rows that cannot become a delivery by themselves"),
        Column("usable_rows", "BIGINT", "the others"),
        Column("size", "BIGINT", "bytes"),
        Column("mtime_ns", "BIGINT", "modification time when scanned, nanoseconds since 1970"),
        Column(
            "first_scan",
            "TIMESTAMP",
            "when this content was first seen; bounds plausible arrival times",
        ),
        Column(
            "home_day",
            "DATE",
            "the day of rows without a usable arrival time, fixed at the first scan",
        ),
        Column(
            "recorded_at",
            "TIMESTAMP",
            "when this event was appended, and after all before it; the newest wins",
        ),
        Column(
            "counted_by", "STRING", "digest of the settings under which days and rows were counted"
        ),
        Column(
            "note",
            "STRING",
            "the note given to `landing accept`; why a file is refused as a whole",
            nullable=True,
        ),
    ),
    day_column="arrival_date",
    key=("path", "sha256", "arrival_date"),
    inputs=(),
    partition_by="",
)

QUARANTINE = Contract(
    name=ledgers.QUARANTINE,
    description="Landed rows that could not become deliveries, with the reason. Nothing that lands "
    "is lost.",
    columns=(
        Column("arrival_date", "DATE", "the day the row arrived, else the home day of its file"),
        Column("source_file", "STRING", "sha256 of the file; its path is in `files`"),
        Column("row_number", "BIGINT", "1-based position in the file; 0: the file as a whole"),
        Column("text", "STRING", "the row as it stands in the file (cut to 8 KiB)", nullable=True),
        Column("reason", "STRING", "why it is unusable"),
    ),
    day_column="arrival_date",
    key=("source_file", "row_number"),
    inputs=(Input(LANDING, kind=InputKind.FILES),),
)

ARRIVALS = Contract(
    name=ledgers.ARRIVALS,
    description="Which arrival day touches which event day: a row iff a key of the one has a "
    "delivery for the other.",
    columns=(
        Column("arrival_date", "DATE", "the day of arrival"),
        Column("event_date", "DATE", "an event day that keys delivered then have or had"),
        Column("deliveries", "BIGINT", "deliveries of that arrival day of such keys"),
        Column("keys", "BIGINT", "such keys"),
        Column("moved_keys", "BIGINT", "of these, keys with more than one event day"),
        Column(
            "greatest_lateness_s",
            "BIGINT",
            "greatest arrival minus event time, seconds",
            nullable=True,
        ),
        Column("fingerprint", "STRING", "of these deliveries, source file apart"),
        Column(
            "arrival_month", "STRING", "YYYY-MM: the table's layout, few files to read for all days"
        ),
    ),
    day_column="arrival_date",
    key=("event_date",),
    inputs=(),
    partition_by="arrival_month",
)


def ledger_of_source(ledger: Contract, source: str) -> Contract:
    """Contract of a source's ledger: the same columns, with a name of its own where the source has
    a name."""
    inputs = tuple(
        replace(i, table=ledgers.source_table_name(i.table, source)) for i in ledger.inputs
    )
    return replace(ledger, name=ledgers.source_table_name(ledger.name, source), inputs=inputs)


class RowCounts(NamedTuple):
    """How many rows of a content belong to one arrival day."""

    rows: int  # all: bad and usable ones
    bad: int  # they cannot become a delivery by themselves
    usable: int


NO_ROWS = RowCounts(rows=0, bad=0, usable=0)
REFUSED_WHOLE = RowCounts(rows=1, bad=1, usable=0)  # what a file counts as that cannot be judged


@dataclass(frozen=True)
class FileRecord:
    """One content at one path, as the ledger knows it now."""

    path: str
    sha256: str
    size: int
    mtime_ns: int
    first_scan: datetime
    home_day: date
    days: Mapping[date, RowCounts]  # per arrival day
    withdrawn: bool = False
    counted_by: str = ""
    refused: str | None = None  # why no row of it can be judged; it counts as one unusable row
    # days on which the content ever had usable rows, at any path, under any settings: raw may still
    # hold them
    used_days: frozenset[date] = frozenset()
    recorded_at: datetime = LONG_BEFORE  # of its newest event
    rescanned: bool = False  # its first scan was refuted and taken again
    contradicted: str = ""  # why the file, whose rows may be loaded, differs from a later manifest
    # all names that its bytes had at its path, by `select`
    # (`intake.content_store.content_name_by_path`)
    names: tuple[str, ...] = ()
    first_name: str = ""  # the first of `names`, unless another path had one of them, too

    @property
    def path_day(self) -> date | None:
        """The day that its path names."""
        return day_of_path(self.path)

    @property
    def counted_under(self) -> str:
        """The digest of the settings that counted it."""
        return self.counted_by.partition(" ")[0]

    @property
    def as_input(self) -> str:
        """Content id used in input digests: the first name (else SHA-256) seen for this file, plus
        markers if it was scanned again or its manifest refuses it, because its rows may then
        change. Another name without copies changes nothing here: another `select` makes days
        outdated, never stale."""
        name = self.first_name or self.sha256
        if self.is_refused_for_totals:
            name += " refused for its totals"
        if self.rescanned:
            name += f" first scanned {self.first_scan.isoformat()}"
        return name

    @property
    def is_refused_for_totals(self) -> bool:
        """Whether the totals that its manifest declares refuse it, or the dump before it, not the
        file itself."""
        return (self.refused or "").startswith(OF_TOTALS) or self.is_refused_as_dump

    @property
    def is_refused_as_dump(self) -> bool:
        """Whether the dump before it refuses it: beside another one it may be whole."""
        return (self.refused or "").startswith(OF_DUMP)

    @property
    def has_declared_totals(self) -> bool:
        """Whether a manifest declared its totals when it was counted: `counting_rules` writes their
        digest behind that of the settings."""
        return " " in self.counted_by

    @property
    def is_as_declared(self) -> bool:
        """Whether it was held against a manifest and is what that declares."""
        return self.has_declared_totals and self.refused is None and not self.contradicted

    @property
    def may_be_in_raw(self) -> bool:
        """Whether raw may hold rows of it: true until `landing accept`, also where a recount finds
        no usable row."""
        return bool(self.used_days) or self.usable_rows > 0

    @property
    def rows(self) -> int:
        """All rows of the file."""
        return sum(count.rows for count in self.days.values())

    @property
    def bad_rows(self) -> int:
        """The rows of the file that cannot become deliveries by themselves."""
        return sum(count.bad for count in self.days.values())

    @property
    def usable_rows(self) -> int:
        """The rows of the file that can become deliveries by themselves."""
        return sum(count.usable for count in self.days.values())


def path_with_source(path: str, source: str) -> str:
    """A landed path for people: after the name of its source, if sources have names."""
    if source:
        return f"{source}:{path}"
    return path


def read_files(store: TableStore, source: str = "") -> list[FileRecord]:
    """The ledger `files` of a source as we wrote it: the newest event per path and content.

    Commits of other programs are not read. Raises BackfillError if a data file of ours is gone.
    """
    return records_of(read_events(store, source))


def read_events(store: TableStore, source: str = "") -> Sequence[Event]:
    """The events in the ledger `files` of a source as we wrote it; raises as `read_files` does."""
    return store.own_rows(ledgers.source_table_name(FILES.name, source), FILES.day_column)


def records_of(ledger: Iterable[Event]) -> list[FileRecord]:
    """The records of all events of a ledger, ascending by path. Of a part of the events those are
    right whose paths, and the contents at them, have all their events here."""
    events: dict[tuple[str, str], list[Event]] = defaultdict(list)
    used: dict[str, set[date]] = defaultdict(set)
    scans: dict[str, set[datetime]] = defaultdict(set)
    for row in ledger:
        events[row["path"], row["sha256"]].append(row)
        scans[row["sha256"]].add(row["first_scan"])
        if row["event"] == LANDED and row["usable_rows"]:
            used[row["sha256"]].add(row["arrival_date"])
    landed = dict[tuple[str, str], list[Event]]()  # a withdrawal alone says nothing of rows
    for key, rows in events.items():
        if any(row["event"] == LANDED for row in rows):
            landed[key] = rows
    names, found = _names_of_contents(landed), list[FileRecord]()
    times_landed = Counter(sha256 for _, sha256 in landed)
    for key, rows in landed.items():
        record, all_names = _newest_record(rows), names[key]
        # A name that another path has, too, does not tell this content from that one.
        is_only_here = max(times_landed[name] for name in all_names) == 1
        own_names = all_names if is_only_here else (record.sha256,)
        first_scan = min(min(scans[name]) for name in own_names)
        found.append(
            replace(
                record,
                used_days=frozenset[date]().union(*(used[name] for name in all_names)),
                rescanned=record.first_scan > first_scan,
                names=all_names,
                first_name=own_names[0],
            )
        )
    return sorted(found, key=lambda r: (r.path, r.first_scan, r.sha256))


def _names_of_contents(
    events: Mapping[tuple[str, str], list[Event]],
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Per path and content all names of these bytes at this path, in the order in which they were
    first recorded."""
    at: dict[str, list[str]] = defaultdict(list)
    first = {key: min(r["recorded_at"] for r in rows) for key, rows in events.items()}
    for path, sha256 in sorted(events, key=lambda key: (first[key], key)):
        at[path].append(sha256)

    def names_one_content(one: str, other: str, path: str) -> bool:
        return one in (other, content_name_by_path(other, path)) or other == content_name_by_path(
            one, path
        )

    return {
        (path, own): tuple(n for n in at[path] if names_one_content(own, n, path))
        for path, own in events
    }


def _newest_record(rows: list[Event]) -> FileRecord:
    """The record of a content at a path by its events: size, days and rules are those of its newest
    landing, whether it is withdrawn says its newest event."""
    event = max(rows, key=lambda r: r["recorded_at"])
    landings = [r for r in rows if r["event"] == LANDED]
    newest = max(r["recorded_at"] for r in landings)
    counted = [r for r in landings if r["recorded_at"] == newest]
    last = counted[0]  # the days of one landing differ in their counts alone
    days = dict[date, RowCounts]()
    for row in counted:
        days[row["arrival_date"]] = RowCounts(row["rows"], row["bad_rows"], row["usable_rows"])
    is_loaded = (last["note"] or "").startswith(LOADED_BEFORE)
    return FileRecord(
        path=last["path"],
        sha256=last["sha256"],
        size=last["size"],
        mtime_ns=last["mtime_ns"],
        first_scan=last["first_scan"],
        home_day=last["home_day"],
        days=days,
        withdrawn=event["event"] == WITHDRAWN,
        counted_by=last["counted_by"].replace(KEYED, ""),
        refused=None if is_loaded else last["note"],
        contradicted=last["note"].removeprefix(LOADED_BEFORE) if is_loaded else "",
        recorded_at=event["recorded_at"],
    )


def contents_of_dumps(records: Iterable[FileRecord]) -> dict[date, frozenset[str]]:
    """Per day the contents of the dump that its paths name; files that are refused are none."""
    found: dict[date, set[str]] = defaultdict(set)
    for record in records:
        day = record.path_day
        is_loaded = not record.withdrawn and record.refused is None
        if is_loaded and day is not None and day in record.days:
            found[day].add(record.sha256)
    return {day: frozenset(contents) for day, contents in found.items()}


def dump_before(day: date, dumps: Iterable[date]) -> date | None:
    """The newest day before `day` that has a dump."""
    return max((d for d in dumps if d < day), default=None)


def landed_days(records: Sequence[FileRecord], are_dumps: bool = False) -> dict[date, LandedDay]:
    """Per arrival day the contents that name it and their usable rows; a content at two paths
    counts once. Of dumps (`are_dumps`) those of the dump before it, too: what vanished follows from
    both."""
    inputs: dict[date, set[str]] = defaultdict(set)
    usable: dict[date, int] = defaultdict(int)
    for record in records:
        for day, count in record.days.items():
            if not record.withdrawn and record.as_input not in inputs[day]:
                inputs[day].add(record.as_input)
                usable[day] += count.usable
    names = {record.sha256: record.as_input for record in records}
    dumps = contents_of_dumps(records) if are_dumps else {}
    for day in dumps:
        earlier = dump_before(day, dumps)
        if earlier is not None:
            inputs[day] |= {f"{names[sha256]} before" for sha256 in dumps[earlier]}
    days = dict[date, LandedDay]()
    for day, found in inputs.items():
        if found:
            digest = digest_of(sorted(found))
            days[day] = LandedDay(len(found), digest, usable[day], frozenset(found))
    return days


def read_arrivals(
    store: TableStore, version: int, source: str = ""
) -> dict[date, tuple[tuple[date, str], ...]]:
    """The ledger `arrivals` of a source per event day, as (arrival day, fingerprint) ascending."""
    found: dict[date, list[tuple[date, str]]] = defaultdict(list)
    columns = ("arrival_date", "event_date", "fingerprint")
    name = ledgers.source_table_name(ARRIVALS.name, source)
    for row in store.rows(name, version, columns) if exists_at(version) else []:
        found[row["event_date"]].append((row["arrival_date"], row["fingerprint"]))
    return {day: tuple(sorted(rows)) for day, rows in found.items()}


def sum_by_key(found: Iterable[Mapping[K, int]]) -> dict[K, int]:
    """Add up counts of several sources by key; keys ascending."""
    counted: dict[K, int] = {}
    for rows_by_key in found:
        for key, rows in rows_by_key.items():
            counted[key] = counted.get(key, 0) + rows
    return dict(sorted(counted.items()))
