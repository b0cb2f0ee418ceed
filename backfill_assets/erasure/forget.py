"""Forgetting an entity: what holds it, obstacles to erasing it, whether others kept their rows, the
certificate.

Not here: the steps' own work (`erasure.landed_files`, `intake.forgotten`) and their order
(`erasure.forget_command`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from backfill_assets.erasure.erasing import erase_files
from backfill_assets.erasure.traces import Search, SearchResult, Trace, is_log_file
from backfill_assets.intake.forgotten import Erasure
from backfill_assets.intake.landings import searched_root
from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.select import columns_by_name
from backfill_assets.intake.settings import landed_source
from backfill_assets.kernel.core.addresses import CANDIDATES, address_of
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.payload import LANDED
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.place.choice import MACHINE
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query, sql_literal
from backfill_assets.kernel.tables.fingerprints import (
    fingerprint_text,
    hash_pieces,
    quoted_name,
    row_hash,
)
from backfill_assets.kernel.tables.folder import FORGOTTEN, TABLES
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.tables.staging import tables_being_written
from backfill_assets.kernel.tables.table_places import SNAPSHOTS
from backfill_assets.kernel.tables.versions import (
    record_versions,
    unfinished_switches,
    versions_seen,
)
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import active_plans
from backfill_assets.reading.kept_files import DAY_IN_NAME, snapshots_pinning
from backfill_assets.reading.rejected import undeclared_tables
from backfill_assets.reading.whole import WholeFolders

# The tables, the columns, a condition on them: what is there, and what to do.
FindInOthers = Callable[[Lake, Sequence[Contract], Collection[str], str], Iterable[tuple[str, str]]]
NOTHING_ERASED = "Nothing was erased"
SERVER = ".server"  # of the lake's engine
DROPS = {SNAPSHOTS: "drop_snapshot", CANDIDATES: "discard_candidate"}  # as rooms offer them
LOGS_STAY = "Its rows are gone, old versions and logs are kept"
WAIT = "Wait until it ends; the same command goes on"
NO_CANDIDATES = "Use an installation with the room `candidates`"


@dataclass(frozen=True)
class ForgetRequest:
    """A request to forget an entity."""

    lake: Lake
    pipeline: Pipeline
    trace: Trace  # its values
    note: str
    homes: tuple[Path, ...] = ()  # folders of Dagster's instance
    # kinds of copies (of `DROPS`) that may go whole if they hold the entity
    drops: Collection[str] = ()

    @property
    def search(self) -> Search:
        """The search for the entity."""
        return Search(self.lake, self.trace, self.homes)

    def look(self) -> "FoundFiles":
        """Search the files of the lake, its landing folders and Dagster's home; not the records of
        erasures."""
        folders = [self.lake.root, *self._landing_roots(), *self.homes, *self.search.copies]
        found = self.search.below(folders)
        found |= self._by_cells(found)
        records = self.lake.root / FORGOTTEN
        holding, undecoded = list[Path](), list[Path]()
        for path, result in found.items():
            if path.is_relative_to(records):
                continue
            if result.held:
                holding.append(path)
            elif result.unread:
                undecoded.append(path)
        mentions = self._mentioning_files(holding)
        held = [path for path in holding if path not in mentions]
        return FoundFiles(held, mentions, unread=self._unsearched(undecoded))

    def _by_cells(self, found: Mapping[Path, SearchResult]) -> dict[Path, SearchResult]:
        """The results for landed files and tables of assets that do not hold the entity yet, where
        a short value counts in any cell: their columns have other names, so that it cannot be
        recognized by its column's name."""
        folders = [*self._landing_roots(), *self._asset_folders()]
        unnamed = [p for p in found if any(map(p.is_relative_to, folders))]
        parsed = self._parsed_files() if unnamed else set()
        cells = replace(self.search, trace=replace(self.trace, in_cells=True))
        return {p: cells.of(p) for p in unnamed if not (p in parsed or found[p].held)}

    def _unsearched(self, unread: Collection[Path]) -> list[Path]:
        """Those of files that nothing decodes that may hold the entity."""
        doubtful = [path for path in unread if not self._holds_no_values(path)]
        if not doubtful:
            return []
        encoded = self._parsed_files(_is_encoded)
        return [path for path in doubtful if path not in encoded]

    def _mentioning_files(self, found: Collection[Path]) -> list[Path]:
        """The files that hold it only within longer values of other entities: in rows of tables,
        landed files and their copies, snapshots and candidates. Of a log only notes hold it, or
        bounds by other programs."""
        own = [self.lake.root / name for name in (TABLES, self.lake.stock.name, MACHINE, *DROPS)]
        folders = [*own, *self._landing_roots(), *self.search.copies]
        of_rows = [p for p in found if any(map(p.is_relative_to, folders))]
        # Searched once more: a value that fills a cell is the entity's own, not a mention.
        whole = replace(self.search, trace=replace(self.trace, is_whole=True, in_cells=True))
        return [p for p in of_rows if not (is_log_file(p) or whole.of(p).held)]

    def _parsed_files(
        self, is_wanted: Callable[[SourceSettings], bool] = lambda _: True
    ) -> set[Path]:
        """The landed files of wanted sources of which every record was read or is known as
        unreadable. Where an encoding is declared, it is known what their bytes mean."""
        parsed = set[Path]()
        for lake in self.lake.by_source():
            if not is_wanted(lake.settings.source):
                continue
            root = searched_root(lake.settings.source, lake.root)
            loaded = [r for r in read_files(lake.store, lake.source) if r.refused is None]
            parsed.update(root / r.path for r in loaded if not r.withdrawn)
        return parsed

    def _holds_no_values(self, path: Path) -> bool:
        """Whether a file that is not decoded holds no values: checksums, and what goes with the
        engine's server or when a database is closed."""
        if path.suffix in (".crc", ".db-shm"):
            return True
        return any(path.is_relative_to(self.lake.root / name) for name in (SERVER, LOCKS))

    def places(self, found: Collection[Path]) -> dict[str, int]:
        """The number of files per place: a table, another folder of the lake, or a folder
        elsewhere."""
        return dict(sorted(Counter(map(self._place_name, found)).items()))

    def _landing_roots(self) -> list[Path]:
        return [
            searched_root(source, self.lake.root)
            for source in self.lake.settings.delivered.values()
        ]

    def _asset_folders(self) -> list[Path]:
        """The folders of tables that assets of a project return."""
        return [self.lake.tables / c.name for c in self.pipeline.contracts if c.made_by]

    def _place_name(self, path: Path) -> str:
        """What a report calls the place of a file: `tables/NAME`, another folder of the lake, or a
        folder elsewhere; of snapshots and candidates each by its name."""
        if not path.is_relative_to(self.lake.root):
            return path_or_address(path).rpartition("/")[0]
        folder, *below = path.relative_to(self.lake.root).parts
        has_named_folders = folder in ("tables", *DROPS)
        return "/".join([folder, *below[:1]]) if has_named_folders else folder


