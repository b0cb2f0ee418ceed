"""Before a user's transform is run: its plan is analysed, and refused where its rows depend on more than its inputs.

Lives here: asking Spark for the analysed plan, the refusal, the refusal of a transform that changes the session's
settings, and telling mistakes in a transform by file and line. Temporary views, functions and the current database are
not compared: they reach only who names them, and Spark's own functions go before those of their name. Does not live
here: what is unsteady (`core.unsteady`). What this package's own tables do is held by its tests instead, so
that a chunk of them costs no plan more.

Sail's plan tells no column by a number, so that no order can be shown to be total. There the plan that a client keeps
is read (`second_engine`), and nothing unsteady is on its lists (a test). It cannot take the place of Spark's: it does
not say what a column's name stands for, nor what is behind a view, and a classic session keeps none.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError, ContractBroken
from backfill_assets.core.texts import shortened
from backfill_assets.core.unsteady import unsteady
from backfill_assets.engine.session import changed_settings, sail_scratch
from backfill_assets.engine.session import explained as loss_told
from backfill_assets.lake.model import Table, source_files
from backfill_assets.landing.mapping import SPARKS_LOG, quiet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = "spark.sql.debug.maxToStringFields"  # beyond it Spark says "… more fields", which would hide expressions
EVERY_FIELD = "1000000"
SHOWN, SHOWN_CHARS = 3, 300


def refuse_unsteady(
    session: "SparkSession", table: Table, frame: "DataFrame", contracts: Mapping[str, Contract]
) -> None:
    """Raise ContractBroken where the analysed plan of a user's frame uses the clock, chance, an order that is not total
    or Python; it names the expression. On Sail only what cannot be analysed raises. Nothing is computed."""
    if not table.brings_code:
        return
    if sail_scratch(session) is not None:
        _ = frame.schema  # analysed, which raises what is wrong with it
        return
    found = unsteady(explained_plan(session, frame), [contracts[i.table] for i in table.contract.inputs])
    if not found:
        return
    told = "; ".join(map(str, found[:SHOWN]))
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise ContractBroken(
        f"the transform of {table.name}", f"the same inputs may give other rows: {told}{more}",
        "It was not run, and nothing was written", found[0].fix[:1].upper() + found[0].fix[1:],
    )  # fmt: skip


def explained_plan(session: "SparkSession", frame: "DataFrame") -> str:
    """What Spark says of a frame's plans, with every field. Raises what Spark does for one that it cannot analyse."""
    name, before = f"plan_{uuid.uuid4().hex}", session.conf.get(FIELDS, None)
    session.conf.set(FIELDS, EVERY_FIELD)
    try:
        frame.createOrReplaceTempView(name)
        return str(session.sql(f"EXPLAIN EXTENDED SELECT * FROM {name}").collect()[0][0])
    finally:
        session.catalog.dropTempView(name)
        if before is None:
            session.conf.unset(FIELDS)
        else:
            session.conf.set(FIELDS, before)


def refuse_changed_settings(session: "SparkSession", named: str) -> None:
    """Raise ContractBroken where something else than this package has changed the session's settings since it was
    opened, which would change the rows of every later table; they are put back. `named` is what is refused."""
    if not (found := changed_settings(session)):
        return
    told = ", ".join(f"{n} from {_value(before)} to {_value(now)}" for n, (before, now) in [*found.items()][:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise ContractBroken(
        named, f"settings of the Spark session that all tables share were changed: {told}{more}",
        "Nothing was written, and they were put back",
        "Name the zone or the format in the expressions themselves, or set it for the whole lake: `[spark.confs]` in "
        "lake.toml",
    )  # fmt: skip


def _value(setting: str | None) -> str:
    return "not set" if setting is None else shortened(repr(setting), SHOWN_CHARS)


@contextmanager
def settings_kept(session: "SparkSession", table: Table) -> Iterator[None]:
    """Around a user's transform: put back what it changed of the session's settings, and raise ContractBroken."""
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
    """Whatever a user's transform raises while its plan is made is told in one line, with file and line."""
    try:
        with quiet((SPARKS_LOG,)):
            yield
    except BackfillError:
        raise
    except Exception as error:
        if not table.brings_code or loss_told(error) is not None:
            raise
        where = _place(error, source_files(table))
        text = (str(error) or repr(error)).splitlines()[0]
        raise BackfillError(
            f"the transform of {table.name}", f"{where}{type(error).__name__}: {shortened(text, SHOWN_CHARS)}",
            "Nothing was written", "Correct the transform",
        ) from error  # fmt: skip


def _place(error: BaseException, files: Sequence[Path]) -> str:
    """The file that the mistake is in, and the line where Python knows it."""
    named = {str(path): path for path in files}
    lines = [(named[f.filename], f.lineno) for f in extract_tb(error.__traceback__) if f.filename in named]
    if lines:  # the innermost: a transform may call what stands beside it
        return f"{lines[-1][0].name}, line {lines[-1][1]}: "
    return next((f"{path.name}: " for path in files if path.suffix == ".sql"), "")
