"""The landing folder against the ledger `files`: new, altered, missing, merely touched and
uncounted files, and the report of a scan. No JVM.

Not here: listing (`intake.listing`) and taking files in (`scan`). Imports no reader of files: light
commands need none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TypedDict

from backfill_assets.engines.loss import failing_alone
from backfill_assets.engines.server import engine_named
from backfill_assets.intake.content_store import (
    VERSION,
    StoredFile,
    content_name_by_path,
    copy_sizes,
)
from backfill_assets.intake.declared import (
    DeclaredTotals,
    declared_by_content,
    read_declared,
    totals_digest,
)
from backfill_assets.intake.deliveries import FIRST_SCAN_SLACK_DAYS
from backfill_assets.intake.files import Hashes, LandedFile
from backfill_assets.intake.landings import source_table
from backfill_assets.intake.ledger import FileRecord, read_files
from backfill_assets.intake.listing import Listing, RefusedFile
from backfill_assets.intake.select import uses_path
from backfill_assets.intake.settings import landed_source, payload_values
from backfill_assets.intake.source_log import TableListing, list_source
from backfill_assets.intake.table_changes import (
    is_content_lost,
    note_read,
    noted_version,
    reading_position,
    refuse_altered_columns,
    refuse_unknown_columns,
    refuse_without_day,
    unloaded_record,
    vanished_records,
    with_recorded_contents,
)
from backfill_assets.intake.unsettled import unsettled
from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import (
    BackfillError,
    TransientError,
    errors_of_source,
    raise_first_error,
    source_section,
)
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.session import Session

Intakes = Sequence[tuple[LandedFile, StoredFile]]
# Of `deliveries`; a change that refuses other rows raises it, and every file is counted again.
RULES_VERSION = 1


class NewFile(TypedDict):
    """The rows of a file that was read for the first time."""

    rows: int
    bad_rows: int


class ScanForm(TypedDict):
    """A scan of the landing folder: paths, and by the paths reasons."""

    new: Mapping[str, NewFile]
    copies: Mapping[str, str]
    refused: Mapping[str, str]
    waiting: Mapping[str, str]
    unreadable: Mapping[str, str]
    contradicted: Mapping[str, str]
    ahead: Mapping[str, str]
    altered: Sequence[str]
    missing: Sequence[str]
    vanished: Sequence[str]
    let_go: Sequence[str]
    blocked_days: Sequence[DayText]
    known: int
    example: str


@dataclass(frozen=True)
class ScanReport:
    """The outcome of one scan. Paths are below the folder that `[source] files` names."""

    # rows and bad rows per file read for the first time
    new: dict[str, tuple[int, int]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)  # path -> the path with the same content
    refused: dict[str, str] = field(default_factory=dict)  # path -> why it is never read
    waiting: dict[str, str] = field(default_factory=dict)  # path -> why it is read at a later scan
    # path -> why; one bad row in quarantine; also files that differ from their manifest
    unreadable: dict[str, str] = field(default_factory=dict)
    # path -> why; recorded files that differ from a later manifest; their days are blocked
    contradicted: dict[str, str] = field(default_factory=dict)
    altered: tuple[str, ...] = ()  # recorded files with other bytes
    missing: tuple[str, ...] = ()  # recorded files that are gone
    blocked: frozenset[date] = frozenset()  # days that are not rebuilt until `landing accept`
    # Path -> days of a table's content whose rows vacuum took: they stay as loaded, and cannot be
    # loaded again.
    vanished: dict[str, frozenset[date]] = field(default_factory=dict)
    # path -> why its commit counts as of the look that found it
    ahead: dict[str, str] = field(default_factory=dict)
    lapsed: tuple[str, ...] = ()  # changed or vanished files that no day was computed from
    known: int = 0  # number of files in the ledger before
    example: str = ""  # why one of the rows that this scan counted is unusable

    @property
    def is_clean(self) -> bool:
        """Whether nothing needs a person: no file altered, missing, refused, unreadable or
        contradicted."""
        found = (self.altered, self.missing, self.refused, self.unreadable, self.contradicted)
        return not any(found)

    def to_dict(self) -> ScanForm:
        """The report as JSON values."""
        return {
            "new": {k: {"rows": r, "bad_rows": b} for k, (r, b) in self.new.items()},
            "copies": self.copies,
            "refused": self.refused,
            "waiting": self.waiting,
            "unreadable": self.unreadable,
            "contradicted": self.contradicted,
            "ahead": self.ahead,
            "altered": list(self.altered),
            "missing": list(self.missing),
            "vanished": list(self.vanished),
            "let_go": list(self.lapsed),
            "blocked_days": sorted(map(str, self.blocked)),
            "known": self.known,
            "example": self.example,
        }


@dataclass(frozen=True)
class Comparison:
    """The landing folder, or a table's log, against the ledger."""

    fresh: list[LandedFile]
    altered: list[FileRecord]
    missing: list[FileRecord]
    # Their file changed or vanished, and raw never took a row of it, or the content lies at another
    # path too.
    lapsed: list[FileRecord]
    # A scan would count them again or hold them against other manifests; with the name of the rules
    # for it.
    uncounted: list[tuple[FileRecord, str]] = field(default_factory=list)
    # loaded ones whose manifests declare other totals
    contradicted: list[FileRecord] = field(default_factory=list)
    # Their contents have other names by today's `select`, so that their files are fresh. Only a
    # scan looks for them.
    renamed: list[FileRecord] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)  # never read
    # a table's log has them, and vacuum took their rows
    vanished: list[FileRecord] = field(default_factory=list)
    # new in a table that is no longer the one that was read
    held: list[LandedFile] = field(default_factory=list)

    @property
    def disputed(self) -> list[FileRecord]:
        """Records that raw may hold rows of and that the landing folder contradicts."""
        return [*self.altered, *self.missing, *self.contradicted]

    @property
    def counts_rows(self) -> bool:
        """Whether a scan would have the engine count rows."""
        return bool(self.fresh or self.uncounted)

    @property
    def is_scanned(self) -> bool:
        """Whether a scan would record nothing."""
        return not (self.counts_rows or self.disputed or self.lapsed)


