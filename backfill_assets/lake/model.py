"""A pipeline as the rooms below see it: tables with a contract, a pure transform, and the settings that reach them.

Lives here: `Table`, `Chunk`, `Pipeline`, and the digests of code and settings. Does not live here: any particular
table (`pipeline`); a user's own pipeline is a `Pipeline` too.
"""

import ast
import inspect
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import DayRange
from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.core.states import Codes, States
from backfill_assets.core.view import LakeView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.settings import FILE_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENGINE_PACKAGES = ("pyspark", "delta-spark")
PACKAGE = "backfill_assets"
LANDING, LOAD = "backfill_assets.landing", "backfill_assets.load"
LOADER = f"{LOAD}.raw"
# What else decides the rows of raw: mapping, casts, reasons, what is kept of a file, what is too late; and `intake*`.
LOADERS = (
    LOADER,
    *(f"{LOAD}.{name}" for name in ("counting", "deliveries", "numbered", "placing", "row_text")),
    *(f"{LANDING}.{name}" for name in ("casting", "mapping", "nanoseconds", "place", "select", "stock")),
    *(f"{LANDING}.{name}" for name in ("engine_errors", "sail_casts")),
    "backfill_assets.lake.links",
    "backfill_assets.lake.too_late",
)


@dataclass(frozen=True)
class Chunk:
    """What a transform may know besides its input frames: the days to make, and the frontier (aware) of maturity.

    `wanted`: of these days the ones whose rows are taken (None: all); a transform may leave out the others.
    """

    days: DayRange
    frontier: datetime | None
    wanted: frozenset[date] | None = None


Frames = Mapping[str, "DataFrame"]
Source = ModuleType | str | Path
Transform = Callable[[Frames, Chunk], "DataFrame"]
Facts = Callable[[str], str]
Revisions = Callable[[str, str], str]


@dataclass(frozen=True)
class Table:
    """A table of a pipeline. `transform` is pure: input frames (by table name) and chunk -> rows of exactly its days.

    `transform` is None for raw, which is loaded from landed files. `settings` are the values that reach its content
    (JSON); `sources` the modules whose code does, their names, or files of SQL or Python (default: the module of the
    transform; of raw always the modules that load it, too).
    `drops_incomplete`: days with missing required inputs stay empty. `facts` (a query of the embedded engine
    for rows -> one for a day and numbers) and `revisions` (queries for the rows before and after -> such a one) are
    shown to people and reach no content. `account` (a query of that engine for deliveries of whole keys -> one for a
    day, the deliveries for it, those superseded) is what a plan's gate holds against the rows of a table of versions.
    `compiled`: the SQL that declared columns were compiled to, by column, for people.
    """

    contract: Contract
    transform: Transform | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    drops_incomplete: bool = False
    facts: Facts | None = None
    revisions: Revisions | None = None
    account: Facts | None = None
    compiled: Mapping[str, str] = field(default_factory=dict)

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
        """Whether code from outside this package makes it; what this package brings, its tests hold."""
        modules = [m if isinstance(m, str) else getattr(m, "__name__", "") for m in _modules(self)]
        return not self.is_landed and not all(m.split(".")[0] == PACKAGE for m in modules)


