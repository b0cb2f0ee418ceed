"""The tables of a lake: this product's, or the ones that `[pipeline]` in its `lake.toml` names, in order and checked.

Not here: this product's own tables (`tables`), loading files (`own_files`), and `Pipeline` itself (`lake.model`).
"""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from backfill_assets.core import ledgers
from backfill_assets.core.contracts import Basis, reads
from backfill_assets.core.errors import BackfillError, SettingsError, place_in, section_of
from backfill_assets.core.ledgers import BESIDE, FILES
from backfill_assets.lake.audit import check_rules
from backfill_assets.lake.code import SourceFile, code_input
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Source, Table, Transform, pipeline_of
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.own_files import imported, loaded, reached, reached_by
from backfill_assets.pipeline.sql_tables import sql_table
from backfill_assets.pipeline.tables import recorded, tables

TablesOf = Callable[[LakeSettings], Sequence[Table]]
NAME = re.compile(r"[a-z][a-z0-9_]*")  # it names a folder, an asset, and a table in SQL
NOTHING = "Nothing was done"


def tables_at(root: Path) -> TablesOf:
    """Return the function that gives the tables of the lake at `root` for its settings, upstream first. It raises
    SettingsError, with file and line, for a user's file that fails and for tables that do not fit each other."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        """The tables, upstream first."""
        named, sql = settings.pipeline.tables, settings.pipeline.sql
        if not named and not sql:
            return tables(settings)
        given = _own(root, named, settings) if named else list(tables(settings))
        written = [sql_table(path, settings) for path in sorted(root.glob(sql))] if sql else []
        if sql and not written:
            raise _refused(sql, f"no file in {root} is named so", "Write one, or correct [pipeline] sql")
        return _in_order(named or sql or "", [*given, *written], settings)

    return tables_of


def chosen_pipeline(lake: Lake) -> Pipeline:
    """The pipeline of a lake. Raises SettingsError as `tables_at` does, and for settings that name an unknown table."""
    return pipeline_of(lake, tables_at(lake.root)(lake.settings))


def _own(root: Path, named: str, settings: LakeSettings) -> list[Table]:
    place, _, name = named.rpartition(":")
    with _told_by_line(root / place if place.endswith(".py") else place):
        module = _module_of(root, place)
        found = getattr(module, name, None)
        if found is None:
            raise _refused(named, f"it defines no {name}", f"Define {name}, or name what it defines")
        made, read = recorded(found, settings) if callable(found) else (found, {})
        return [_with_source(named, table, module, read) for table in made]


def _with_source(named: str, table: object, module: ModuleType, read: Mapping[str, Any]) -> Table:
    """Add the code to a table: the files that its transform reaches, and the settings it has `read`. A transform
    without a module counts as code of `module`. Raises SettingsError for a rule that cannot be checked."""
    if not isinstance(table, Table):
        found = type(table).__name__
        raise _refused(named, f"it gives a {found} where a Table is meant", "Give Tables, upstream first")
    try:
        check_rules(table.contract)
    except BackfillError as error:
        raise _refused(named, f"{error.object}: {error.culprit}", error.fix) from None
    if table.transform is None:
        return table
    told = table.sources or _homes(table.transform, module)
    sources = dict.fromkeys(file for source in told for file in _files(source))
    inputs = [i for name in table.code_inputs for i in code_input(name, Path(module.__file__ or "").parent)]
    files = [i for i in inputs if isinstance(i, SourceFile)]
    lines = tuple(i for i in inputs if isinstance(i, str))
    made = replace(table, sources=(*sources, *files), code_inputs=lines)
    return replace(made, settings_read=read) if made.brings_code else made


def _files(source: Source) -> tuple[Source, ...]:
    """The files that a source reaches, as they were loaded; of the name of a module only its own file."""
    if isinstance(source, ModuleType):
        return reached_by(source) or (source,)
    found = reached_by(sys.modules[source]) if isinstance(source, str) and source in sys.modules else None
    return (found[0],) if found else (source,)


def _homes(transform: Transform, module: ModuleType) -> tuple[ModuleType, ...]:
    """Modules hashed into a transform's code digest: its own, and for partials and closures `module` as well."""
    written = transform.func if isinstance(transform, partial) else transform
    home = inspect.getmodule(written)
    given = written is not transform or getattr(transform, "__closure__", None) is not None
    return tuple(m for m in (home, module if given or home is None else None) if m is not None)


