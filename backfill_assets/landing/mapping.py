"""`[source] select` applied to the rows of files of one schema: each row gets its delivery columns, or why it has none.

Lives here: the columns that files lack, the contract's types, and expressions that raise on a row. Does not live here:
reading the expressions (`select`), the rules of usable rows (`deliveries`).

One value must not end a query over all files. Under ANSI rules an expression such as `value * 1` raises over `n/a`, and
rewriting it could only guess which implicit cast of which branch would have raised. So Spark evaluates it as written,
inside `try_to_binary`, which gives NULL for whatever raised within it: the row is told, and no other value is changed.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.select import can_raise, expressions

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame, SparkSession

DELIVERY_TYPES = {
    "seq": "bigint", "arrival_ts": "timestamp", "version_ts": "timestamp", "event_ts": "timestamp",
    "event_key": "string", "op": "string", "entity": "string", "value": "bigint", "flag": "int",
}  # fmt: skip
UPSERT_ONLY = ("event_ts", "entity", "value", "flag")  # a delete needs none of these
NESTED = ("struct", "array", "map")
RAISED = "__raised"
UNFIT = "select does not fit its columns: "  # how such a reason begins
# What is wrong with the text of `select` itself, whatever the files are: syntax, functions and their arguments.
OF_THE_TEXT = ("42601", "42883", "42605", "42803")
# Spark's own loggers of failed queries print pages of JSON on stderr for errors that are dealt with here.
CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class Unfit(Exception):
    """`select` cannot be applied to files of this schema; the text says why. The files are refused, others are read."""

    def __init__(self, why: str) -> None:
        super().__init__(UNFIT + why)


def mapped(frame: "DataFrame", select: str, absent_is_null: bool, inexact: Mapping[str, str]) -> "DataFrame":
    """The frame with the delivery columns, `__lacking` (why no row has one of them, else NULL), and RAISED: for which
    of them an expression raised on this row, else the empty text.

    A column that the files lack is NULL (`absent_is_null`) or the reason; so is one of `inexact` (name -> why). Raises
    Unfit, and SettingsError where the expressions cannot be meant for any file.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    chosen, lacking = expressions(select), None
    frame = frame.drop(*inexact)
    for _ in range(len(chosen) * 8):
        try:
            with quiet():
                made = _cast(frame, chosen).withColumn("__lacking", F.lit(lacking).cast("string"))
                made.columns  # noqa: B018 - a Connect session analyses only when asked
                return made
        except AnalysisException as error:
            column = _unresolved(error)
        cut = next((f"{name} {why}" for name, why in inexact.items() if name.lower() == column.lower()), None)
        if cut or not absent_is_null:
            lacking = cut or f"the file lacks the column {column}"
        frame = frame.withColumn(column, F.lit(None).cast("string"))
    raise SettingsError(
        "[source] select in lake.toml", "it names too many absent columns", "Nothing was read", "Check it"
    )


def _unresolved(error: "AnalysisException") -> str:
    """The absent column that an analysis stumbled over; raises what else the error means."""
    told = (error.getMessageParameters() or {}).get("objectName", "").strip("`").split("`.`")[0]
    if told and (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return told
    raise refusal(error) from None


def prepare(session: "SparkSession", select: str) -> None:
    """Keep Spark from computing what expressions share ahead of them, outside of what catches their errors."""
    if any(map(can_raise, expressions(select))):
        session.conf.set("spark.sql.subexpressionElimination.enabled", "false")


def refusal(error: "AnalysisException") -> Exception:
    """What an error of analysing a schema says: Unfit, or SettingsError where no other file could do better."""
    state = error.getSqlState() or ""
    line = str(error).splitlines()[0]
    if state not in OF_THE_TEXT:
        return Unfit(line)
    return SettingsError(
        "[source] select in lake.toml", f"Spark refuses it ({line})", "Nothing was read",
        "Correct the expression; it sees the file's columns only",
    )  # fmt: skip


def _cast(frame: "DataFrame", chosen: tuple[str, ...]) -> "DataFrame":
    """The selected values as the delivery contract's types; what cannot be cast is NULL, what raised is told.

    What may raise is evaluated within its own vessel and nowhere else, so that Spark has nothing to compute before it.
    """
    from pyspark.sql import functions as F

    columns, vessels, told = dict[str, "Column"](), dict[str, "Column"](), []
    for name, (index, kind) in _selected(frame, chosen).items():
        target, place = DELIVERY_TYPES[name], f"__d{index}"
        if kind.typeName() in NESTED:
            raise Unfit(f"{name} must be a {target}, but select makes it {kind.simpleString()[:200]}")
        value = _as_target(F.expr(f"struct({chosen[index]})").getField(name), kind.typeName(), target)
        if can_raise(chosen[index]):
            vessels[place], value = _vessel(value, target), _unpacked(F.col(place), target)
            raised = F.col(place).isNull() & (F.lit(name not in UPSERT_ONLY) | ~F.col("op").eqNullSafe(F.lit("delete")))
            told.append(F.when(raised, F.lit(f"{name}: select raises an error on this row")))
        columns[name] = value
    found = frame.withColumns(vessels) if vessels else frame
    return found.withColumns(columns).withColumn(RAISED, F.concat_ws("; ", *told) if told else F.lit(""))


def _selected(frame: "DataFrame", chosen: tuple[str, ...]) -> dict[str, tuple[int, Any]]:
    """Delivery column -> the position of its expression in `select`, and the type that Spark gives it."""
    schema: Any = frame.selectExpr(*(f"struct({e}) AS __d{i}" for i, e in enumerate(chosen))).schema
    fields = {schema[i].dataType[0].name: (i, schema[i].dataType[0].dataType) for i in range(len(chosen))}
    if set(fields) != set(DELIVERY_TYPES):
        missing, extra = sorted(set(DELIVERY_TYPES) - set(fields)), sorted(set(fields) - set(DELIVERY_TYPES))
        raise SettingsError(
            "[source] select in lake.toml",
            f"it lacks {missing or 'nothing'} and has {extra or 'nothing'} too many",
            "Nothing was read",
            f"Give exactly these columns: {', '.join(DELIVERY_TYPES)}",
        )
    return fields


def _as_target(value: "Column", kind: str, target: str) -> "Column":
    from pyspark.sql import functions as F

    if target in ("bigint", "int") and kind in ("double", "float", "decimal"):
        # A cast would cut fractions off in silence; NaN and infinity have no remainder of zero either.
        value = F.when(value % F.lit(1) == F.lit(0), value)
    if target == "string":
        return F.try_validate_utf8(value.try_cast(target))
    return value.try_cast(target)


def _vessel(value: "Column", target: str) -> "Column":
    """The value as text in bytes: `1` and its digits, `0` for NULL; NULL itself only where evaluating it raised."""
    from pyspark.sql import functions as F

    exact = F.unix_micros(value) if target == "timestamp" else value
    text = F.coalesce(F.concat(F.lit("1"), exact.cast("string")), F.lit("0"))
    return F.try_to_binary(text, F.lit("utf-8"))


def _unpacked(vessel: "Column", target: str) -> "Column":
    from pyspark.sql import functions as F

    text = F.decode(vessel, "utf-8")
    value = F.when(F.substring(text, 1, 1) == "1", F.substring(text, F.lit(2), F.length(text)))
    if target == "timestamp":
        return F.timestamp_micros(value.cast("bigint"))
    return value.cast(target)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep pyspark from printing errors of queries that are expected to fail and dealt with."""
    from pyspark.logger import PySparkLogger

    loggers: list[logging.Logger] = [PySparkLogger.getLogger(name) for name in CONTEXT_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was
