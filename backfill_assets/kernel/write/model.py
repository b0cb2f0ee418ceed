"""A pipeline as storage and loading see it: tables with a contract, a pure transform and settings;
digests of code.

Not here: any particular table (`pipeline`); a user's own pipeline is a `Pipeline` too.
"""

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.calendars import DAILY, Calendar
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind, keys_read
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.engines import DeclaredExpression
from backfill_assets.kernel.core.errors import (
    BackfillError,
    SettingsError,
    refuse_unknown_names,
)
from backfill_assets.kernel.core.rooms import PACKAGE, installed_rooms
from backfill_assets.kernel.core.states import Codes, States
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.code import SourceFile, first_package_version, refuse_moved_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Raised when another mapping, cast, parser or placing of landed files can give other rows of raw.
LOADER_VERSION = "raw 1"


@dataclass(frozen=True)
class Chunk:
    """The days that a transform computes, and the frontier (aware) of maturity. `wanted`: the days
    whose rows are used (None: all); a transform may leave out the others."""

    days: DayRange
    frontier: datetime | None
    wanted: frozenset[date] | None = None


Frames = Mapping[str, "DataFrame"]
Source = ModuleType | str | Path | SourceFile
Transform = Callable[[Frames, Chunk], "DataFrame"]
NO_DAYS = frozenset[Any]()
Facts = Callable[[str], str]
Revisions = Callable[[str, str], str]