@dataclass(frozen=True)
class Pipeline:
    """The tables of a lake, upstream first, with today's digests of their code and settings."""

    tables: tuple[Table, ...]
    codes: Mapping[str, Codes]

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The contracts, upstream first."""
        return tuple(t.contract for t in self.tables)

    def table(self, name: str) -> Table:
        """The table of that name; raises KeyError."""
        return next(t for t in self.tables if t.name == name)

    def contract(self, name: str, consequence: str) -> Contract:
        """The contract of a table that a person named; raises BackfillError with that `consequence`."""
        known = {c.name: c for c in self.contracts}
        if name not in known:
            raise BackfillError(
                f"the table {name!r}", "this lake has no such table", consequence, f"Choose one of {', '.join(known)}"
            )
        return known[name]

    def states(self, view: LakeView, before: States | None = None) -> States:
        """The states of all days of a view; `before`: those of an earlier one, which need no second look where nothing
        moved."""
        return States(self.contracts, view, self.codes, before)


def make_pipeline(tables: Iterable[Table]) -> Pipeline:
    """A pipeline of these tables (upstream first). Reads the source of their transforms, once."""
    ordered = tuple(tables)
    by_name, codes = {t.name: t for t in ordered}, {}
    for table in ordered:
        # What was known at a cut is judged by arrivals, not by rows: the code that made those rows is part of ours.
        above = [i for i in table.contract.inputs if i.basis is Basis.KNOWN_AT_CUT and i.table in by_name]
        code = [_code(table), *(_code(by_name[i.table], i.columns) for i in above)]
        settings = [dict(by_name[name].settings) for name in (table.name, *(i.table for i in above))]
        codes[table.name] = Codes(digest_of(code), digest_of(settings))
    return Pipeline(ordered, codes)


def pipeline_of(lake: Lake, tables: Iterable[Table]) -> Pipeline:
    """The pipeline of a lake; raises SettingsError where a setting names a table that it has not."""
    made = make_pipeline(tables)
    known = [t.name for t in made.tables]
    unknown = sorted(set(lake.settings.gates.tables) - set(known))
    if unknown:
        raise SettingsError(
            str(lake.root / FILE_NAME),
            f"[gates.tables] names {', '.join(unknown)}, and the lake has no such table",
            "Nothing was done",
            f"Name one of {', '.join(known)}",
        )
    for name, bounds in lake.settings.gates.tables.items():
        columns = made.table(name).contract.column_names
        strangers = sorted(set(bounds.columns) - set(columns))
        if strangers:
            raise SettingsError(
                str(lake.root / FILE_NAME),
                f"[gates.tables.{name}.columns] names {', '.join(strangers)}, and the table has no such column",
                "Nothing was done",
                f"Name one of {', '.join(columns)}",
            )
    return made


def _code(table: Table, read: Collection[str] | None = None) -> list[str]:
    """What makes a table, or of it just the columns that are read."""
    parts = sorted(_said(m) for m in _modules(table))
    columns = [[c.name, c.type, c.nullable] for c in table.contract.columns if read is None or c.name in read]
    contract = digest_of(
        [columns, table.contract.day_column, table.contract.key, list(map(str, table.contract.inputs))]
    )
    return [*parts, contract, *_engines()]


@cache
def _engines() -> tuple[str, ...]:
    """The packages that compute, with their versions, which do not change while a process runs."""
    return tuple(f"{p} {version(p)}" for p in ENGINE_PACKAGES)


def source_files(table: Table) -> tuple[Path, ...]:
    """The files whose code makes the table; of raw the one that loads it."""
    modules = (LOADER, *table.sources) if table.is_landed else _modules(table)
    found = (m if isinstance(m, Path) else _file(m) if isinstance(m, str) else Path(str(m.__file__)) for m in modules)
    return tuple(path for path in found if path.is_file())  # a table defined in a session has no file


def _modules(table: Table) -> tuple[Source, ...]:
    if table.is_landed:
        return (*LOADERS, *_intakes(), *table.sources)
    own = inspect.getmodule(table.transform) if table.transform else None
    return table.sources or ((own,) if own is not None else ())


@cache
def _intakes() -> tuple[str, ...]:
    """The modules that parse landed files, by name, so that a new format is never forgotten."""
    found = find_spec(LANDING)
    folders = [Path(f) for f in (found.submodule_search_locations or ())] if found is not None else []
    return tuple(sorted(f"{LANDING}.{p.stem}" for folder in folders for p in folder.glob("intake*.py")))


def _said(source: Source) -> str:
    if isinstance(source, Path) and source.suffix != ".py":
        return _sql(source)
    return _without_prose(_source(source))


def _source(module: Source) -> str:
    """A module's source; one that is named is not imported, because transforms import Spark and `status` needs none."""
    if isinstance(module, ModuleType):
        return inspect.getsource(module)
    if isinstance(module, str) and module.split(".")[0] == PACKAGE:
        return _packaged(module)
    return _read(module if isinstance(module, Path) else _file(module))


@cache
def _packaged(module: str) -> str:
    """A module of this package, which stays as it was while a process runs: each pipeline made asks for twenty."""
    return _read(_file(module))


def _read(path: Path) -> str:
    with tokenize.open(path) as source:
        return source.read()


def _sql(path: Path) -> str:
    """The digest of a file of SQL without comments and layout."""
    import sqlglot

    tokens = sqlglot.tokenize(path.read_text(encoding="utf-8"), read="spark")
    return digest_of([[token.token_type.name, token.text] for token in tokens])


def _file(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"no module is named {module}")
    return Path(spec.origin)


@lru_cache(maxsize=256)
def _without_prose(source: str) -> str:
    """The digest of code without comments, docstrings and layout: rewording does not make a table outdated."""
    tree = ast.parse(source)
    for node in _with_statements(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            del body[0]
            if not body:
                body.append(ast.Pass())
    return digest_of(ast.dump(tree))


def _with_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that has statements, and few others: three quarters of all nodes are parts of expressions."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, name, None)
            pending += found if isinstance(found, list) else ()