@dataclass(frozen=True)
class FoundFiles:
    """The files that a search found."""

    held: list[Path]  # they hold the entity
    mentions: list[Path]  # rows of others in them hold it within longer values
    unread: list[Path]  # nothing here decodes them: they may hold it


def _is_encoded(source: SourceSettings) -> bool:
    """Whether the source declares an encoding of its files other than UTF-8."""
    return landed_source(source).dialect.encoding != "utf-8"


def entity_trace(lake: Lake, values: Sequence[str]) -> Trace:
    """The trace of the entity that these values name, in the order of `[features] entity`; raises
    BackfillError."""
    columns = lake.settings.features.entity
    if len(values) != len(columns) or not all(map(_is_printable, values)):
        fix = f"Give one value for each of {', '.join(columns)}, in printable signs"
        raise BackfillError(
            "the entity", f"it has {len(columns)} column(s) in this lake", NOTHING_ERASED, fix
        )
    named = dict(zip(columns, values, strict=True))
    sources = lake.settings.delivered.values()
    whole = {c.name for s in sources for c in s.payload_columns if c.type in ("INT", "BIGINT")}
    for column, value in named.items():
        if column in whole:
            _refuse_no_number(column, value)
    landed = {column: _landed_columns(sources, column) - {column} for column in columns}
    return Trace(named, landed)


def _is_printable(value: str) -> bool:
    return bool(value.strip()) and value.isprintable()


def _refuse_no_number(column: str, value: str) -> None:
    if re.fullmatch(r"0|-?[1-9]\d*", value):
        return
    raise BackfillError(
        "the entity",
        f"{column} is a whole number, not {value!r}",
        NOTHING_ERASED,
        "Give it in digits, as tables show it",
    )


def _landed_columns(sources: Iterable[SourceSettings], column: str) -> set[str]:
    """The landed columns from which `select` of the sources makes a column."""
    return {name for source in sources for name in columns_by_name(source.select).get(column, ())}