@dataclass(frozen=True)
class LandingLook:
    """A look at what a source delivers, beside its ledger."""

    comparison: Comparison
    listing: Listing
    # Of the ledger those that decided the comparison: at least all that are not plainly as they
    # were recorded (`unsettled`).
    records: list[FileRecord]


@dataclass(frozen=True)
class ListingPart:
    """A listing, and what of it has to be compared file by file."""

    listing: Listing
    unsettled: Listing  # the same with these files only
    records: list[FileRecord]  # of the ledger beside these files


def compare_sources(lake_session: Session) -> Comparison:
    """Compare the landing folders of all sources with their ledgers now. A file that is still
    written counts as new.

    Raises the first error of a source that cannot be listed.
    """
    comparisons, failed = compare_each_source(lake_session)
    raise_first_error(failed)
    return joined_comparisons(comparisons.values())


def compare_each_source(lake_session: Session) -> tuple[dict[str, Comparison], list[BackfillError]]:
    """The comparisons of the sources that can be listed, by their names, and an error for each
    other one. Raises TransientError of the machine."""
    found, failed = dict[str, Comparison](), list[BackfillError]()
    for lake in lake_session.lake.by_source():
        try:
            with failing_alone(deliveries_name(lake)), errors_of_source(lake.source):
                look = look_at_landing(lake_session.of_source(lake.source))
                found[lake.source] = look.comparison
        except TransientError:
            raise
        except BackfillError as error:
            failed.append(error)
    return found, failed


def joined_comparisons(comparisons: Iterable[Comparison]) -> Comparison:
    """The comparisons of several sources as one."""
    total = Comparison(fresh=[], altered=[], missing=[], lapsed=[])
    for comparison in comparisons:
        for name, paths in vars(comparison).items():
            getattr(total, name).extend(paths)
    return total


def deliveries_name(lake: Lake) -> str:
    """What a lake's source is called in errors about its deliveries."""
    return (
        f"the deliveries of {source_section(lake.source)} in lake.toml "
        f"({printable_text(lake.settings.source.files)})"
    )


def listing_and_ledger(
    lake_session: Session, *, whole: bool = False
) -> tuple[Listing, list[FileRecord]]:
    """What the lake's source delivers, with what manifests declare of it, and its ledger `files`.
    `whole`: a table's log is read from its beginning, so that its contents say where their rows
    lie."""
    lake = lake_session.lake
    records = read_files(lake.store, lake.source)
    return listing_beside(lake_session, records, whole=whole), records


