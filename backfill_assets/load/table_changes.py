"""A Delta table that others write against the ledger `files`: rows that vacuum took, and commits that are gone.

Not here: reading the log (`lake.source_log`), taking contents in (`table_contents`), and files (`landed_changes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from backfill_assets.core.clock import utc_now
from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import LandingError, SettingsError
from backfill_assets.core.place import Place, read_json, write_json
from backfill_assets.core.texts import plain
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import FileRecord, read_files
from backfill_assets.lake.sections import SourceSettings
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.source_log import (
    CHANGES,
    TableFile,
    TableListing,
    are_there,
    known_content,
    missing_versions,
    version_of,
)
from backfill_assets.lake.source_position import Position, position_of
from backfill_assets.landing.content_store import is_in
from backfill_assets.landing.files import LandedFile
from backfill_assets.landing.listing import Listing
from backfill_assets.landing.select import FILE, OF_COMMITS, ROW, names_of, roots_of

READ = "table.json"  # in the content store: the version up to which the log was read; versions may bring nothing
POSITION, LEDGER = "position", "ledger"  # keys there: where the next look goes on, and a digest of what the ledger had
VACUUMED = "vacuum took its rows"


def position_in(stock: Place, records: Sequence[FileRecord]) -> Position | None:
    """The position up to which the source's log need not be read, since the ledger has what came before; None without
    one."""
    kept = read_json(stock, READ)
    position = position_of(kept.get(POSITION) or {})
    if position is None or kept.get(LEDGER) != _named(records, position.version):
        return None
    changed, stored = [r for r in records if r.path.endswith(f"/{CHANGES}") and not r.withdrawn], {*stock.names()}
    return position if all(is_in(stock, r.sha256, stored) for r in changed) else None  # else from the table again


def with_known(
    listing: TableListing, table: Place, records: Sequence[FileRecord], stock: Place, begun: int = 0
) -> TableListing:
    """The listing, with the recorded contents of versions that were not read, or that the log no longer has. `begun`:
    the first version that is read at all.

    Raises LandingError where versions are gone that were not read.
    """
    first = listing.commits.start
    noted = int(read_json(stock, READ).get("version", -1))
    seen = [noted, *(version_of(r.path) for r in records), begun - 1]
    if first > (last := max(seen)) + 1:
        raise missing_versions(table, last + 1, first - 1)
    known = [
        known_content(table, r.path, r.size, r.mtime_ns, r.sha256)
        for r in records
        if not r.withdrawn and version_of(r.path) < listing.read.start
    ]
    return replace(listing, files=(*known, *listing.files))


def note_read(listing: TableListing, records: Sequence[FileRecord], stock: Place, *, is_scanned: bool = False) -> None:
    """Note that a scan read the log to its end; and, where the ledger has exactly what is listed, the position from
    which the next look goes on."""
    if listing.position is None:
        return
    position, kept = listing.position, read_json(stock, READ)
    now = kept | ({"version": position.version} if is_scanned else {})
    if {(f.name, f.sha256) for f in listing.files} == {(r.path, r.sha256) for r in records if not r.withdrawn}:
        now |= {"version": position.version, POSITION: position.to_dict(), LEDGER: _named(records, position.version)}
    if now != kept:
        write_json(stock, READ, now)


def note_scanned(lake: Lake, listing: Listing) -> None:
    """Note that a scan took in what a table's log says, so that the next look reads on from there."""
    if isinstance(listing, TableListing):
        note_read(listing, read_files(lake.store, lake.source), lake.stock, is_scanned=True)


def _named(records: Sequence[FileRecord], last: int) -> str:
    """A digest of the contents up to a version that the ledger has."""
    return digest_of(sorted([r.path, r.sha256] for r in records if not r.withdrawn and version_of(r.path) <= last))


def is_lost(file: LandedFile) -> bool:
    """Whether rows of a table's content are gone from the disk."""
    return isinstance(file, TableFile) and not file.is_readable


