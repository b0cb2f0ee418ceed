"""The tables of a lake, in order and checked: this product's, or what `[pipeline]` in its
`lake.toml` names.

Not here: this product's own tables (`daily`), loading files (`own_files`), and `Pipeline` itself
(`kernel.write.model`).
"""

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from backfill_assets.kernel.core import ledgers
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind, has_input_kind
from backfill_assets.kernel.core.errors import (
    BackfillError,
    SettingsError,
    place_of_error,
    source_section,
)
from backfill_assets.kernel.core.ledgers import FILES, LOAD_LEDGERS
from backfill_assets.kernel.core.ownership import refuse_foreign_lake
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import TABLE_NAME
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.code import SourceFile
from backfill_assets.kernel.write.model import Pipeline, Source, Table, Transform
from backfill_assets.kernel.write.rules import check_rules
from backfill_assets.pipeline.calendars import with_calendars
from backfill_assets.pipeline.lake_pipeline import pipeline_of
from backfill_assets.pipeline.own_files import (
    imported_module,
    loaded_module,
    reached_files,
    reached_paths,
)
from backfill_assets.pipeline.tables import recorded_tables, tables

TablesOf = Callable[[LakeSettings], Sequence[Table]]
TablesGiven = Callable[[Path, LakeSettings], Sequence[Table]]
NOTHING_DONE = "Nothing was done"


@runtime_checkable
class TableDeclaration(Protocol):
    """What a pipeline may give in place of a Table, such as `external_table(…)`."""

    def table_at(self, root: Path) -> Table:
        """The table of the lake at `root`. Raises SettingsError where there is none."""


def tables_at(root: Path) -> TablesOf:
    """Return the function that gives the tables of the lake at `root` for its settings, upstream
    first. It raises SettingsError, with file and line, for a user's file that fails and for tables
    that do not fit each other."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        """The tables, upstream first."""
        named, sql = settings.pipeline.tables, settings.pipeline.sql
        given = _given_tables(root, settings)
        if not named and not sql:
            built_in = _built_in_tables(settings)
            if not given:
                return tuple(with_calendars(built_in, settings))
            return _ordered_tables("of assets", [*built_in, *given], settings)
        queries = sorted(root.glob(sql)) if sql else []
        files = [*_reached_files(root, named), *queries]
        if files:
            refuse_foreign_lake(root, files)
        python_tables = _own_tables(root, named, settings) if named else _built_in_tables(settings)
        sql_tables = _query_tables(queries, settings) if queries else []
        if sql and not sql_tables:
            raise _pipeline_error(
                sql, f"no file in {root} is named so", "Write one, or correct [pipeline] sql"
            )
        return _ordered_tables(named or sql or "", [*python_tables, *sql_tables, *given], settings)

    return tables_of


def _given_tables(root: Path, settings: LakeSettings) -> list[Table]:
    """The tables that assets of a project return, then those that others write."""
    found = list[Table]()
    for offer in ("tables_of_assets", "tables_of_others"):
        tables_given: TablesGiven | None = offered_function(offer)
        if tables_given is not None:
            found += tables_given(root, settings)
    return found


def _query_tables(files: Sequence[Path], settings: LakeSettings) -> list[Table]:
    """The tables of SQL files."""
    from backfill_assets.pipeline.sql_tables import sql_table  # most lakes have none

    return [sql_table(path, settings) for path in files]


def _built_in_tables(settings: LakeSettings) -> tuple[Table, ...]:
    """This product's tables; none of a lake of assets alone. To be asked for only where they are
    meant: they refuse a payload that they do not know."""
    return () if settings.assets_only else tables(settings)


def chosen_pipeline(lake: Lake) -> Pipeline:
    """The pipeline of a lake. Raises SettingsError as `tables_at` does, and for settings that name
    an unknown table."""
    return pipeline_of(lake, tables_at(lake.root)(lake.settings))


def _reached_files(root: Path, named: str | None) -> Collection[Path]:
    """The files that a file of the lake's reaches; none of a module, which was installed or is on
    PYTHONPATH."""
    place = (named or "").rpartition(":")[0]
    return _own_files(root / place) if place.endswith(".py") else ()


def _own_tables(root: Path, named: str, settings: LakeSettings) -> list[Table]:
    """The tables that a user's file or module gives: `named` is PLACE:NAME, of tables or of a
    function of the settings. Raises SettingsError with file and line."""
    place, _, name = named.rpartition(":")
    with _errors_with_line(root / place if place.endswith(".py") else place):
        module = _user_module(root, place)
        defined = getattr(module, name, None)
        if defined is None:
            raise _pipeline_error(
                named, f"it defines no {name}", f"Define {name}, or name what it defines"
            )
        given, settings_read = defined, dict[str, Any]()
        if callable(defined):
            given, settings_read = recorded_tables(defined, settings)
        tables_given = list[object]()
        for table in given:
            is_declared = isinstance(table, TableDeclaration)
            tables_given.append(table.table_at(root) if is_declared else table)
        return [_with_source(named, table, module, settings_read) for table in tables_given]


def _with_source(named: str, table: object, module: ModuleType, read: Mapping[str, Any]) -> Table:
    """Add the code to a table: the files that its transform reaches, and the settings it has
    `read`. A transform without a module counts as code of `module`. Raises SettingsError for a rule
    that cannot be checked."""
    if not isinstance(table, Table):
        kind = type(table).__name__
        raise _pipeline_error(
            named, f"it gives a {kind} where a Table is meant", "Give Tables, upstream first"
        )
    try:
        check_rules(table.contract)
    except BackfillError as error:
        raise _pipeline_error(named, f"{error.object}: {error.culprit}", error.fix) from None
    if table.transform is None:
        return table
    code = table.sources or _home_modules(table.transform, module)
    sources = dict.fromkeys(file for source in code for file in _source_files(source))
    folder, files, lines = Path(module.__file__ or "").parent, list[SourceFile](), list[str]()
    for name in table.code_inputs:
        for found in code_input(name, folder):
            if isinstance(found, SourceFile):
                files.append(found)
            else:
                lines.append(found)
    with_code = replace(table, sources=(*sources, *files), code_inputs=tuple(lines))
    return replace(with_code, settings_read=read) if with_code.brings_code else with_code


def _source_files(source: Source) -> tuple[Source, ...]:
    """The files that a source reaches, as they were loaded; of the name of a module only its own
    file."""
    if isinstance(source, ModuleType):
        return reached_files(source) or (source,)
    module = sys.modules.get(source) if isinstance(source, str) else None
    found = reached_files(module) if module is not None else None
    return (found[0],) if found else (source,)


def _home_modules(transform: Transform, module: ModuleType) -> tuple[ModuleType, ...]:
    """Modules hashed into a transform's code digest: its own, and for partials and closures
    `module` as well."""
    function = transform.func if isinstance(transform, partial) else transform
    home = inspect.getmodule(function)
    if home is None:
        return (module,)
    is_closure = getattr(transform, "__closure__", None) is not None
    has_outer_values = function is not transform or is_closure
    return (home, module) if has_outer_values else (home,)


def _user_module(root: Path, place: str) -> ModuleType:
    """Load what `[pipeline] tables` names: a file below the lake's folder, or an installed module.
    Raises SettingsError for a file that is absent or cannot be read."""
    if not place.endswith(".py"):
        return imported_module(place)
    path = root / place
    try:
        return loaded_module(path)
    except OSError as error:
        file = address_of(path)
        fix = "Write the file beside lake.toml, or correct [pipeline] tables"
        if isinstance(error, FileNotFoundError):
            raise _pipeline_error(place, f"there is no file {file}", fix) from None
        raise _pipeline_error(place, f"{file}: {error.strerror}", fix) from None


@contextmanager
def _errors_with_line(place: Path | str) -> Iterator[None]:
    """Turn any error of a user's file into a SettingsError with the file's name and line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        where, line_of_file = str(place), place_of_error(error, _own_files(place))
        if line_of_file:
            file, line = line_of_file
            where = f"{address_of(file)}, line {line}"
        reason = " ".join(str(error).split()) or "no more is said"
        raise SettingsError(
            where,
            f"{type(error).__name__}: {reason}",
            NOTHING_DONE,
            "Correct the file, or [pipeline] tables in lake.toml",
        ) from error