def listing_beside(
    lake_session: Session, records: Sequence[FileRecord], *, whole: bool = False
) -> Listing:
    """What the lake's source delivers, as `listing_and_ledger` says; `records` are of its ledger,
    all of them if it is a table."""
    lake = lake_session.lake
    source = landed_source(lake.settings.source)
    base = lake.shared or lake.root
    known = reading_position(lake.stock, records) if source.table and not whole else None
    read_before = noted_version(lake.stock) if source.table else -1
    listing = list_source(source, base, known, read_before)
    if isinstance(listing, TableListing):
        listing = with_recorded_contents(
            listing, source_table(source, base), records, lake.stock, source.first_version
        )
    if not listing.manifests:
        return listing
    declared = read_declared(listing.manifests, listing.files)
    refused = (RefusedFile(name, why) for name, why in declared.refused.items())
    return replace(listing, declared=declared, refused=(*listing.refused, *refused))


def landed_by_content(
    lake_session: Session, lost: Sequence[FileRecord]
) -> dict[str, list[LandedFile]]:
    """The landed files by the contents recorded for their path, today's or an earlier one."""
    listing, records = listing_and_ledger(lake_session, whole=True)
    files = {f.name: f for f in listing.files}
    found = defaultdict[str, list[LandedFile]](list)
    for record in (*lost, *records):
        if record.path in files:
            found[record.sha256].append(files[record.path])
    return found


def look_at_landing(lake_session: Session, to_scan: bool = False) -> LandingLook:
    """Compare what the lake's source delivers with its ledger now. Keeps the hashes for the next
    look. `to_scan`: also finds the renamed contents, for which files are hashed that were counted
    under other settings, and raises SettingsError for a table whose columns do not fit."""
    return look_beside(lake_session, _part_to_compare(lake_session), to_scan)


def look_beside(lake_session: Session, part: ListingPart, to_scan: bool = False) -> LandingLook:
    """Compare a listing that was taken already (`part`) with the ledger, and keep the hashes for
    the next look. Of a table it adds the contents that vacuum took, and notes how far its log was
    read. `to_scan`: as of `look_at_landing`."""
    lake, records, hashes = lake_session.lake, part.records, Hashes(lake_session.lake.stock)
    renamed = list[FileRecord]()
    if to_scan:
        renamed = renamed_records(lake.settings, part.unsettled, records, hashes)
    comparison = compare_listing(part.unsettled, records, hashes, renamed)
    hashes.keep()
    listing = _with_missing_table(lake, part.listing, comparison)
    if isinstance(listing, TableListing):
        comparison = _with_gone_contents(lake, listing, records, comparison)
    comparison = _with_uncounted(lake, listing, records, comparison)
    # Of another table than the one that was read nothing is taken, so that its columns may differ.
    if to_scan and isinstance(listing, TableListing) and not comparison.held:
        _refuse_unfit_columns(lake_session, listing, comparison)
    return LandingLook(replace(comparison, refused=[*listing.refused]), listing, records)


def _with_gone_contents(
    lake: Lake, listing: TableListing, records: Sequence[FileRecord], found: Comparison
) -> Comparison:
    """The comparison of a table, with the contents that vacuum took. Also notes how far its log was
    read."""
    note_read(listing, records, lake.stock)
    live = [r for r in records if not r.withdrawn]
    table = source_table(lake.settings.source, lake.shared or lake.root)
    gone = vanished_records(listing, live, lake.stock, table)
    return replace(_comparison_of_table(found), vanished=gone)


def _with_uncounted(
    lake: Lake,
    listing: Listing,
    records: Sequence[FileRecord],
    found: Comparison,
) -> Comparison:
    """The comparison, with the records that a scan would count again, and those that manifests
    contradict; none of them is of a path that is altered, gone, or of a renamed content."""
    apart = (*found.altered, *found.missing, *found.lapsed, *found.vanished, *found.renamed)
    blocked, now = {r.path for r in apart}, utc_now()
    live = [r for r in records if not r.withdrawn and r.path not in blocked]
    declared = declared_by_content(listing.declared, [(r.path, r.sha256) for r in live])
    today = counting_digest(lake.settings)
    uncounted, contradicted = list[tuple[FileRecord, str]](), list[FileRecord]()
    for record in live:
        rules = counting_rules(today, declared.get(record.sha256, ()))
        if record.counted_by != rules or _is_scanned_too_early(record, now):
            uncounted.append((record, rules))
        elif record.contradicted:
            contradicted.append(record)
    return replace(found, uncounted=uncounted, contradicted=contradicted)


def _refuse_unfit_columns(lake_session: Session, listing: TableListing, found: Comparison) -> None:
    """Raise SettingsError where `select` reads columns that the table lacks, gives no day of lost
    contents, or reads columns that changed their type in contents that a scan would count."""
    source = lake_session.lake.settings.source
    refuse_unknown_columns(listing, source)
    refuse_without_day(source.select, found.missing)
    again = {record.path for record, _ in found.uncounted}
    whole: Listing = listing
    if again:  # they may lie in front of where this listing begins
        whole, _ = listing_and_ledger(lake_session, whole=True)
    names = again.union(file.name for file in found.fresh)
    refuse_altered_columns(whole, names, source)


