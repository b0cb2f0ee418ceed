"""The tables of a lake, in order and checked: this product's, or what `[pipeline]` in its
`lake.toml` names.

Not here: this product's own tables (`daily`), loading files (`own_files`), and `Pipeline` itself
(`kernel.write.model`).
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from backfill_assets.assets.declared import DeclaredTable, declared
from backfill_assets.foreign.external import ExternalTable, contract_of
from backfill_assets.kernel.core import ledgers
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.contracts import InputKind, reads
from backfill_assets.kernel.core.errors import BackfillError, SettingsError, place_in, section_of
from backfill_assets.kernel.core.ledgers import FILES, LOAD_LEDGERS
from backfill_assets.kernel.core.ownership import refuse_foreign
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import TABLE_NAME
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.code import SourceFile, code_input
from backfill_assets.kernel.write.model import Pipeline, Source, Table, Transform, pipeline_of
from backfill_assets.kernel.write.rules import check_rules
from backfill_assets.pipeline.own_files import imported, loaded, reached, reached_by
from backfill_assets.pipeline.tables import recorded, tables

TablesOf = Callable[[LakeSettings], Sequence[Table]]
NOTHING = "Nothing was done"


def tables_at(root: Path) -> TablesOf:
    """Return the function that gives the tables of the lake at `root` for its settings, upstream
    first. It raises SettingsError, with file and line, for a user's file that fails and for tables
    that do not fit each other."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        """The tables, upstream first."""
        named, sql = settings.pipeline.tables, settings.pipeline.sql
        given = [_of_asset(d) for d in declared(root) if d.contract.made_by]
        externals = (
            (n, t)
            for n, t in settings.tables.items()
            if t.external or not (t.others_may_write or t.place)
        )
        of_others = (ExternalTable(n, t.external, t.day, t.description) for n, t in externals)
        given += [Table(contract_of(root, table)) for table in of_others]
        if not named and not sql:
            return (
                _in_order("of assets", [*_built_in(settings), *given], settings)
                if given
                else _built_in(settings)
            )
        queries = sorted(root.glob(sql)) if sql else []
        if files := [*_files_of(root, named), *queries]:
            refuse_foreign(root, files)
        python_tables = _own_tables(root, named, settings) if named else _built_in(settings)
        sql_tables = _of_queries(queries, settings) if queries else []
        if sql and not sql_tables:
            raise _refused(
                sql, f"no file in {root} is named so", "Write one, or correct [pipeline] sql"
            )
        return _in_order(named or sql or "", [*python_tables, *sql_tables, *given], settings)

    return tables_of


def _of_asset(table: DeclaredTable) -> Table:
    """The table of an asset; the config of its runs counts as a setting."""
    return Table(
        table.contract,
        settings={"config": table.config} if table.config else {},
        code_version=table.code,
    )


def _of_queries(files: Sequence[Path], settings: LakeSettings) -> list[Table]:
    from backfill_assets.pipeline.sql_tables import sql_table  # most lakes have none

    return [sql_table(path, settings) for path in files]


def _built_in(settings: LakeSettings) -> tuple[Table, ...]:
    """Asked for only where they are meant: they refuse a payload that they do not know."""
    return () if settings.assets_only else tables(settings)


def chosen_pipeline(lake: Lake) -> Pipeline:
    """The pipeline of a lake. Raises SettingsError as `tables_at` does, and for settings that name
    an unknown table."""
    return pipeline_of(lake, tables_at(lake.root)(lake.settings))


def _files_of(root: Path, named: str | None) -> Collection[Path]:
    """The files that a file of the lake's reaches; none of a module, which was installed or is on
    PYTHONPATH."""
    place = (named or "").rpartition(":")[0]
    return _own_files(root / place) if place.endswith(".py") else ()


def _own_tables(root: Path, named: str, settings: LakeSettings) -> list[Table]:
    place, _, name = named.rpartition(":")
    with _errors_with_line(root / place if place.endswith(".py") else place):
        module = _module_of(root, place)
        defined = getattr(module, name, None)
        if defined is None:
            raise _refused(
                named, f"it defines no {name}", f"Define {name}, or name what it defines"
            )
        given, settings_read = recorded(defined, settings) if callable(defined) else (defined, {})
        given = [Table(contract_of(root, t)) if isinstance(t, ExternalTable) else t for t in given]
        return [_with_source(named, table, module, settings_read) for table in given]


def _with_source(named: str, table: object, module: ModuleType, read: Mapping[str, Any]) -> Table:
    """Add the code to a table: the files that its transform reaches, and the settings it has
    `read`. A transform without a module counts as code of `module`. Raises SettingsError for a rule
    that cannot be checked."""
    if not isinstance(table, Table):
        kind = type(table).__name__
        raise _refused(
            named, f"it gives a {kind} where a Table is meant", "Give Tables, upstream first"
        )
    try:
        check_rules(table.contract)
    except BackfillError as error:
        raise _refused(named, f"{error.object}: {error.culprit}", error.fix) from None
    if table.transform is None:
        return table
    code = table.sources or _homes(table.transform, module)
    sources = dict.fromkeys(file for source in code for file in _files(source))
    inputs = [
        i
        for name in table.code_inputs
        for i in code_input(name, Path(module.__file__ or "").parent)
    ]
    files = [i for i in inputs if isinstance(i, SourceFile)]
    lines = tuple(i for i in inputs if isinstance(i, str))
    with_code = replace(table, sources=(*sources, *files), code_inputs=lines)
    return replace(with_code, settings_read=read) if with_code.brings_code else with_code


def _files(source: Source) -> tuple[Source, ...]:
    """The files that a source reaches, as they were loaded; of the name of a module only its own
    file."""
    if isinstance(source, ModuleType):
        return reached_by(source) or (source,)
    found = (
        reached_by(sys.modules[source])
        if isinstance(source, str) and source in sys.modules
        else None
    )
    return (found[0],) if found else (source,)


def _homes(transform: Transform, module: ModuleType) -> tuple[ModuleType, ...]:
    """Modules hashed into a transform's code digest: its own, and for partials and closures
    `module` as well."""
    function = transform.func if isinstance(transform, partial) else transform
    home = inspect.getmodule(function)
    has_outer_values = (
        function is not transform or getattr(transform, "__closure__", None) is not None
    )
    return tuple(
        m for m in (home, module if has_outer_values or home is None else None) if m is not None
    )


def _module_of(root: Path, place: str) -> ModuleType:
    if not place.endswith(".py"):
        return imported(place)
    path = root / place
    try:
        return loaded(path)
    except OSError as error:
        file = address_of(path)
        reason = (
            f"there is no file {file}"
            if isinstance(error, FileNotFoundError)
            else f"{file}: {error.strerror}"
        )
        raise _refused(
            place, reason, "Write the file beside lake.toml, or correct [pipeline] tables"
        ) from None


@contextmanager
def _errors_with_line(place: Path | str) -> Iterator[None]:
    """Turn any error of a user's file into a SettingsError with the file's name and line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        line_of_file = place_in(error, _own_files(place))
        where = (
            f"{address_of(line_of_file[0])}, line {line_of_file[1]}" if line_of_file else str(place)
        )
        reason = " ".join(str(error).split()) or "no more is said"
        raise SettingsError(
            where,
            f"{type(error).__name__}: {reason}",
            NOTHING,
            "Correct the file, or [pipeline] tables in lake.toml",
        ) from error