@dataclass(frozen=True)
class Table:
    """A table of a pipeline.

    `facts`, `revisions`, `account`, `expressions` and `compiled` never change a row.
    """

    contract: Contract
    # pure: frames of its inputs by name, and a chunk, give the rows of exactly its days; None: raw,
    # loaded from files
    transform: Transform | None = None
    # The values that reach its content (JSON).
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Its code: modules, their names, or files (default: the transform's module).
    sources: tuple[Source, ...] = ()
    drops_incomplete: bool = False  # whether days with missing required inputs stay empty
    facts: Facts | None = None  # makes of a DuckDB query for rows one for days and numbers
    revisions: Revisions | None = None  # the same of queries for the rows before and after
    # The same of a query for deliveries of whole keys; see `has_account`.
    account: Facts | None = None
    # The SQL of declared columns, for people.
    compiled: Mapping[str, str] = field(default_factory=dict)
    # Further inputs of the code: a file beside the pipeline's (`"model.json"`), an environment
    # variable (`"env:FACTOR"`), an installed package by version or by sources
    # (`"package:helpers"`).
    code_inputs: tuple[str, ...] = ()
    code_version: str = ""  # stands for the sources inside this package
    # Versions whose days are as good: a rebuild gives the same rows.
    earlier_versions: tuple[str, ...] = ()
    # the values of `lake.toml` that `tables(settings)` read
    settings_read: Mapping[str, Any] = field(default_factory=dict)
    expressions: tuple[DeclaredExpression, ...] = ()
    # whether the lake's engine, too, gives the numbers of `facts` and `revisions` to the last bit
    # (`kernel.write.session`)
    counts_alike: bool = False

    @property
    def name(self) -> str:
        """The table's name, from its contract."""
        return self.contract.name

    @property
    def is_landed(self) -> bool:
        """Whether the table is loaded from landed files (raw)."""
        return self.contract.is_landed

    def refuse_given(self) -> None:
        """Raise BackfillError for a table whose rows this package does not compute: an asset of a
        project returns them, or others write them."""
        contract = self.contract
        if not contract.is_given:
            return
        others = f"others write it, in {contract.external}"
        asset = f"the asset {contract.made_by} of a project returns its rows"
        raise BackfillError(
            f"the table {self.name}",
            others if contract.external else asset,
            "Nothing was computed",
            "Leave it out" if contract.external else "Materialize days of the asset",
        )

    @property
    def has_account(self) -> bool:
        """Whether its rows can be held against the deliveries in raw: those of staging, unless the
        source is a table."""
        return self.account is not None

    @property
    def brings_code(self) -> bool:
        """Whether code outside this package computes it."""
        return not self.is_landed and not all(map(_is_own_source, _code_sources(self)))


@dataclass(frozen=True)
class Pipeline:
    """The tables of a lake, upstream first, with today's digests of their code and settings; of a
    candidate, also the contracts of the lake's tables that are made from its own (`followers`)."""

    tables: tuple[Table, ...]
    codes: Mapping[str, Codes]
    followers: tuple[Contract, ...] = ()

    @property
    def own(self) -> tuple[Table, ...]:
        """The tables that this package makes: all except tables whose rows assets of a project
        return, or others write."""
        return tuple(t for t in self.tables if not t.contract.is_given)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The contracts, upstream first."""
        return tuple(t.contract for t in self.tables)

    def table(self, name: str) -> Table:
        """The table of that name; raises KeyError."""
        return next(t for t in self.tables if t.name == name)

    def contract(self, name: str, consequence: str) -> Contract:
        """The contract of a table that a person named. Raises UnknownName with that
        `consequence`."""
        known = {c.name: c for c in self.contracts}
        refuse_unknown_names("table", [name], known, consequence)
        return known[name]

    def making(self, name: str, inputs: tuple[Input, ...], unpinned: tuple[str, ...]) -> "Pipeline":
        """The pipeline as a step makes days of a table from `inputs`, which have the keys that it
        loaded."""
        own = self.table(name)
        made = replace(own.contract, inputs=inputs, unpinned=unpinned, is_being_made=True)
        tables = (replace(own, contract=made) if table is own else table for table in self.tables)
        return replace(self, tables=tuple(tables))

    def states(self, view: LakeView) -> States:
        """The states of all days of a view."""
        return States(self.contracts, view, self.codes)


# Tables whose code counts, with the columns that are read of them.
Read = list[tuple[Table, Collection[str] | None]]


def make_pipeline(tables: Iterable[Table], confs: Mapping[str, str] | None = None) -> Pipeline:
    """Make a pipeline of these tables (upstream first), reading the source of their transforms
    once; `confs` of Spark SQL from `lake.toml` count as settings of every table."""
    first_package_version()
    ordered = _with_keys(tuple(map(_with_files, tables)))
    by_name, codes = {t.name: t for t in ordered}, {}
    for table in ordered:
        # The tables whose code decides its rows, each with the columns that are read of it.
        read = _tables_that_count(table, by_name)
        settings: list[object] = [dict(t.settings) for t, _ in read]
        further: dict[str, object] = {}
        for counted, _ in read:
            if counted.settings_read:
                further[f"read by {counted.name}"] = counted.settings_read
        if confs:
            further["confs"] = confs
        if further:
            settings.append(further)
        codes[table.name] = Codes(
            _code_digest(read),
            digest_of(json.loads(json.dumps(settings, default=_typed_text))),
            tuple(map(_code_digest, _earlier_reads(read))),
        )
    return Pipeline(ordered, codes)


def _tables_that_count(table: Table, by_name: Mapping[str, Table]) -> Read:
    """The tables whose code decides the rows of a table: its own, and of an input of rows known at
    a cut, which is judged by arrivals and not by rows, also that of the input."""
    read: Read = [(table, None)]
    for wanted in table.contract.inputs:
        if wanted.kind is InputKind.KNOWN_AT_CUT and wanted.table in by_name:
            read.append((by_name[wanted.table], wanted.columns))
    return read


def _code_digest(read: Read) -> str:
    return digest_of([_code_parts(t, columns) for t, columns in read])


def _earlier_reads(read: Read) -> Iterator[Read]:
    """Per earlier version of the code of any table: the tables as that version would read them."""
    for version in dict.fromkeys(v for t, _ in read for v in t.earlier_versions):
        before: Read = []
        for table, columns in read:
            is_of_version = version in table.earlier_versions
            then = replace(table, code_version=version) if is_of_version else table
            before.append((then, columns))
        yield before


def _typed_text(value: object) -> list[str]:
    """Encode a value that JSON lacks (a date), so that it differs from the text with the same
    characters."""
    return [type(value).__name__, str(value)]


def spark_sql_settings(lake: Lake) -> dict[str, str]:
    """The settings of Spark SQL in `lake.toml`, which count as settings of every table."""
    confs = lake.settings.spark.confs
    return {name: value for name, value in confs.items() if name.startswith("spark.sql.")}


def refuse_moved_code(table: Table) -> None:
    """Raise BackfillError if a file of the table's code, or this package's version, changed since
    it was loaded: the rows and the receipt might belong to different code. `table` is one of a
    `Pipeline`."""
    refuse_moved_files(table.name, (s for s in table.sources if isinstance(s, SourceFile)))


def source_files(table: Table) -> tuple[Path, ...]:
    """The files with the code of the table; of raw the loader."""
    modules = (*_loader_modules(), *table.sources) if table.is_landed else _code_sources(table)
    paths = [_source_path(source) for source in modules if not _is_named_input(source)]
    return tuple(path for path in paths if path.is_file())  # a session's own table has no file


def _is_named_input(source: Source) -> bool:
    """Whether the source is a further input of the code (`Table.code_inputs`)."""
    return isinstance(source, SourceFile) and bool(source.named_input)


def _loader_modules() -> tuple[str, ...]:
    """The modules that load tables of landed rows."""
    references = (reference for room in installed_rooms() for reference in room.loaders)
    return tuple(f"{PACKAGE}.{reference.partition(':')[0]}" for reference in references)


def _with_files(table: Table) -> Table:
    """The table with the content of all files of its code outside this package."""
    files = tuple(s if _is_own_source(s) else _as_file(s) for s in _code_sources(table))
    if files == table.sources or all(map(_is_own_source, files)):
        return table
    return replace(table, sources=files)


def _as_file(source: Source) -> SourceFile:
    """The file of a source with its content now, or as it was loaded."""
    return source if isinstance(source, SourceFile) else SourceFile.read(_source_path(source))


def _with_keys(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """The tables with the keys that others group or join them by, and inputs with the calendars of
    their tables. Raises SettingsError for a key of no column."""
    contracts, keyed = [t.contract for t in tables], list[Table]()
    calendars = {c.name: c.calendar for c in contracts if not c.calendar.is_daily}
    try:
        for table in tables:
            keys = keys_read(contracts, table.contract)
            contract = replace(table.contract, read_by=keys) if keys else table.contract
            if calendars:
                contract = replace(contract, inputs=_with_calendars(contract.inputs, calendars))
            keyed.append(replace(table, contract=contract))
    except ValueError as error:
        raise SettingsError(
            "the pipeline", str(error), "Nothing was done", "Correct `by` of that input"
        ) from None
    return tuple(keyed)


def _with_calendars(
    inputs: Iterable[Input], calendars: Mapping[str, Calendar]
) -> tuple[Input, ...]:
    """The inputs with the partitions of their tables; `calendars`: by the table, of all that have
    others than every day."""
    return tuple(replace(i, calendar=calendars.get(i.table, DAILY)) for i in inputs)


def _code_sources(table: Table) -> tuple[Source, ...]:
    """The declared sources of a table; without any the module of its transform."""
    if table.sources or table.transform is None:
        return table.sources
    module = inspect.getmodule(table.transform)
    return () if module is None else (module,)


def _is_own_source(source: Source) -> bool:
    name = source if isinstance(source, str) else getattr(source, "__name__", "")
    return str(name).split(".")[0] == PACKAGE


def _counted_files(table: Table) -> list[SourceFile]:
    """The files that count by content: all but this package's own, for which a version stands, if
    there is one."""
    has_version = bool(_code_version(table))
    return [_as_file(s) for s in _code_sources(table) if not (has_version and _is_own_source(s))]


def _code_version(table: Table) -> str:
    """The version that stands for the code of this package."""
    loader = LOADER_VERSION if table.is_landed else ""
    return table.code_version or loader


def _code_parts(table: Table, read: Collection[str] | None) -> list[object]:
    """The parts of the code digest of a table, or of the columns that are read of it."""
    inputs = [_input_parts(wanted) for wanted in table.contract.inputs]
    parts = sorted(s.digest for s in _counted_files(table))
    return [
        parts,
        _code_version(table),
        sorted(table.code_inputs),
        _contract_digest(table, read, inputs),
    ]


def _input_parts(wanted: Input) -> list[object]:
    """What of an input counts as code; the mapping only where there is one, as before mappings."""
    parts: list[object] = [wanted.table, wanted.before, wanted.after, wanted.kind.value]
    return [*parts, wanted.mapped] if wanted.mapped else parts


def _contract_digest(table: Table, read: Collection[str] | None, inputs: list[Any]) -> str:
    """The digest of what a contract says of the rows, of the columns that are read of it (None:
    all)."""
    columns = []
    for column in table.contract.columns:
        is_read = read is None or column.name in read
        if is_read and not column.is_later:
            columns.append([column.name, column.type, column.nullable])
    contract = table.contract
    parts: list[object] = [columns, contract.day_column, contract.key, inputs]
    # Days that are left out are no code: they decide which days there are, not their rows.
    calendar = replace(contract.calendar, left_out_weekdays=NO_DAYS, left_out_dates=NO_DAYS)
    return digest_of(parts if calendar.is_daily else [*parts, str(calendar)])


def _source_path(source: Source) -> Path:
    """The file of a source. A module given by name is not imported, because transforms import
    Spark."""
    if isinstance(source, SourceFile):
        return source.path
    if isinstance(source, ModuleType):
        return Path(str(source.__file__))
    if isinstance(source, Path):
        return source
    spec = find_spec(source)
    if spec is None or spec.origin is None:
        raise ValueError(f"no module is named {source}")
    return Path(spec.origin)