def _part_to_compare(lake_session: Session) -> ListingPart:
    """The listing of the lake's source now, and what of it has to be compared file by file: of a
    table and of dumps everything."""
    lake, settings = lake_session.lake, lake_session.lake.settings
    if settings.source.table or settings.source.kind == "snapshot":
        listing, records = listing_and_ledger(lake_session)
        return ListingPart(listing, listing, records)
    listing = listing_beside(lake_session, ())
    files, records = unsettled(
        lake,
        listing,
        counting_digest(settings),
        utc_now(),
        by_path=uses_path(settings.source.select),
    )
    return ListingPart(listing, replace(listing, files=tuple(files)), records)


def _with_missing_table(lake: Lake, listing: Listing, found: Comparison) -> Listing:
    """The listing, which says where the table of lost contents was looked for if nothing lies
    there: a lake that was copied elsewhere takes its relative paths along."""
    source = lake.settings.source
    if source.table is None or not listing.root_missing or not found.missing:
        return listing
    address = source_table(source, lake.shared or lake.root).uri()
    why = (
        f"nothing lies at {address}: put the table there, or correct {source_section(lake.source)} "
        "table in lake.toml"
    )
    return replace(
        listing, refused=(*listing.refused, RefusedFile(printable_text(source.table), why))
    )


def _comparison_of_table(found: Comparison) -> Comparison:
    """The comparison of a table. One that is not the table that was read brings nothing until a
    person looks at it."""
    if found.altered or found.missing:
        return replace(found, fresh=[], held=found.fresh)
    fresh = [f for f in found.fresh if not is_content_lost(f)]
    lost = [unloaded_record(f) for f in found.fresh if is_content_lost(f)]
    return replace(found, fresh=fresh, missing=lost)


def renamed_records(
    settings: LakeSettings, listing: Listing, records: Sequence[FileRecord], hashes: Hashes
) -> list[FileRecord]:
    """The records of contents that are named by their path though today's `select` gives rows that
    do not depend on it, or the other way round. Records counted under today's settings keep their
    names, except copies that have one name and depend on their paths."""
    files = {f.name: f for f in listing.files if not f.sha256}
    live = [r for r in records if not r.withdrawn]
    today, by_path = counting_digest(settings), uses_path(settings.source.select)
    paths, found = Counter(r.sha256 for r in live), list[FileRecord]()
    for record in live:
        may_be_copy = by_path and paths[record.sha256] > 1
        may_differ = record.counted_under != today or may_be_copy
        if may_differ and record.path in files:
            sha256 = hashes.sha256(files[record.path])
            earlier_name = sha256 if by_path else content_name_by_path(sha256, record.path)
            if record.sha256 == earlier_name:
                found.append(record)
    return found


def compare_listing(
    listing: Listing,
    records: Sequence[FileRecord],
    hashes: Hashes,
    renamed: Sequence[FileRecord] = (),
) -> Comparison:
    """Sort files and records; `renamed` are of `renamed_records`. Hashes only files of equal size
    whose time changed, each once.

    The file of a record that never had a usable row may change or vanish freely: raw holds no row
    of it. Today's settings do not matter here, because raw holds rows made under earlier ones. A
    missing file is not missing while the same content lies at another path.
    """
    listed = {f.name: f for f in listing.files}
    same, altered, gone = list[FileRecord](), list[FileRecord](), list[FileRecord]()
    for record in records:
        if record.withdrawn:
            continue
        file = listed.get(record.path)
        if file is None:
            gone.append(record)
        elif _is_as_recorded(file, record, hashes):
            same.append(record)
        else:
            altered.append(record)
    disputed = [r for r in altered if r.may_be_in_raw]
    present = {r.sha256 for r in same}
    missing = [r for r in gone if r.may_be_in_raw and r.sha256 not in present]
    kept = {(r.path, r.sha256) for r in (*disputed, *missing)}
    taken = {r.path for r in (*same, *disputed)} - {r.path for r in renamed}
    return Comparison(
        fresh=[f for f in listing.files if f.name not in taken],
        altered=disputed,
        missing=missing,
        lapsed=[r for r in (*altered, *gone) if (r.path, r.sha256) not in kept],
        renamed=[*renamed],
    )