def erasure_obstacles(request: ForgetRequest, found: Collection[Path]) -> Iterator[BackfillError]:
    """Yield the obstacles to the erasure, each with the way out; `found` hold the entity."""
    lake = request.lake
    yield from _unfit_lake_errors(request)
    if request.trace.is_in(request.note.encode()):
        yield _obstacle_error(
            "the note names it, and receipts keep the note", "Say why without the name"
        )
    if lost := undeclared_tables(lake, request.pipeline.contracts):
        fix = f"Declare them again, or move their folders out of {lake.place.uri(TABLES)}"
        yield _obstacle_error(
            f"the pipeline lacks {', '.join(lost)}, whose rows nothing rebuilds without it", fix
        )
    if plans := active_plans(lake):
        fix = "Finish or cancel it, see `backfill-assets plan list`"
        yield _obstacle_error(f"the plan {plans[0].id} is not finished", fix)
    for switch in unfinished_switches(lake):
        yield _obstacle_error(str(switch), "Then forget")
    yield from _held_days(request)
    yield from _closed_days(request, found)
    find_in_others: FindInOthers | None = offered_function("entity_in_external")
    if find_in_others is not None:
        values = request.trace.values
        found_there = find_in_others(
            lake, request.pipeline.contracts, values.keys(), entity_condition(values)
        )
        for culprit, fix in found_there:
            yield _obstacle_error(culprit, fix)
    for folder in DROPS:
        yield from _copies_in_the_way(request, folder, found)


def _held_days(request: ForgetRequest) -> Iterator[BackfillError]:
    """Yield the tables of which a rollback holds days, which no rebuild changes."""
    for contract in request.pipeline.contracts:
        if held := request.lake.store.view(contract.name, contract.day_column).held_days:
            span = f"--from {held[0]} --to {held[-1]}"
            fix = f"Release them: `backfill-assets release {contract.name} {span} --yes`"
            counted = contract.calendar.count_text(len(held))
            yield _obstacle_error(f"{counted} of {contract.name} are held by a rollback", fix)


def _closed_days(request: ForgetRequest, found: Collection[Path]) -> Iterator[BackfillError]:
    """Yield the tables of which closed days hold the entity: no erasure writes them before they are
    opened."""
    for table, files in _files_by_table(request, found).items():
        contract = request.pipeline.contract(table, NOTHING_ERASED)
        closure = request.lake.store.view(table, contract.day_column).closure
        if closure is None:
            continue
        days = {day for day in files.values() if closure.holds(day)}
        live = request.lake.store.files(contract, days=days, altered=True) if days else []
        closed = {file.name for file in live} & files.keys()
        if closed:
            yield _obstacle_error(
                f"{len(closed)} file(s) of {table} that hold it are of days up to {closure.until}, "
                "which are closed",
                f"Open them: `backfill-assets reopen --tables {table} --note WHY`",
            )


def _copies_in_the_way(
    request: ForgetRequest, folder: str, found: Collection[Path]
) -> Iterator[BackfillError]:
    """Yield that snapshots or candidates below `folder` hold the entity, unless the request drops
    them whole."""
    unfinished_copies = {*WholeFolders(request.lake.place, folder).unfinished()}
    names = sorted({*_copies_with(request, folder, found)} - unfinished_copies)
    if not names:
        return
    if offered_function(DROPS[folder]) is None:
        yield _obstacle_error(
            f"nothing here can drop {', '.join(names)} in {folder}", NO_CANDIDATES
        )
    elif folder not in request.drops:
        fix = f"Say --drop {folder.strip('.')} to delete them whole"
        yield _obstacle_error(f"{', '.join(names)} in {folder} would lose rows", fix)


def _unfit_lake_errors(request: ForgetRequest) -> Iterator[BackfillError]:
    """Yield why nothing can be erased from this lake at all."""
    lake, columns = request.lake, {*request.trace.values}
    sources = lake.settings.delivered.values()
    known = [{c.name for c in source.payload_columns} for source in sources]
    known += [{*contract.column_names} for contract in request.pipeline.contracts]
    if not any(columns <= names for names in known):
        named = ", ".join(request.trace.values)
        culprit = f"no source and no table has the column(s) {named}, so nothing finds its rows"
        yield _obstacle_error(culprit, "Name its columns as `entity` below [features] in lake.toml")
    if lake.shared is not None:
        yield _obstacle_error("this is a candidate", "Work on the lake itself")
    for source in sources:
        if source.table:
            yield _obstacle_error(
                f"others write the table {source.table}, and nothing here takes rows out of it",
                "Have its owner delete the rows and vacuum it, then make a lake anew over what it "
                "holds",
            )


def _obstacle_error(culprit: str, fix: str) -> BackfillError:
    return BackfillError("the entity", culprit, NOTHING_ERASED, fix)