def committed_at(mtime_ns: int) -> datetime:
    """The time of a commit, in UTC."""
    return datetime.fromtimestamp(mtime_ns // 1000 / 1e6, UTC)


def never_loaded(file: LandedFile) -> FileRecord:
    """The record of a content that was gone before it was read: it holds the day of its commit back."""
    day = committed_at(file.mtime_ns).date()
    return FileRecord(file.name, file.sha256, file.size, file.mtime_ns, utc_now(), day, {day: (1, 0, 1)})


def vanished(listing: Listing, live: Sequence[FileRecord], stock: Place, table: Place) -> list[FileRecord]:
    """Recorded contents whose rows neither the table nor the content store has any more."""
    readable, stored = {f.name for f in listing.files if not is_lost(f)}, {*stock.names()}
    gone = [r for r in live if r.path not in readable and not is_in(stock, r.sha256, stored)]
    there = are_there(table, [r.path for r in gone])
    return [r for r, is_there in zip(gone, there, strict=True) if not is_there]


def given_up(chosen: Sequence[FileRecord], records: Sequence[FileRecord]) -> tuple[list[FileRecord], list[FileRecord]]:
    """The chosen records that the ledger lacks, made by `never_loaded`, as refused ones; and the other chosen ones."""
    known = {(r.path, r.sha256) for r in records}
    lost = [r for r in chosen if (r.path, r.sha256) not in known]
    refused = [replace(r, days={r.home_day: (1, 1, 0)}, refused=VACUUMED) for r in lost]
    return refused, [r for r in chosen if r not in lost]


def first_day(record: FileRecord, settings: LakeSettings) -> date:
    """The day of rows without a usable arrival time, if no row has one: of tables the commit's, of dumps the path's."""
    is_dump = settings.source.kind == "snapshot"
    named = committed_at(record.mtime_ns).date() if settings.source.table else record.path_day if is_dump else None
    return max(settings.start_date, named or settings.start_date)


def waiting(held: Sequence[LandedFile], absent: Mapping[str, str]) -> dict[str, str]:
    """By path why contents of a table, and files that a manifest declares, are not read."""
    of_another = {f.name: "it is of another table than was read, or of a rewritten log" for f in held}
    return of_another | {path: f"{manifest} declares it, and it is not there" for path, manifest in absent.items()}


def refuse_without_day(select: str, lost: Sequence[FileRecord]) -> None:
    """Raise LandingError for contents that were gone before they were read, where `select` decides on their days."""
    if lost and "arrival_ts" in names_of(select):
        raise LandingError(
            f"the landed file {plain(lost[0].path)}", f"{VACUUMED}, and nobody knows which days they belong to",
            "Nothing of the table was recorded",
            "Put its data files back from a copy, or give them up with `backfill-assets landing accept --note \"why\"`",
        )  # fmt: skip


def commit_of(record: FileRecord) -> tuple[int, datetime]:
    """The version that brought a recorded content, and its time."""
    return version_of(record.path), committed_at(record.mtime_ns)


def nowhere(table: str | None, record: FileRecord) -> LandingError:
    """The error for a content of a table, or of files, of which neither the landing nor the store has the rows."""
    culprit, fix = "its content is neither in the stock nor in the landing folder", "Put the file back, then run again"
    if table:
        culprit = f"version {version_of(record.path)} of the table {table} has lost it: {VACUUMED}"
        fix = 'Put its data files back, or give it up: `backfill-assets landing accept --note "why" PATH`'
    return LandingError(f"the landed file {plain(record.path)}", culprit, "Nothing was written", fix)


def refuse_unknown_columns(listing: Listing, source: SourceSettings) -> None:
    """Raise SettingsError where `select` reads a column that the table never had in the commits of its log: it would
    be NULL in every row, because older files may lack a column."""
    columns = listing.position.state.columns if isinstance(listing, TableListing) and listing.position else ()
    known = {name.lower() for name in columns} | {FILE, ROW, *OF_COMMITS}
    if columns and (unknown := sorted({c for c in roots_of(source.select) if c.lower() not in known})):
        raise SettingsError(
            "[source] select in lake.toml", f"the table {source.table} has no column {unknown[0]}", "Nothing was read",
            f"Name one of {', '.join(sorted(known - {FILE, ROW}))}",
        )  # fmt: skip
