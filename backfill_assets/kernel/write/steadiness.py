"""Checks before rows are computed: a user's transform, and expressions that an engine computes
otherwise than Spark.

Of a transform: its source (names of the clock and the environment), the functions in its plan, its
changes of session settings, and its mistakes by file and line; what a library reads by itself is
not found. Not here: a day computed again (`computing.refuse_dependent`), the names of functions
(`kernel.core.unsteady`), and what an engine computes otherwise
(`kernel.core.engines.Engine.differences`).
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from backfill_assets.engines.frames import undecided
from backfill_assets.engines.server import engine_named
from backfill_assets.engines.session import changed_settings, engine_of
from backfill_assets.engines.session import explained as explained_loss
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.engines import Engine, advice, culprit
from backfill_assets.kernel.core.errors import (
    NOT_RUN,
    BackfillError,
    ContractBroken,
    SettingsError,
    place_in,
)
from backfill_assets.kernel.core.texts import shortened
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.code import SourceFile
from backfill_assets.kernel.write.model import Table, source_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN, SHOWN_CHARS = 3, 300
CLOCK = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "time.time",
        "time.time_ns",
    }
)
CLOCK_UNLESS_GIVEN = {
    "time.strftime": 2,
    "time.localtime": 1,
    "time.gmtime": 1,
    "time.ctime": 1,
    "time.asctime": 1,
}
ENVIRONMENT = frozenset({"os.environ", "os.environ.get", "os.getenv"})


def refuse_unsteady(
    session: "SparkSession",
    table: Table,
    frame: "DataFrame",
    inputs: Mapping[str, "DataFrame"],
    contracts: Mapping[str, Contract],
) -> None:
    """Raise ContractBroken, naming the function, if a user's frame over `inputs` asks for the
    clock, chance or Python, or for what the engine computes otherwise than Spark. Raises Spark's
    own error for a frame that it cannot analyse. Computes nothing."""
    if not table.brings_code:
        return
    if found := undecided(frame, inputs):
        reason, fix = (
            f"the same inputs may give other rows: {_first_texts(found)}",
            next(iter(found.values())),
        )
    elif differing := engine_of(session).plan_differences(
        frame, inputs, [contracts[name] for name in inputs]
    ):
        reason, fix = culprit(differing, engine_of(session)), advice(differing)
    else:
        _ = frame.schema
        return
    raise ContractBroken(
        f"the transform of {table.name}", reason, NOT_RUN, fix[:1].upper() + fix[1:]
    )


def refuse_changed_settings(session: "SparkSession", named: str) -> None:
    """Raise ContractBroken about `named` if code outside this package changed the session's
    settings, which reach every later table; restore them."""
    if not (changed := changed_settings(session)):
        return
    changes = (
        f"{n} from {_value(before)} to {_value(now)}" for n, (before, now) in changed.items()
    )
    raise ContractBroken(
        named,
        "settings of the Spark session that all tables share were changed: "
        f"{_first_texts(changes)}",
        "Nothing was written, and they were put back",
        "Name the zone or the format in the expressions themselves, or set it for the whole lake: "
        "`[spark.confs]` in "
        "lake.toml",
    )


def _first_texts(texts: Iterable[str]) -> str:
    """The first texts, and the number of further ones."""
    every = list(texts)
    return "; ".join(
        [*every[:SHOWN], *([f"and {len(every) - SHOWN} more"] if len(every) > SHOWN else [])]
    )


def _value(setting: str | None) -> str:
    return "not set" if setting is None else shortened(repr(setting), SHOWN_CHARS)


@contextmanager
def settings_kept(session: "SparkSession", table: Table) -> Iterator[None]:
    """Around a user's transform: restore the session's settings that it changed, and raise
    ContractBroken."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            changed_settings(session)
        raise
    if table.brings_code:
        refuse_changed_settings(session, f"the transform of {table.name}")


