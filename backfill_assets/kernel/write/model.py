"""A pipeline as storage and loading see it: tables with a contract, a pure transform and settings;
digests of code.

Not here: any particular table (`pipeline`); a user's own pipeline is a `Pipeline` too.
"""

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.contracts import Contract, Input, InputKind, keys_read
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.engines import DeclaredExpression
from backfill_assets.kernel.core.errors import SettingsError, refuse_unknown
from backfill_assets.kernel.core.rooms import PACKAGE, rooms
from backfill_assets.kernel.core.states import Codes, States
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.code import SourceFile, package_at_first, refuse_moved

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
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  # the values that reach its content (JSON)
    sources: tuple[
        Source, ...
    ] = ()  # its code: modules, their names, or files (default: the transform's module)
    drops_incomplete: bool = False  # whether days with missing required inputs stay empty
    facts: Facts | None = None  # makes of a DuckDB query for rows one for days and numbers
    revisions: Revisions | None = None  # the same of queries for the rows before and after
    account: Facts | None = None  # the same of a query for deliveries of whole keys
    compiled: Mapping[str, str] = field(
        default_factory=dict
    )  # the SQL of declared columns, for people
    # Further inputs of the code: a file beside the pipeline's (`"model.json"`), an environment
    # variable (`"env:FACTOR"`), an installed package by version or by sources
    # (`"package:helpers"`).
    code_inputs: tuple[str, ...] = ()
    code_version: str = ""  # stands for the sources inside this package
    earlier_versions: tuple[
        str, ...
    ] = ()  # versions whose days are as good: a rebuild gives the same rows
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

    @property
    def brings_code(self) -> bool:
        """Whether code outside this package computes it."""
        return not self.is_landed and not all(map(_is_own_source, _sources(self)))


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
        refuse_unknown("table", [name], known, consequence)
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


def make_pipeline(tables: Iterable[Table], confs: Mapping[str, str] | None = None) -> Pipeline:
    """Make a pipeline of these tables (upstream first), reading the source of their transforms
    once; `confs` of Spark SQL from `lake.toml` count as settings of every table."""
    package_at_first()
    ordered = _with_keys(tuple(map(_with_files, tables)))
    by_name = {t.name: t for t in ordered}
    codes = {}
    for table in ordered:
        # Rows known at a cut are judged by arrivals, not by rows: the code of that input counts as
        # part of this one.
        known = [
            i
            for i in table.contract.inputs
            if i.kind is InputKind.KNOWN_AT_CUT and i.table in by_name
        ]
        read: Read = [(table, None), *((by_name[i.table], i.columns) for i in known)]
        settings = [dict(t.settings) for t, _ in read]
        further = {f"read by {t.name}": t.settings_read for t, _ in read if t.settings_read} | (
            {"confs": confs} if confs else {}
        )
        codes[table.name] = Codes(
            _code_digest(read),
            digest_of(
                json.loads(json.dumps([*settings, *([further] if further else [])], default=_typed))
            ),
            tuple(map(_code_digest, _as_before(read))),
        )
    return Pipeline(ordered, codes)


Read = list[
    tuple[Table, Collection[str] | None]
]  # tables whose code counts, with the columns that are read of them


def _code_digest(read: Read) -> str:
    return digest_of([_code(t, columns) for t, columns in read])


def _as_before(read: Read) -> list[Read]:
    """Per earlier version of the code of any table: the tables as that version would read them."""
    versions = dict.fromkeys(v for t, _ in read for v in t.earlier_versions)
    return [
        [(replace(t, code_version=v) if v in t.earlier_versions else t, c) for t, c in read]
        for v in versions
    ]


def _typed(value: object) -> list[str]:
    """Encode a value that JSON lacks (a date), so that it differs from the text with the same
    characters."""
    return [type(value).__name__, str(value)]


def confs_of(lake: Lake) -> dict[str, str]:
    """The settings of Spark SQL in `lake.toml`, which count as settings of every table."""
    return {
        name: value
        for name, value in lake.settings.spark.confs.items()
        if name.startswith("spark.sql.")
    }


def pipeline_of(lake: Lake, tables: Iterable[Table]) -> Pipeline:
    """The pipeline of a lake. Raises SettingsError for a setting that names an unknown table."""
    pipeline, reads = make_pipeline(tables, confs_of(lake)), lake.settings.gates.reads
    pipeline = (
        replace(pipeline, tables=tuple(_with_reads(t, reads) for t in pipeline.tables))
        if reads
        else pipeline
    )
    gates = lake.settings.gates.tables
    _refuse_unknown(
        lake,
        "[gates.tables]",
        gates,
        [t.name for t in pipeline.tables],
        "the lake has no such table",
    )
    for name, bounds in gates.items():
        columns = pipeline.table(name).contract.column_names
        _refuse_unknown(
            lake,
            f"[gates.tables.{name}.columns]",
            bounds.columns,
            columns,
            "the table has no such column",
        )
        if bounds.max_key_share is not None:
            keyed = [t.name for t in pipeline.tables if t.contract.read_by]
            why = "no table groups or joins it by a key (`by` of an input)"
            _refuse_unknown(lake, "[gates.tables] max_key_share", [name], keyed, why)
    return pipeline if lake.shared is None else _without_followers(pipeline, lake.own)