def _own_files(place: Path | str) -> Collection[Path]:
    """The files that a user's file reaches, or the file of a module that is not imported yet."""
    with suppress(ImportError, ValueError, OSError, SyntaxError):
        if isinstance(place, Path):
            return reached(place)
        spec = find_spec(place)
        return [Path(spec.origin)] if spec is not None and spec.origin else []
    return []


def _in_order(named: str, given: Sequence[Table], settings: LakeSettings) -> tuple[Table, ...]:
    """Sort the tables so that each follows its inputs. Raises SettingsError for faults, missing
    inputs and cycles."""
    for culprit, fix in _faults(given, settings):
        raise _refused(named, culprit, fix)
    remaining, done = list(given), dict[str, Table]()
    while remaining:
        ready = next((t for t in remaining if _inputs(t) <= set(done)), None)
        if ready is None:
            absent = sorted(_inputs(remaining[0]) - set(done))
            unknown = [w for w in absent if w not in {t.name for t in given}]
            reason = (
                f"no such table is given: {', '.join(unknown)}"
                if unknown
                else "these are made from it, too"
            )
            raise _refused(
                named,
                f"the table {remaining[0].name} is made from {', '.join(absent)}, and {reason}",
                "Give every input as a table, and no table its own consequences",
            )
        remaining.remove(ready)
        done[ready.name] = ready
    return tuple(done.values())


def _faults(given: Sequence[Table], settings: LakeSettings) -> Iterator[tuple[str, str]]:
    """Yield each fault of the tables, with what to do about it."""
    names, sources = [t.name for t in given], [t.contract.source for t in given if t.is_landed]
    taken = {
        ledgers.named(ledger, source)
        for ledger in (*LOAD_LEDGERS, FILES)
        for source in {*sources, ""}
    }
    bad = [n for n in names if not TABLE_NAME.fullmatch(n) or n in taken]
    if bad:
        yield (
            f"{', '.join(map(repr, bad))} cannot name a table of a pipeline",
            f"Use small letters, digits and _, and none of {', '.join(sorted(taken))}",
        )
    if repeated := sorted({n for n in names if names.count(n) > 1}):
        yield f"it gives {', '.join(repeated)} more than once", "Give every table another name"
    known = {t.name: t.contract for t in given}
    for table, wanted in ((t, i) for t in given for i in t.contract.inputs if i.table in known):
        columns = known[wanted.table].column_names
        if unknown := sorted(set(wanted.columns or ()) - set(columns)):
            culprit = (
                f"{table.name} reads {', '.join(unknown)} of {wanted.table}, which has no such "
                "column"
            )
            or_see = "; `backfill-assets scan` says if others' log of it cannot be read"
            yield (
                culprit,
                "Read columns of "
                f"{', '.join(columns)}{or_see if known[wanted.table].external else ''}",
            )
        if wanted.kind is InputKind.KNOWN_AT_CUT and not reads(
            known[wanted.table].inputs, InputKind.ARRIVALS
        ):
            culprit = f"{table.name} reads {wanted.table} as known at a cut, which has no versions"
            yield culprit, "Read so only a table made from arrivals, such as staging"
    take = "Take raw and staging from `backfill_assets.tables(settings)`"
    if not sources and not settings.assets_only:
        yield "it gives no table that is loaded from landed files", take
    for table in (t for t in given if t.is_landed and t.contract.source not in settings.delivered):
        described = (
            f"the source {table.contract.source}"
            if table.contract.source
            else "a source without a name"
        )
        sections = " and ".join(section_of(name) for name in settings.delivered)
        yield f"{table.name} is loaded from {described}, and lake.toml has {sections}", take


def _inputs(table: Table) -> set[str]:
    return {i.table for i in table.contract.inputs if i.kind is not InputKind.FILES} - {table.name}


def _refused(named: str, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"the pipeline {named}", culprit, NOTHING, fix)