def unneeded_copies(lake_session: Session, before: date) -> dict[str, int]:
    """The contents whose copies in the content store can go, with their bytes: all their days lie
    before that day, and a file of the landing folder still has the content, by its size and time.
    The next reader ingests it from there again."""
    listing, records = listing_and_ledger(lake_session)
    # Vacuum may take a table's files any time.
    here = {(f.name, f.size, f.mtime_ns) for f in listing.files if not f.sha256}
    live = [r for r in records if not r.withdrawn]
    landed_still = {r.sha256 for r in live if (r.path, r.size, r.mtime_ns) in here}
    recent = {r.sha256 for r in records if max(r.days, default=before) >= before}
    unneeded = landed_still - recent
    sizes = copy_sizes(lake_session.lake.stock)
    return {name: size for name, size in sizes.items() if name in unneeded}


def _is_as_recorded(file: LandedFile, record: FileRecord, hashes: Hashes) -> bool:
    """Whether a file still has the recorded content: by its size and time, else by its hash."""
    if file.sha256:
        return file.sha256 == record.sha256
    if file.size != record.size or file.mtime_ns == record.mtime_ns:
        return file.size == record.size
    sha256 = hashes.sha256(file)
    # The content's name may contain its path.
    return record.sha256 in (sha256, content_name_by_path(sha256, file.name))


def counting_rules(today: str, declared: Sequence[DeclaredTotals]) -> str:
    """Name of the rules that count a content: the digest of `today`'s settings, and a digest of the
    totals that manifests declare for it."""
    return " ".join(filter(None, (today, totals_digest(declared))))


def copied_paths(
    new: Sequence[FileRecord], recorded: Sequence[FileRecord], records: Sequence[FileRecord]
) -> dict[str, str]:
    """The new paths whose content was known at another path already, with that path."""
    owners = {r.sha256: r.path for r in reversed(records) if not r.withdrawn}
    for record in recorded:
        owners.setdefault(record.sha256, record.path)
    return {r.path: owners[r.sha256] for r in new if owners[r.sha256] != r.path}


def records_by_new_names(
    renamed: Sequence[FileRecord], intakes: Intakes, records: Sequence[FileRecord]
) -> list[FileRecord]:
    """The renamed records by the names that their contents have now, the first scanned of each,
    unless it is known."""
    names = {file.name: intake.sha256 for file, intake in intakes}
    known = {r.sha256 for r in records if not r.withdrawn}
    found = dict[str, FileRecord]()
    for record in sorted(renamed, key=lambda r: r.first_scan, reverse=True):
        if record.path in names:
            name = names[record.path]
            found[name] = replace(record, sha256=name, counted_by="")
    return [r for name, r in found.items() if name not in known]


def scanned_too_early(records: Sequence[FileRecord], intakes: Intakes, now: datetime) -> set[str]:
    """The contents whose first scan lies before the time of their file, or of the file in which
    they land again."""
    live = [r for r in records if not r.withdrawn]
    names = {r.sha256 for r in live}
    withdrawn = {r.sha256: r for r in records if r.sha256 not in names}
    again = list[FileRecord]()
    for file, intake in intakes:
        if intake.sha256 in withdrawn:
            again.append(replace(withdrawn[intake.sha256], mtime_ns=file.mtime_ns))
    return {r.sha256 for r in (*live, *again) if _is_scanned_too_early(r, now)}


def _is_scanned_too_early(record: FileRecord, now: datetime) -> bool:
    """Whether the first scan lies before the file's own time, which is over: the clock of that scan
    was behind."""
    latest = (record.first_scan + timedelta(days=FIRST_SCAN_SLACK_DAYS)).timestamp()
    written = record.mtime_ns / 1e9
    return latest < written <= now.timestamp()


def counting_digest(settings: LakeSettings) -> str:
    """Digest of the settings, engine and ingest rules that decide a row's arrival day and whether
    it is usable."""
    source, tolerance = landed_source(settings.source), settings.lateness.early_tolerance_days
    engine = engine_named(settings.spark.engine)
    # Only what differs from the default: settings that came later change no earlier digest.
    own = list[object]()
    if source.payload is not None:
        own.append(payload_values(source.payload_columns))
    if source.dialect.declared:
        own.append(source.dialect.declared)
    if source.key_day is not None:
        own.append(f"key_day {source.key_day}")
    if source.kind != "changes":
        own += [source.kind, source.max_vanished_share]
    if not engine.reads_all_landed:
        own.append(engine.name.lower())
    every = [source.format, source.select, str(settings.start_date), tolerance]
    return digest_of([*every, VERSION, RULES_VERSION, *own])
