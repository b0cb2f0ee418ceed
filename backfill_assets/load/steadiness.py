"""Checks of a user's transform: its analysed plan, its changes of session settings, its mistakes by file and line.

Not here: the unsteady expressions (`core.unsteady`), and other engines' differences (`core.engines`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.engines import advice, culprit
from backfill_assets.core.errors import BackfillError, ContractBroken, place_in
from backfill_assets.core.texts import shortened
from backfill_assets.core.unsteady import unsteady
from backfill_assets.engine.session import changed_settings, engine_of, say
from backfill_assets.engine.session import explained as loss_told
from backfill_assets.lake.model import Table, source_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = "spark.sql.debug.maxToStringFields"  # beyond it Spark says "… more fields", which would hide expressions
EVERY_FIELD = "1000000"
SHOWN, SHOWN_CHARS = 3, 300


def refuse_unsteady(
    session: "SparkSession",
    table: Table,
    frame: "DataFrame",
    inputs: Mapping[str, "DataFrame"],
    contracts: Mapping[str, Contract],
) -> None:
    """Raise ContractBroken, naming the expression, if a user's frame over `inputs` depends on the clock, chance, row
    order or Python, or asks the engine for what it is known to compute otherwise than Spark. Computes nothing."""
    if not table.brings_code:
        return
    engine, read = engine_of(session), [contracts[name] for name in inputs]
    if engine.explains:
        if not (found := unsteady(explained_plan(session, frame), read)):
            return
        what, fix = f"the same inputs may give other rows: {_few(map(str, found))}", found[0].fix
    else:
        if not (names := engine.plan_differences(frame, inputs, read)):
            _ = frame.schema  # analysed, which raises what is wrong with it
            return
        what, fix = culprit(names, engine), advice(names)
    unwritten = "It was not run, and nothing was written"
    raise ContractBroken(f"the transform of {table.name}", what, unwritten, fix[:1].upper() + fix[1:])


def explained_plan(session: "SparkSession", frame: "DataFrame") -> str:
    """The text of a frame's plans with every field. Raises Spark's own error for a frame that it cannot analyse."""
    say(session, {FIELDS: EVERY_FIELD})
    return str(session.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).collect()[0][0])


def refuse_changed_settings(session: "SparkSession", named: str) -> None:
    """Raise ContractBroken about `named` if code outside this package changed the session's settings, which reach every
    later table; restore them."""
    if not (found := changed_settings(session)):
        return
    told = (f"{n} from {_value(before)} to {_value(now)}" for n, (before, now) in found.items())
    raise ContractBroken(
        named, f"settings of the Spark session that all tables share were changed: {_few(told)}",
        "Nothing was written, and they were put back",
        "Name the zone or the format in the expressions themselves, or set it for the whole lake: `[spark.confs]` in "
        "lake.toml",
    )  # fmt: skip


def _few(texts: Iterable[str]) -> str:
    """The first texts, and the number of further ones."""
    every = list(texts)
    return "; ".join([*every[:SHOWN], *([f"and {len(every) - SHOWN} more"] if len(every) > SHOWN else [])])


def _value(setting: str | None) -> str:
    return "not set" if setting is None else shortened(repr(setting), SHOWN_CHARS)


@contextmanager
def settings_kept(session: "SparkSession", table: Table) -> Iterator[None]:
    """Around a user's transform: restore the session's settings that it changed, and raise ContractBroken."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            changed_settings(session)
        raise
    if table.brings_code:
        refuse_changed_settings(session, f"the transform of {table.name}")


@contextmanager
def telling_mistakes(table: Table) -> Iterator[None]:
    """Turn an error of a user's transform into a BackfillError of one line, with file and line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        if not table.brings_code or loss_told(error) is not None:
            raise
        files = source_files(table)
        found = place_in(error, files)
        sql = next((f"{path.name}: " for path in files if path.suffix == ".sql"), "")
        where = f"{found[0].name}, line {found[1]}: " if found else sql
        text = (str(error) or repr(error)).splitlines()[0]
        raise BackfillError(
            f"the transform of {table.name}", f"{where}{type(error).__name__}: {shortened(text, SHOWN_CHARS)}",
            "Nothing was written", "Correct the transform",
        ) from error  # fmt: skip