def _module_of(root: Path, place: str) -> ModuleType:
    if not place.endswith(".py"):
        return imported(place)
    path = root / place
    try:
        return loaded(path)
    except OSError as error:
        told = f"there is no file {path}" if isinstance(error, FileNotFoundError) else f"{path}: {error.strerror}"
        raise _refused(place, told, "Write the file beside lake.toml, or correct [pipeline] tables") from None


@contextmanager
def _told_by_line(place: Path | str) -> Iterator[None]:
    """Turn any error of a user's file into a SettingsError with the file's name and line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        found = place_in(error, _own_files(place))
        where = f"{found[0]}, line {found[1]}" if found else str(place)
        told = " ".join(str(error).split()) or "no more is said"
        raise SettingsError(
            where, f"{type(error).__name__}: {told}", NOTHING, "Correct the file, or [pipeline] tables in lake.toml"
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
    """Sort the tables so that each follows its inputs. Raises SettingsError for tables that cannot be, for a missing
    input and for a circle."""
    for culprit, fix in _faults(given, settings):
        raise _refused(named, culprit, fix)
    left, done = list(given), dict[str, Table]()
    while left:
        ready = next((t for t in left if _inputs(t) <= set(done)), None)
        if ready is None:
            wanted = sorted(_inputs(left[0]) - set(done))
            strangers = [w for w in wanted if w not in {t.name for t in given}]
            told = f"no such table is given: {', '.join(strangers)}" if strangers else "these are made from it, too"
            raise _refused(named, f"the table {left[0].name} is made from {', '.join(wanted)}, and {told}",
                           "Give every input as a table, and no table its own consequences")  # fmt: skip
        left.remove(ready)
        done[ready.name] = ready
    return tuple(done.values())


def _faults(given: Sequence[Table], settings: LakeSettings) -> Iterator[tuple[str, str]]:
    """Yield what cannot be of tables, each with what to do."""
    names, sources = [t.name for t in given], [t.contract.source for t in given if t.is_landed]
    taken = {ledgers.named(ledger, source) for ledger in (*BESIDE, FILES) for source in {*sources, ""}}
    bad = [n for n in names if not NAME.fullmatch(n) or n in taken]
    if bad:
        yield (
            f"{', '.join(map(repr, bad))} cannot name a table of a pipeline",
            f"Use small letters, digits and _, and none of {', '.join(sorted(taken))}",
        )
    if twice := sorted({n for n in names if names.count(n) > 1}):
        yield f"it gives {', '.join(twice)} more than once", "Give every table another name"
    known = {t.name: t.contract for t in given}
    for table, wanted in ((t, i) for t in given for i in t.contract.inputs if i.table in known):
        columns = known[wanted.table].column_names
        if strangers := sorted(set(wanted.columns or ()) - set(columns)):
            culprit = f"{table.name} reads {', '.join(strangers)} of {wanted.table}, which has no such column"
            yield culprit, f"Read columns of {', '.join(columns)}"
        if wanted.basis is Basis.KNOWN_AT_CUT and not reads(known[wanted.table].inputs, Basis.ARRIVALS):
            culprit = f"{table.name} reads {wanted.table} as known at a cut, which has no versions"
            yield culprit, "Read so only a table made from arrivals, such as staging"
    take = "Take raw and staging from `backfill_assets.tables(settings)`"
    if not sources:
        yield "it gives no table that is loaded from landed files", take
    for table in (t for t in given if t.is_landed and t.contract.source not in settings.delivered):
        told = f"the source {table.contract.source}" if table.contract.source else "a source without a name"
        has = " and ".join(section_of(name) for name in settings.delivered)
        yield f"{table.name} is loaded from {told}, and lake.toml has {has}", take


def _inputs(table: Table) -> set[str]:
    return {i.table for i in table.contract.inputs if i.basis is not Basis.FILES}


def _refused(named: str, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"the pipeline {named}", culprit, NOTHING, fix)