def _copies_with(request: ForgetRequest, folder: str, found: Collection[Path]) -> list[str]:
    """The folders below `folder` with one of the files, and the snapshots that pin one."""
    root = request.lake.root
    names = [p.relative_to(root).as_posix() for p in found if p.is_relative_to(root)]
    pinning = snapshots_pinning(request.lake.place, names) if folder == SNAPSHOTS else set()
    return sorted({n.split("/")[1] for n in names if n.startswith(f"{folder}/")} | pinning)


def days_of_lost_tables(request: ForgetRequest) -> dict[str, list[date]]:
    """Per table, upstream first, the outdated days whose receipts name tables that no longer exist,
    as after a source was renamed: nothing says whether their inputs changed, and so whether they
    hold the entity."""
    states = request.pipeline.states(read_view(request.lake, request.pipeline.contracts))
    found = defaultdict[str, list[date]](list)
    for name in states.contracts:
        for day, receipt in states.view.table(name).latest.items():
            is_outdated = states.of(name, day) is State.OUTDATED
            if is_outdated and not states.digests.knows_parameters(receipt):
                found[name].append(day)
    return found


def rebuild_commands(request: ForgetRequest, held: Collection[Path]) -> list[str]:
    """The commands that rebuild the days of which files of the pipeline's tables hold the
    entity."""
    commands = list[str]()
    for contract, days in _days_by_table(request, held):
        if made := [day for day in days if contract.has_partition(day)]:
            span = f"--from {made[0]} --to {made[-1]}"
            commands.append(f"backfill-assets backfill --force {span} --tables {contract.name}")
    return commands


def days_left_out(request: ForgetRequest, held: Collection[Path]) -> dict[str, list[date]]:
    """By table the days whose files hold the entity, and that are no partitions any more: nothing
    makes them again."""
    found = dict[str, list[date]]()
    for contract, days in _days_by_table(request, held):
        if gone := [day for day in days if not contract.has_partition(day)]:
            found[contract.name] = gone
    return found


def _days_by_table(
    request: ForgetRequest, held: Collection[Path]
) -> Iterator[tuple[Contract, list[date]]]:
    """Yield each table of the pipeline with the days of these of its files, ascending."""
    files = _files_by_table(request, held)
    for contract in request.pipeline.contracts:
        if of_table := files.get(contract.name):
            yield contract, sorted({*of_table.values()})


def _files_by_table(request: ForgetRequest, held: Collection[Path]) -> dict[str, dict[str, date]]:
    """By table of the pipeline the files among these whose name says their day, each with it."""
    tables, names = request.lake.tables, {c.name for c in request.pipeline.contracts}
    files = defaultdict[str, dict[str, date]](dict)
    for path in held:
        found = DAY_IN_NAME.search(path.as_posix())
        if found is None or not path.is_relative_to(tables):
            continue
        table, *parts = path.relative_to(tables).parts
        if table in names:
            files[table]["/".join(parts)] = date.fromisoformat(found[1])
    return files


def fingerprints_of_others(request: ForgetRequest) -> dict[str, dict[str, str]]:
    """Per table with the entity's columns, and day, the fingerprint of the newest rows of others,
    without the columns that depend on the bytes of files: their names and, where `select` gives no
    `seq`, the numbers of rows."""
    contracts = (c for c in request.pipeline.contracts if not c.external)
    found = ((c.name, _fingerprints_of_others(request, c)) for c in contracts)
    return {name: dict(sorted(days.items())) for name, days in found if days}


def _fingerprints_of_others(request: ForgetRequest, contract: Contract) -> dict[str, str]:
    """The fingerprints of one table by day; none of a table without the entity's columns, or that
    was never made."""
    lake, values = request.lake, request.trace.values
    has_entity = {*values} <= {*contract.column_names}
    if not has_entity or not lake.store.exists(contract.name):
        return {}
    hashed = row_hash(c for c in contract.columns if c.name not in (*LANDED, "seq"))
    day = quoted_name(contract.day_column)
    rows = rows_query(lake.store.data_files(contract), contract)
    is_of_others = f"({entity_condition(values)}) IS NOT TRUE"
    kept = f"SELECT {day}, {hashed} AS hashed FROM ({rows}) WHERE {is_of_others}"
    sums = ", ".join(f"sum({piece})" for piece in hash_pieces("hashed"))
    with duckdb_cursor(lake) as engine:
        sums_by_day = engine.execute(f"SELECT {day}, {sums} FROM ({kept}) GROUP BY 1").fetchall()
    return {
        str(of_day): fingerprint_text(list(map(int, totals))) for of_day, *totals in sums_by_day
    }


