"""A Delta table that others write as a source: its commits against the ledger `files`, its contents
taken in.

Contents are links to data files, and changed rows: those that a commit took from the table and
those that it put there, without what is in both, because a rewritten file repeats most of its rows.
Not here: reading the log (`intake.source_log`), reading the store (`landed_rows`), and landed files
(`landed_changes`).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from backfill_assets.intake.content_store import (
    StoredFile,
    copy_name,
    discard_described,
    find_content,
    has_table_rows,
    put_content,
    scratch_folder,
)
from backfill_assets.intake.files import LandedFile, LandingError, landed_object, local_file
from backfill_assets.intake.ingest import link_data_file, table_rules
from backfill_assets.intake.key_texts import KEY_COLUMN, key_fault_of_types
from backfill_assets.intake.ledger import REFUSED_WHOLE, FileRecord, RowCounts, read_files
from backfill_assets.intake.listing import Listing
from backfill_assets.intake.log_files import DataFile
from backfill_assets.intake.log_reading import missing_versions_error
from backfill_assets.intake.select import (
    FILE,
    OF_COMMITS,
    ROW,
    columns_of_stars,
    reads_all_columns,
    root_columns,
    selected_names,
)
from backfill_assets.intake.source_log import (
    CHANGES,
    MILLISECOND,
    TableFile,
    TableListing,
    are_files_there,
    content_version,
    known_content,
)
from backfill_assets.intake.source_position import (
    NAMES,
    Position,
    column_names,
    column_types,
    empty_table,
    parsed_position,
    typed_columns,
    unread_columns,
)
from backfill_assets.intake.stored_names import (
    altered_names,
    doubted_columns,
    earlier_names,
    stored_columns,
)
from backfill_assets.intake.table_rows import copy_changed_rows
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.embedded import duckdb_cursor
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.tables.settings import LakeSettings

if TYPE_CHECKING:
    pass


# In the content store: the version up to which the log was read; versions may bring nothing.
READ = "table.json"
# Keys there: where the next look goes on, and a digest of what the ledger had.
POSITION = "position"
LEDGER = "ledger"
NAMES_NOW = "names"  # of columns, by those that they had before
VACUUMED = "vacuum took its rows"
TYPE_CHANGES = "delta.typeChanges"  # in a schema: the types that its columns had
BY_NEW_KEYS = "and make all days by it, as `status` says then"  # earlier rows have other keys
INSTEAD = "Name in select what took its place, and"  # the advice where a column is another one


def noted_version(stock: Place) -> int:
    """The version up to which an earlier scan read the source's log; -1 before the first."""
    return int(stock.read_json(READ).get("version", -1))


def reading_position(stock: Place, records: Sequence[FileRecord]) -> Position | None:
    """The position up to which the source's log need not be read, since the ledger has what came
    before; None where it has to be read from the beginning: no position is kept, the ledger has
    other contents since, or stored rows of changes are gone. Links to data files need no log."""
    kept = stock.read_json(READ)
    position = parsed_position(kept.get(POSITION) or {})
    if position is None or kept.get(LEDGER) != _contents_digest(records, position.version):
        return None
    stored = {*stock.names()}
    for record in records:
        is_of_changes = record.path.endswith(f"/{CHANGES}") and not record.withdrawn
        if is_of_changes and not has_table_rows(stock, record.sha256, stored):
            return None
    return position


def with_recorded_contents(
    listing: TableListing, table: Place, records: Sequence[FileRecord], stock: Place, begun: int = 0
) -> TableListing:
    """The listing, with the recorded contents of versions that were not read, or that the log no
    longer has. `begun`: the first version that is read at all.

    Raises LandingError where versions are gone that were not read.
    """
    first_in_log = listing.commits.start
    recorded = [content_version(record.path) for record in records]
    last_read = max([noted_version(stock), *recorded, begun - 1])
    if first_in_log > last_read + 1:
        raise missing_versions_error(table, last_read + 1, first_in_log - 1)
    known = list[TableFile]()
    for record in records:
        if not record.withdrawn and content_version(record.path) < listing.read.start:
            known.append(
                known_content(table, record.path, record.size, record.mtime_ns, record.sha256)
            )
    later = _with_noted_times(listing, records)
    return replace(later, files=(*known, *later.files))