def _without_followers(pipeline: Pipeline, own: frozenset[str]) -> Pipeline:
    """Pipeline of a candidate: without the lake's tables that read the candidate's own tables,
    `own`."""
    made_from_own = set(own)
    for contract in pipeline.contracts:
        if any(i.table in made_from_own for i in contract.inputs):
            made_from_own.add(contract.name)
    tables = tuple(t for t in pipeline.tables if t.name in own or t.name not in made_from_own)
    return replace(
        pipeline,
        tables=tables,
        followers=tuple(c for c in pipeline.contracts if c.name in made_from_own - own),
    )


def _refuse_unknown(
    lake: Lake, key: str, named: Iterable[str], known: Sequence[str], why: str
) -> None:
    if strangers := sorted(set(named) - set(known)):
        raise SettingsError(
            lake.place.uri(FILE_NAME),
            f"{key} names {', '.join(strangers)}, and {why}",
            "Nothing was done",
            f"Name one of {', '.join(known)}" if known else "Take it out",
        )


def refuse_moved_code(table: Table) -> None:
    """Raise BackfillError if a file of the table's code, or this package's version, changed since
    it was loaded: the rows and the receipt might belong to different code. `table` is one of a
    `Pipeline`."""
    refuse_moved(table.name, (s for s in table.sources if isinstance(s, SourceFile)))


def source_files(table: Table) -> tuple[Path, ...]:
    """The files with the code of the table; of raw the loader."""
    modules = (*_loaders(), *table.sources) if table.is_landed else _sources(table)
    read = (s for s in modules if not (isinstance(s, SourceFile) and s.named_input))
    return tuple(
        path for path in map(_path, read) if path.is_file()
    )  # a table defined in a session has no file


def _loaders() -> tuple[str, ...]:
    """The modules that load tables of landed rows."""
    references = (reference for room in rooms() for reference in room.loaders)
    return tuple(f"{PACKAGE}.{reference.partition(':')[0]}" for reference in references)


def _with_files(table: Table) -> Table:
    """The table with the content of all files of its code outside this package."""
    files = tuple(
        s if isinstance(s, SourceFile) or _is_own_source(s) else SourceFile.read(_path(s))
        for s in _sources(table)
    )
    return (
        table
        if files == table.sources or all(map(_is_own_source, files))
        else replace(table, sources=files)
    )


def _with_keys(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """The tables with the keys that others group or join them by. Raises SettingsError for a key of
    no column."""
    contracts = [t.contract for t in tables]
    try:
        keys = {c.name: keys_read(contracts, c) for c in contracts}
    except ValueError as error:
        raise SettingsError(
            "the pipeline", str(error), "Nothing was done", "Correct `by` of that input"
        ) from None
    return tuple(
        replace(t, contract=replace(t.contract, read_by=k)) if (k := keys[t.name]) else t
        for t in tables
    )


def _with_reads(table: Table, reads: Iterable[str]) -> Table:
    """The table with the SELECTs that name it. A name in a text or a comment only makes one more
    SELECT be tried."""
    named = tuple(q for q in reads if re.search(rf"\b{table.name}\b", q, re.IGNORECASE))
    return (
        replace(table, contract=replace(table.contract, consumer_queries=named)) if named else table
    )


def _sources(table: Table) -> tuple[Source, ...]:
    own = inspect.getmodule(table.transform) if table.transform else None
    return table.sources or ((own,) if own is not None else ())


def _is_own_source(source: Source) -> bool:
    name = source if isinstance(source, str) else getattr(source, "__name__", "")
    return str(name).split(".")[0] == PACKAGE


def _counted_files(table: Table) -> list[SourceFile]:
    """The files that count by content: all but this package's own, for which a version stands, if
    there is one."""
    counted = (s for s in _sources(table) if not (_version(table) and _is_own_source(s)))
    return [s if isinstance(s, SourceFile) else SourceFile.read(_path(s)) for s in counted]


def _version(table: Table) -> str:
    return table.code_version or (LOADER_VERSION if table.is_landed else "")


def _code(table: Table, read: Collection[str] | None) -> list[object]:
    """The parts of the code digest of a table, or of the columns that are read of it."""
    inputs = [
        [i.table, i.before, i.after, i.kind.value, *filter(None, [i.mapped])]
        for i in table.contract.inputs
    ]
    parts = sorted(s.digest for s in _counted_files(table))
    return [parts, _version(table), sorted(table.code_inputs), _contract(table, read, inputs)]


def _contract(table: Table, read: Collection[str] | None, inputs: list[Any]) -> str:
    counted = (c for c in table.contract.columns if not c.is_later)
    columns = [[c.name, c.type, c.nullable] for c in counted if read is None or c.name in read]
    return digest_of([columns, table.contract.day_column, table.contract.key, inputs])


def _path(source: Source) -> Path:
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