def _own_files(place: Path | str) -> Collection[Path]:
    """The files that a user's file reaches, or the file of a module that is not imported yet."""
    with suppress(ImportError, ValueError, OSError, SyntaxError):
        if isinstance(place, Path):
            return reached_paths(place)
        spec = find_spec(place)
        return [Path(spec.origin)] if spec is not None and spec.origin else []
    return []


def _ordered_tables(
    named: str, given: Sequence[Table], settings: LakeSettings
) -> tuple[Table, ...]:
    """Sort the tables so that each follows its inputs. Raises SettingsError for faults, missing
    inputs and cycles."""
    for culprit, fix in _table_faults(given, settings):
        raise _pipeline_error(named, culprit, fix)
    given = with_calendars(given, settings)
    remaining, done = list(given), dict[str, Table]()
    while remaining:
        ready = next((t for t in remaining if _input_names(t) <= done.keys()), None)
        if ready is None:
            raise _missing_inputs_error(named, remaining[0], given, done)
        remaining.remove(ready)
        done[ready.name] = ready
    return tuple(done.values())


def _missing_inputs_error(
    named: str, table: Table, given: Sequence[Table], done: Collection[str]
) -> SettingsError:
    """The error for a table whose inputs are not given, or are made from it. `done`: the names of
    tables that can be made."""
    absent = sorted(_input_names(table) - set(done))
    unknown = sorted({*absent} - {t.name for t in given})
    reason = "these are made from it, too"
    if unknown:
        reason = f"no such table is given: {', '.join(unknown)}"
    return _pipeline_error(
        named,
        f"the table {table.name} is made from {', '.join(absent)}, and {reason}",
        "Give every input as a table, and no table its own consequences",
    )