def _with_noted_times(listing: TableListing, records: Sequence[FileRecord]) -> TableListing:
    """The listing with the times that the ledger has, and later ones for later commits: where the
    log was cleaned, its beginning no longer tells how late the commits before it were."""
    noted = {content_version(r.path): r.mtime_ns for r in records if not r.withdrawn}
    begins_at = listing.read.start
    latest = 0  # the time of the newest commit so far
    if begins_at == listing.commits.start:
        # Else the state of the position knows the time before it.
        latest = max((time for at, time in noted.items() if at < begins_at), default=0)
    files = list[LandedFile]()
    for version, group in groupby(listing.files, lambda file: content_version(file.name)):
        brought = [*group]
        time = brought[0].mtime_ns  # of the commit, and so of all that it brought
        # A commit that says a time too far ahead counts as of its look, and holds no later one up.
        is_ahead = any(isinstance(f, TableFile) and f.committed_ms for f in brought)
        if not is_ahead:
            time = max(time, latest + MILLISECOND)
        time = noted.get(version) or time
        if not is_ahead:
            latest = time
        files += [replace(file, mtime_ns=time) for file in brought]
    if (position := listing.position) is not None:
        state = replace(position.state, time=max(position.state.time, latest // MILLISECOND))
        position = replace(position, state=state)
    return replace(listing, files=tuple(files), position=position)


def note_read(
    listing: TableListing, records: Sequence[FileRecord], stock: Place, *, is_scanned: bool = False
) -> None:
    """Note that a scan read the log to its end; and, where the ledger has exactly what is listed,
    the position from which the next look goes on."""
    if listing.position is None:
        return
    position, kept = listing.position, stock.read_json(READ)
    now = kept | ({"version": position.version} if is_scanned else {})
    renamed = _earlier_names(position)
    if renamed or NAMES_NOW in kept:
        now |= {NAMES_NOW: renamed}
    listed = {(file.name, file.sha256) for file in listing.files}
    recorded = {(r.path, r.sha256) for r in records if not r.withdrawn}
    if listed == recorded:
        now |= {
            "version": position.version,
            POSITION: json_of(position),
            LEDGER: _contents_digest(records, position.version),
        }
    if now != kept:
        stock.write_json(READ, now)


def noted_names(stock: Place) -> dict[str, str]:
    """What columns of the source's table are called now, by the names that they had before; none
    of a source that is no table with column mapping."""
    return {str(k): str(v) for k, v in (stock.read_json(READ).get(NAMES_NOW) or {}).items()}


def _earlier_names(position: Position) -> dict[str, str]:
    """The names that columns had before, with those of now."""
    state = position.state
    return earlier_names(state.paths, state.schema) if state.schema else {}


def note_scanned(lake: Lake, listing: Listing) -> None:
    """Note that a scan took in what a table's log says, so that the next look reads on from
    there."""
    if isinstance(listing, TableListing):
        note_read(listing, read_files(lake.store, lake.source), lake.stock, is_scanned=True)


def _contents_digest(records: Sequence[FileRecord], last: int) -> str:
    """A digest of the contents up to a version that the ledger has."""
    live = [r for r in records if not r.withdrawn]
    return digest_of(sorted([r.path, r.sha256] for r in live if content_version(r.path) <= last))


def is_content_lost(file: LandedFile) -> bool:
    """Whether rows of a table's content are gone from the disk."""
    return isinstance(file, TableFile) and not file.is_readable


def commit_time(mtime_ns: int) -> datetime:
    """The time of a commit, in UTC."""
    return datetime.fromtimestamp(mtime_ns // 1000 / 1e6, UTC)


def future_commits(files: Iterable[LandedFile]) -> dict[str, str]:
    """By path why contents count as of the look that found them, and not as of the time that their
    commit says."""
    why = dict[str, str]()
    for file in files:
        if isinstance(file, TableFile) and file.committed_ms:
            said = _shown_time(file.committed_ms)
            why[file.name] = f"its commit says {said}: it counts as of this look"
    return why


def _shown_time(milliseconds: int) -> str:
    """The time that a commit says, whatever that is."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms after 1970"


def unloaded_record(file: LandedFile) -> FileRecord:
    """The record of a content that was gone before it was read: it holds the day of its commit
    back."""
    day = commit_time(file.mtime_ns).date()
    return FileRecord(
        path=file.name,
        sha256=file.sha256,
        size=file.size,
        mtime_ns=file.mtime_ns,
        first_scan=utc_now(),
        home_day=day,
        days={day: RowCounts(rows=1, bad=0, usable=1)},  # as if raw had a row of it
    )


def vanished_records(
    listing: Listing, live: Sequence[FileRecord], stock: Place, table: Place
) -> list[FileRecord]:
    """Recorded contents whose rows neither the table nor the content store has any more."""
    readable, stored = {f.name for f in listing.files if not is_content_lost(f)}, {*stock.names()}
    gone = [
        r for r in live if r.path not in readable and not has_table_rows(stock, r.sha256, stored)
    ]
    there = are_files_there(table, [r.path for r in gone])
    return [r for r, is_there in zip(gone, there, strict=True) if not is_there]


def given_up_records(
    chosen: Sequence[FileRecord], records: Sequence[FileRecord]
) -> tuple[list[FileRecord], list[FileRecord]]:
    """The chosen records that the ledger lacks, made by `unloaded_record`, as refused ones; and the
    other chosen ones."""
    known = {(r.path, r.sha256) for r in records}
    lost = [r for r in chosen if (r.path, r.sha256) not in known]
    refused = [replace(r, days={r.home_day: REFUSED_WHOLE}, refused=VACUUMED) for r in lost]
    return refused, [r for r in chosen if r not in lost]


def first_home_day(record: FileRecord, settings: LakeSettings) -> date:
    """The day of rows without a usable arrival time, if no row has one: of tables the commit's, of
    dumps the path's."""
    named = None
    if settings.source.table:
        named = commit_time(record.mtime_ns).date()
    elif settings.source.kind == "snapshot":
        named = record.path_day
    return max(settings.start_date, named or settings.start_date)


def waiting_reasons(held: Sequence[LandedFile], absent: Mapping[str, str]) -> dict[str, str]:
    """By path why contents of a table, and files that a manifest declares, are not read."""
    of_another = {
        f.name: "it is of another table than was read, or of a rewritten log" for f in held
    }
    return of_another | {
        path: f"{manifest} declares it, and it is not there" for path, manifest in absent.items()
    }


def refuse_without_day(select: str, lost: Sequence[FileRecord]) -> None:
    """Raise LandingError for contents that were gone before they were read, where `select` decides
    on their days."""
    if lost and "arrival_ts" in selected_names(select):
        raise LandingError(
            f"the landed file {printable_text(lost[0].path)}",
            f"{VACUUMED}, and nobody knows which days they belong to",
            "Nothing of the table was recorded",
            "Put its data files back from a copy, or give them up with `backfill-assets landing "
            'accept --note "why"`',
        )


def commit_of_record(record: FileRecord) -> tuple[int, datetime]:
    """The version that brought a recorded content, and its time."""
    return content_version(record.path), commit_time(record.mtime_ns)


def lost_content_error(table: str | None, record: FileRecord) -> LandingError:
    """The error for a content of a table, or of files, of which neither the landing nor the store
    has the rows."""
    culprit = "its content is neither in the stock nor in the landing folder"
    fix = "Put the file back, then run again"
    if table:
        culprit = (
            f"version {content_version(record.path)} of the table {table} has lost it: {VACUUMED}"
        )
        fix = (
            'Put its data files back, or give it up: `backfill-assets landing accept --note "why" '
            "PATH`"
        )
    return LandingError(
        f"the landed file {printable_text(record.path)}", culprit, "Nothing was written", fix
    )


def refuse_unknown_columns(listing: Listing, source: SourceSettings) -> None:
    """Raise SettingsError where `select` reads a column that the table never had in the commits of
    its log: it would be NULL in every row, because older files may lack a column."""
    position = listing.position if isinstance(listing, TableListing) else None
    if position is None or not position.state.columns:
        return
    known = {name.lower() for name in position.state.columns} | {FILE, ROW, *OF_COMMITS}
    unknown = sorted(c for c in root_columns(source.select) if c.lower() not in known)
    if unknown:
        raise SettingsError(
            "[source] select in lake.toml",
            f"the table {source.table} has no column {unknown[0]}",
            "Nothing was read",
            f"Name one of {', '.join(sorted(known - {FILE, ROW}))}",
        )
    _refuse_unread_columns(position, source)
    _refuse_renamed_columns(position, source)
    _refuse_altered_star(position, source)


def _refuse_unread_columns(position: Position, source: SourceSettings) -> None:
    """Raise SettingsError where `select` reads a column of a type that is not read."""
    unread = {name.lower() for name in unread_columns(position.state.schema)}
    if read := sorted(c for c in root_columns(source.select) if c.lower() in unread):
        raise SettingsError(
            "[source] select in lake.toml",
            f"the column {read[0]} of the table {source.table} holds VARIANT, which is not read",
            "Nothing was read",
            "Leave it out, or have its owner write what you need of it as a column",
        )


def _refuse_renamed_columns(position: Position, source: SourceSettings) -> None:
    """Raise LandingError where `select` reads a column of a table with column mapping by a name
    that it has no more, or one of which no name tells what earlier rows have in it."""
    state, read = position.state, sorted(root_columns(source.select))
    if not state.paths or not state.schema:
        return
    now = {before.lower(): name for before, name in _earlier_names(position).items()}
    present = {name.lower() for name in column_names(state.schema)}
    doubted = doubted_columns(state.paths, state.schema)
    for column in read:
        if column.lower() in now and column.lower() not in present:
            name = now[column.lower()]
            culprit = f"its column {column} is called {printable_text(name)} now"
            fix = f"Name {name} in select: rows that came before are read under that name, too"
        elif column.lower() in doubted:
            culprit = (
                f"up to version {position.version} no column, or another one, was called {column}, "
                "or a field in it otherwise, and select reads it"
            )
            fix = (
                "Name in select what the column is called now, and begin with what the table "
                f"holds: first_version = {position.version} beside table"
            )
        else:
            continue
        table = f"the Delta table {printable_text(str(source.table))}"
        raise LandingError(table, culprit, "Nothing of the source was read", fix)


def _refuse_altered_star(position: Position, source: SourceSettings) -> None:
    """Raise LandingError where `select` makes keys of all columns (`*`) of a table with column
    mapping that renamed or dropped one: rows that came before have other keys."""
    state = position.state
    if not state.paths or not state.schema or not reads_all_columns(source.select):
        return
    altered = altered_names(state.paths, state.schema)
    if taken := columns_of_stars(source.select, KEY_COLUMN, altered):
        raise LandingError(
            f"the Delta table {printable_text(str(source.table))}",
            f"select makes {KEY_COLUMN} of all its columns (*), and up to version "
            f"{position.version} {printable_text(min(taken))} was renamed, dropped or another one",
            "Nothing of the source was read",
            f"Name the columns of the key in select, {BY_NEW_KEYS}; or begin with what the table "
            f"holds: first_version = {position.version} beside table",
        )


def refuse_altered_columns(
    listing: Listing, names: Collection[str], source: SourceSettings
) -> None:
    """Raise LandingError where one of the contents named has rows of a table that lost a column
    which `select` reads, or made another type of it: `select` would read the rows of both sides in
    two ways, or give them two keys."""
    read = {name.lower() for name in root_columns(source.select)}
    for file in listing.files:
        if not isinstance(file, TableFile) or file.name not in names:
            continue
        altered = {**_lost_columns(file), **_retyped_columns(file)}
        version = content_version(file.name)
        for column in [name for name in altered if name.lower() in read]:
            why, fix = f"{altered[column]}, and select reads it", INSTEAD
            raise _altered_column_error(source, version, why, fix)
        if fault := _fault_of_keys(file, source.select):
            why, _, fix = fault.partition(": write ")
            raise _altered_column_error(
                source, version, why, f"In select, write {fix}, {BY_NEW_KEYS}; or"
            )


def _altered_column_error(source: SourceSettings, version: int, why: str, fix: str) -> LandingError:
    """The error for a column of which a version made another one."""
    return LandingError(
        f"the Delta table {printable_text(str(source.table))}",
        f"version {version} {why}",
        "Nothing of the source was read",
        f"{fix} begin with what the table held then: first_version = {version} beside table",
    )


def _lost_columns(file: TableFile) -> dict[str, str]:
    """By column that the table has no more why rows that a commit put there lack it."""
    if not file.added and not file.feed:
        return {}
    return {name: f"has no column {printable_text(name)} any more" for name in sorted(file.lacking)}


def _retyped_columns(file: TableFile) -> dict[str, str]:
    """By column why rows that a commit took away are of another type than when they came: the
    commit, or one before it that wrote no file, gave the column another one."""
    if not (file.removed or file.feed):
        return {}
    return {
        name: _shown_types(name, before, after)
        for name, before, after in _altered_types(file)
        if _type_family(before) != _type_family(after)
    }


def _fault_of_keys(file: TableFile, select: str) -> str:
    """Why a row of a commit may have another key than an equal one that came when a column had
    another type, and what to write; empty if none has."""
    if file.files:
        for name, before, after in _altered_types(file):
            if fault := key_fault_of_types(select, name, before, after):
                return f"{_shown_types(name, before, after)}: {fault}"
    return ""


def _altered_types(file: TableFile) -> Iterator[tuple[str, str, str]]:
    """The columns that had another type before a commit, each with that type and with the one
    after it."""
    if not file.schemas:
        return
    after, named = column_types(file.schemas[0]), stored_columns(file.schemas[0])
    earlier = {*file.kinds} | {kind for schema in file.schemas for kind in typed_columns(schema)}
    for stored, kind in map(json.loads, sorted(earlier)):
        name = named.get(stored)
        if name is not None and kind != after[name]:
            yield name, kind, after[name]


def _shown_types(name: str, before: str, after: str) -> str:
    return f"made {printable_text(name)} {after}, which was {before}"


def _type_family(kind: str) -> str:
    """The types among which a value stays what it is, and its text, too. A fraction has several
    texts, as have decimals, which keys do not take as they come."""
    if kind in ("float", "double"):
        return "fraction"
    is_exact = kind in (*NAMES.values(), "string") or kind.startswith("decimal")
    return "exact" if is_exact else kind.partition("<")[0]


def take_in_content(
    lake: LakeFolder, file: TableFile, is_local: bool = False, is_undecoded: bool = False
) -> StoredFile:
    """Take a content into the lake's content store, unless it is there; raises FileNotFoundError if
    vacuum took it. An appended object is fetched; `is_local`: its bytes stay on this machine;
    `is_undecoded`: the engine may meet pages that nobody decoded."""
    is_changed = file.name.endswith(f"/{CHANGES}")  # changed rows of a commit, no appended file
    is_local = is_local and file.place is not None and not is_changed
    new = StoredFile(
        file.sha256, lake.stock, copy_name(file.sha256, "delta"), rows_before=file.rows_before
    )
    known = find_content(lake.stock, file.sha256, rules=table_rules())
    if known is not None:
        has_place_in_log = known.rows_before is not None
        if has_place_in_log or known.refused or not file.is_readable:
            return replace(known, is_local=is_local)
    if not file.is_readable:
        raise FileNotFoundError(file.name)
    with ExitStack() as stack:
        here = _with_local_files(file, lake.stock, stack)
        if is_changed or _is_of_earlier_types(here):
            return _changed_rows(lake, here, new)
        (data,) = here.added
        partition = {n: (file.partition_types[n], value) for n, value in data.partition.items()}
        new = replace(new, partition=partition, is_undecoded=is_undecoded, is_local=is_local)
        return link_data_file(data.path, file.size, new, is_fetched=bool(data.name))


def _is_of_earlier_types(file: TableFile) -> bool:
    """Whether the data file of an appended content is older than a type that a column of its table
    was widened to, so that it does not give its values as the table does."""
    import pyarrow.parquet as pq

    if not file.schemas or TYPE_CHANGES not in file.schemas[0]:
        return False
    found = {field.name: field.type for field in pq.read_schema(file.added[0].path)}
    return any(found.get(f.name, f.type) != f.type for f in empty_table(file.schemas[0]).schema)


def _with_local_files(file: TableFile, store: Place, stack: ExitStack) -> TableFile:
    """The content with the paths of its data files; objects are fetched beside the content store,
    until the stack ends."""
    place = file.place
    if place is None:
        return file

    def fetched(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
        return tuple(_fetched_file(data, place, store, stack) for data in files)

    if file.feed:
        return replace(file, feed=fetched(file.feed), added=(), removed=())
    return replace(file, added=fetched(file.added), removed=fetched(file.removed))


def _fetched_file(data: DataFile, place: Place, store: Place, stack: ExitStack) -> DataFile:
    """The data file with its copy on this machine, which goes when the stack ends. Raises
    FileNotFoundError if vacuum took it."""
    token = place.token(data.name)
    if token is None:
        raise FileNotFoundError(data.name)
    here = stack.enter_context(local_file(landed_object(place, data.name, token), store))
    return replace(data, path=here.path)


def _changed_rows(lake: LakeFolder, file: TableFile, new: StoredFile) -> StoredFile:
    """Write the changed rows of a commit: those that went first, both in the order of the commit's
    files."""
    discard_described(lake.stock, file.sha256)
    with duckdb_cursor(lake) as engine, scratch_folder(lake.stock) as folder:
        copy = folder / "changed.parquet"
        rows = copy_changed_rows(engine, file, copy)
        return put_content(replace(new, rows=rows), table_rules(), copy)