@contextmanager
def explaining_mistakes(table: Table) -> Iterator[None]:
    """Turn an error of a user's transform into a BackfillError of one line, with file and line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        if not table.brings_code or explained_loss(error) is not None:
            raise
        files = source_files(table)
        place = place_in(error, files)
        sql = next((f"{path.name}: " for path in files if path.suffix == ".sql"), "")
        where = f"{place[0].name}, line {place[1]}: " if place else sql
        text = (str(error) or repr(error)).splitlines()[0]
        raise BackfillError(
            f"the transform of {table.name}",
            f"{where}{type(error).__name__}: {shortened(text, SHOWN_CHARS)}",
            "Nothing was written",
            "Correct the transform",
        ) from error


def refuse_reads(table: Table) -> None:
    """Raise ContractBroken if the table's Python files read the clock or undeclared variables.
    Computes nothing."""
    if table.transform is None or not table.brings_code:
        return
    if reading := next(
        (f for s in table.sources if isinstance(s, SourceFile) for f in _reads_in(s, table)), None
    ):
        raise ContractBroken(
            f"the transform of {table.name}",
            reading,
            NOT_RUN,
            "Take days and times from the chunk or from columns; name a variable of the "
            "environment that it needs in "
            '`code_inputs=("env:NAME",)`',
        )


def _reads_in(source: SourceFile, table: Table) -> Iterator[str]:
    """Yield file, line and name of each call in a Python file that reads the clock or an undeclared
    variable."""
    if source.named_input or source.path.suffix != ".py":
        return
    tree = ast.parse(source.content)
    imported = dict(_imported(tree))
    for node in ast.walk(tree):
        read, given = "", list[ast.expr]()
        if isinstance(node, ast.Call):
            read, given = _dotted(node.func, imported), node.args
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            read, given = _dotted(node.value, imported), [node.slice]
        if read in CLOCK or len(given) < CLOCK_UNLESS_GIVEN.get(read, 0):
            yield (f"{source.path.name}, line {node.lineno}: {read} reads the clock")  # type: ignore[attr-defined]
        elif read in ENVIRONMENT and given:
            name = (
                str(given[0].value) if isinstance(given[0], ast.Constant) else ast.unparse(given[0])
            )
            if f"env:{name}" not in table.code_inputs:
                yield (
                    f"{source.path.name}, line {given[0].lineno}: {read} reads {name}, which is "
                    "no code input"
                )


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that imports give, with what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from ((n.asname or n.name, module + n.name) for n in node.names)


def _dotted(node: ast.expr, imported: dict[str, str]) -> str:
    """The full name of a function, e.g. `datetime.date.today`; "" for what no import names."""
    if isinstance(node, ast.Attribute):
        return f"{base}.{node.attr}" if (base := _dotted(node.value, imported)) else ""
    return imported.get(node.id, "") if isinstance(node, ast.Name) else ""


def refuse_expressions(settings: LakeSettings, tables: Iterable[Table]) -> None:
    """Raise SettingsError if an expression of `lake.toml`, by which one of these tables is
    computed, differs on the lake's engine."""
    engine = engine_named(settings.spark.engine)
    for where, names in differing_expressions(tables, engine).items():
        raise SettingsError(where, culprit(names, engine), "Nothing was done", advice(names))


def differing_expressions(tables: Iterable[Table], engine: Engine) -> dict[str, dict[str, str]]:
    """Return, by the place in `lake.toml` with the tables computed by it, the names in expressions
    that are known to differ on an engine, each with what to write instead ("": nothing)."""
    computed, found = (
        defaultdict[str, dict[str, None]](dict),
        defaultdict[str, dict[str, str]](dict),
    )
    for table in tables:
        for one in table.expressions:
            if names := engine.differences(one.text, one.types, agg=one.agg):
                computed[one.where][table.name] = None
                found[one.where].update(names)
    return {
        f"{where} in lake.toml (for {' and '.join(computed[where])})": names
        for where, names in found.items()
    }