def _table_faults(given: Sequence[Table], settings: LakeSettings) -> Iterator[tuple[str, str]]:
    """Yield each fault of the tables, with what to do about it."""
    yield from _name_faults(given)
    known = {t.name: t.contract for t in given}
    for table in given:
        for wanted in table.contract.inputs:
            # One that is not given is refused where tables are put in order.
            if wanted.table in known:
                yield from _input_faults(table.name, wanted, known[wanted.table])
    yield from _source_faults(given, settings)


def _name_faults(given: Sequence[Table]) -> Iterator[tuple[str, str]]:
    """Names that no table can have: of another form, of a ledger, or given twice."""
    names = [t.name for t in given]
    sources = {t.contract.source for t in given if t.is_landed}
    taken = {
        ledgers.source_table_name(ledger, source)
        for ledger in (*LOAD_LEDGERS, FILES)
        for source in {*sources, ""}
    }
    bad = [name for name in names if name in taken or not TABLE_NAME.fullmatch(name)]
    if bad:
        yield (
            f"{', '.join(map(repr, bad))} cannot name a table of a pipeline",
            f"Use small letters, digits and _, and none of {', '.join(sorted(taken))}",
        )
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        yield f"it gives {', '.join(repeated)} more than once", "Give every table another name"


def _input_faults(table: str, wanted: Input, read: Contract) -> Iterator[tuple[str, str]]:
    """Columns that the table `read` lacks, and versions of events that it has not."""
    unknown = sorted(set(wanted.columns or ()) - set(read.column_names))
    if unknown:
        culprit = f"{table} reads {', '.join(unknown)} of {read.name}, which has no such column"
        or_see = "; `backfill-assets scan` says if others' log of it cannot be read"
        advice = f"Read columns of {', '.join(read.column_names)}"
        yield culprit, advice + or_see if read.external else advice
    has_versions = has_input_kind(read.inputs, InputKind.ARRIVALS)
    if wanted.kind is InputKind.KNOWN_AT_CUT and not has_versions:
        culprit = f"{table} reads {read.name} as known at a cut, which has no versions"
        yield culprit, "Read so only a table made from arrivals, such as staging"


def _source_faults(given: Sequence[Table], settings: LakeSettings) -> Iterator[tuple[str, str]]:
    """Landed tables of sources that `lake.toml` lacks, or no landed table at all."""
    take = "Take raw and staging from `backfill_assets.tables(settings)`"
    landed = [t for t in given if t.is_landed]
    if not landed and not settings.assets_only:
        yield "it gives no table that is loaded from landed files", take
    for table in landed:
        source = table.contract.source
        if source not in settings.delivered:
            described = f"the source {source}" if source else "a source without a name"
            sections = " and ".join(source_section(name) for name in settings.delivered)
            yield f"{table.name} is loaded from {described}, and lake.toml has {sections}", take


def _input_names(table: Table) -> set[str]:
    """The tables that have to come before a table: its inputs without itself and landed files."""
    inputs = table.contract.inputs
    return {i.table for i in inputs if i.kind is not InputKind.FILES} - {table.name}


def _pipeline_error(named: str, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"the pipeline {named}", culprit, NOTHING_DONE, fix)


# Of a module: its package's files with the bytes at the first look.
FILES_OF_PACKAGE = "__loaded_package_files__"


def code_input(name: str, folder: Path) -> tuple[SourceFile | str, ...]:
    """Resolve a name of `Table.code_inputs` to files (below `folder`, or a package's sources) or a
    line with a digest. Raises SettingsError for what does not exist."""
    kind, _, rest = name.partition(":")
    if kind == "env":
        if rest not in os.environ:
            raise _missing_input_error(name, f"the environment has no variable {rest}", "Set it")
        return (f"{name} {sha256(os.environ[rest].encode()).hexdigest()}",)
    if kind == "package":
        try:
            return (f"{name} {version(rest)}",)
        except PackageNotFoundError:
            return _package_sources(name, rest)
    try:
        return (replace(SourceFile.read(folder / name), named_input=name),)
    except OSError as error:
        raise _missing_input_error(
            name, f"{folder / name}: {error.strerror}", "Put the file there"
        ) from None


def _package_sources(name: str, package: str) -> tuple[SourceFile, ...]:
    """The Python files of a package without a version, with their content at the first call."""
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise _missing_input_error(name, f"no package {package} is installed", "Install it")
    module_globals = vars(sys.modules[package]) if package in sys.modules else {}
    if FILES_OF_PACKAGE not in module_globals:
        folder = Path(spec.origin).parent
        paths = (
            sorted(folder.rglob("*.py")) if spec.submodule_search_locations else [Path(spec.origin)]
        )
        module_globals[FILES_OF_PACKAGE] = tuple(
            replace(SourceFile.read(p), named_input=f"{name} {p.relative_to(folder).as_posix()}")
            for p in paths
        )
    sources: tuple[SourceFile, ...] = module_globals[FILES_OF_PACKAGE]
    return sources


def _missing_input_error(name: str, culprit: str, fix: str) -> SettingsError:
    return SettingsError(
        f"the code input {name!r}",
        culprit,
        "Nothing was done",
        f"{fix}, or correct `code_inputs` of the table",
    )