def entity_condition(values: Mapping[str, str]) -> str:
    """The condition that a row has these values, by column, as tables show them."""
    return " AND ".join(
        f"CAST({quoted_name(c)} AS VARCHAR) = {sql_literal(v)}" for c, v in values.items()
    )


def differing_days_of_others(
    before: dict[str, dict[str, str]], now: dict[str, dict[str, str]]
) -> dict[str, list[str]]:
    """Per table the days on which the rows of others are not what they were."""
    found = dict[str, list[str]]()
    for table, earlier in before.items():
        later = now.get(table, {})
        days = sorted({*earlier, *later})
        if changed := [day for day in days if earlier.get(day) != later.get(day)]:
            found[table] = changed
    return found


def erase_everywhere(
    request: ForgetRequest, erasure: Erasure, behind: Collection[str] = ()
) -> None:
    """Drop the snapshots and candidates that hold the entity, where that was asked for, and erase
    all else; also those that a killed or running command has not finished. Candidates that are
    `behind` may hold it without its name.

    Raises BackfillError while a write is staged, which may have read what was there before:
    `replace_days` refuses it; and while readers do not see the newest versions yet.
    """
    lake = request.lake
    _refuse_writing(lake)
    # readers leave the versions whose files go
    record_versions(lake, request.pipeline.contracts, "forget")
    _refuse_old_readers(lake)
    if behind and CANDIDATES not in request.drops:
        culprit = (
            f"candidate {', '.join(behind)} has days made from its rows, or from others that moved"
        )
        raise BackfillError(
            "the entity", culprit, LOGS_STAY, "Say --drop candidates to delete them whole"
        )
    for folder in DROPS:
        WholeFolders(lake.place, folder).sweep()  # also what a command makes now: it is refused
    found = request.look().held
    for folder in request.drops:
        names = {*_copies_with(request, folder, found)}
        if folder == CANDIDATES:
            names.update(behind)
        for name in names:
            _drop_copy(lake, folder, name)
            erasure.done["deleted"][f"{folder}/{name}"] = 1
    erase_files(request.search, erasure)


def _refuse_writing(lake: Lake) -> None:
    """Raise BackfillError while a write is staged in the lake or in one of its candidates."""
    candidates = [lake.place.at(f"{CANDIDATES}/{n}") for n in sorted(lake.place.names(CANDIDATES))]
    busy = list(tables_being_written(lake.place))
    for place in candidates:
        busy += [f"{table} of {place.name}" for table in tables_being_written(place)]
    if busy:
        culprit = f"another command writes {', '.join(busy)} and may have read its rows before"
        raise BackfillError("the entity", culprit, LOGS_STAY, WAIT)


def _refuse_old_readers(lake: Lake) -> None:
    """Raise BackfillError while readers see a table as it was before its newest commit."""
    seen = versions_seen(lake) or {}
    if waiting := [t for t, version in seen.items() if version < lake.store.head(t)]:
        culprit = f"readers see {', '.join(waiting)} as before it until another run ends"
        raise BackfillError("the entity", culprit, LOGS_STAY, WAIT)


def _drop_copy(lake: Lake, folder: str, name: str) -> None:
    """Delete a snapshot or a candidate by what a room offers for it. Raises BackfillError where no
    room does, as it came after the erasure began."""
    drop: Callable[[Lake, str], None] | None = offered_function(DROPS[folder])
    if drop is None:
        what = "nothing here can drop it"
        raise BackfillError(f"{folder}/{name}", what, LOGS_STAY, NO_CANDIDATES)
    drop(lake, name)


def old_logs(request: ForgetRequest, held: Collection[Path]) -> dict[str, int]:
    """The tables whose logs hold the entity, with the number of these files: in notes of people, or
    as least and greatest values that another program wrote."""
    tables = request.lake.tables
    inside = [p.relative_to(tables) for p in held if p.is_relative_to(tables)]
    return dict(sorted(Counter(p.parts[0] for p in inside if is_log_file(p)).items()))


def write_certificate(request: ForgetRequest, erasure: Erasure) -> FoundFiles:
    """Search all bytes once more, and write the certificate; it is finished where nothing holds the
    entity, and every file was searched."""
    found = request.look()
    left, mentions, unread = map(request.places, (found.held, found.mentions, found.unread))
    erasure.done.update({"left": left, "mentions": mentions, "not_searched": unread})
    erasure.keep()
    if not (left or unread):
        erasure.finish(request.lake)
    return found


def path_or_address(path: Path) -> str:
    """The path of a file of this machine, or the address of an object by its name below this
    machine's folder of its bucket."""
    if path.is_file():
        return str(path)
    return address_of(path)
