"""`[source] select` applied to the rows of files of one schema: each row gets its delivery columns, or why it has none.

Lives here: the columns that files lack, the contract's types, and expressions that raise on a row. Does not live here:
reading the expressions (`select`), the rules of usable rows (`deliveries`).

One value must not end a query over all files. Under ANSI rules an expression such as `value * 1` raises over `n/a`, and
rewriting it could only guess which implicit cast of which branch would have raised. So Spark evaluates it as written,
inside `try_to_binary`, which gives NULL for whatever raised within it: the row is told, and no other value is changed.
"""

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets.core.column_types import ColumnType, read_type
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.payload import DEFAULT_PAYLOAD, MACHINERY, PayloadColumn
from backfill_assets.landing.casting import as_target, is_lost, misfit, spark_word, unpacked, vessel
from backfill_assets.landing.engine_errors import absent_column, analysis_errors, is_of_the_text, is_sails
from backfill_assets.landing.row_functions import refuse_beyond_the_row
from backfill_assets.landing.row_origin import FILE, HAVE_DEFAULTS, arrival_of, number_of
from backfill_assets.landing.sail_casts import doubtful, is_tried, refuse_select, uncast
from backfill_assets.landing.select import can_raise, expressions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RAISED = "__raised"
DOUBTED = "__doubted"
UNFIT = "select does not fit its columns: "  # how such a reason begins
# Spark's own loggers of failed queries print pages of JSON on stderr for errors that are dealt with here.
SPARKS_LOG = "SQLQueryContextLogger"  # of plans that cannot be analysed
CONTEXT_LOGGERS = (SPARKS_LOG, "DataFrameQueryContextLogger")


class UnfitSelect(Exception):
    """`select` cannot be applied to files of this schema; the text says why. The files are refused, others are read."""

    def __init__(self, why: str) -> None:
        super().__init__(UNFIT + why)


def delivery_types(payload: Iterable[PayloadColumn]) -> dict[str, ColumnType]:
    """The columns of a delivery in raw's order, with their types: what the machinery needs, then its payload."""
    own = {name: read_type(kind) for name, kind in MACHINERY.items()}
    return own | {c.name: read_type(c.type) for c in payload}


def mapped(
    frame: "DataFrame",
    select: str,
    absent_is_null: bool,
    inexact: Mapping[str, str],
    payload: Sequence[PayloadColumn] = DEFAULT_PAYLOAD,
    on_sail: bool = False,
) -> "DataFrame":
    """The frame with the delivery columns, `__lacking` (why no row has one of them, else NULL), and RAISED: for which
    of them an expression raised on this row, or a value was lost in a cast, else the empty text.

    A column that the files lack is NULL (`absent_is_null`) or the reason; so is one of `inexact` (name -> why). The
    frame has `__sha256` and `__number`, and FILE and ROW where `select` names them. `on_sail`: what was not tried there
    is refused by name. Raises UnfitSelect, and SettingsError
    where the expressions cannot be meant for any file.
    """
    from pyspark.sql import functions as F

    refuse_beyond_the_row(select)
    chosen, lacking = _Chosen(expressions(select), expressions(select, strict=True), tuple(payload), on_sail), None
    frame = frame.drop(*inexact)
    for _ in range(len(chosen.forgiving) * 8):
        try:
            with quiet():
                made = _cast(frame, chosen).withColumn("__lacking", F.lit(lacking).cast("string"))
                made.columns  # noqa: B018 - a Connect session analyses only when asked
                return made
        except analysis_errors() as error:
            column = absent_column(error)
            if not column:
                raise refusal(error) from None
        cut = next((f"{name} {why}" for name, why in inexact.items() if name.lower() == column.lower()), None)
        if cut or not absent_is_null:
            lacking = cut or f"the file lacks the column {column}"
        frame = frame.withColumn(column, F.lit(None).cast("string"))
    raise SettingsError(
        "[source] select in lake.toml", "it names too many absent columns", "Nothing was read", "Check it"
    )


@dataclass(frozen=True)
class _Chosen:
    """The expressions of `select`, with casts that give NULL and with casts that raise, and the payload."""

    forgiving: tuple[str, ...]
    strict: tuple[str, ...]
    payload: tuple[PayloadColumn, ...]
    on_sail: bool = False

    @property
    def watched(self) -> list[str]:
        """The columns in which NULL says nothing by itself: it may be the sender's, or of a cast that failed."""
        return [c.name for c in self.payload if c.nullable and c not in DEFAULT_PAYLOAD]

    def needed_by_deletes(self, name: str) -> bool:
        """Whether a delete may not lack the column."""
        return name != "event_ts" and name not in [c.name for c in self.payload]


def settings_for(select: str, payload: Sequence[PayloadColumn] = DEFAULT_PAYLOAD) -> dict[str, str]:
    """The settings of a session that keep Spark from computing what expressions share ahead of them, outside of what
    catches their errors; none where no expression can raise."""
    if tuple(payload) != DEFAULT_PAYLOAD or any(map(can_raise, expressions(select))):
        return {"spark.sql.subexpressionElimination.enabled": "false"}
    return {}


def refusal(error: Exception) -> Exception:
    """What an error of analysing a schema says: UnfitSelect, or SettingsError where no other file could do better."""
    line = str(error).splitlines()[0]
    if not is_of_the_text(error):
        return UnfitSelect(line)
    return SettingsError(
        "[source] select in lake.toml", f"{'Sail' if is_sails(error) else 'Spark'} refuses it ({line})",
        "Nothing was read",
        "Correct the expression; it sees the file's columns only",
    )  # fmt: skip


def _cast(frame: "DataFrame", chosen: _Chosen) -> "DataFrame":
    """The selected values as the delivery contract's types; what cannot be cast is NULL, what raised is told.

    What may raise is evaluated within its own vessel and nowhere else, so that Spark has nothing to compute before it.
    """
    from pyspark.sql import functions as F

    if chosen.on_sail:
        refuse_select(chosen.forgiving, dict(frame.dtypes))
    types, selected = delivery_types(chosen.payload), _selected(frame, chosen)
    columns, vessels, told, doubted = dict[str, "Column"](), dict[str, "Column"](), [], []
    for name, (index, found) in selected.items():
        kind, place, text = types[name], f"__d{index}", chosen.forgiving[index]
        if misfit(found, kind):
            raise UnfitSelect(f"{name} must be a {spark_word(kind)}, but select makes it {found[:200]}")
        given = F.expr(f"struct({text})").getField(name)
        value = as_target(given, found, kind)
        if chosen.on_sail:
            value, reasons = _without_doubt(name, value, given, found, kind)
            doubted += reasons
        if (can_raise(text) or kind.element is not None) and not chosen.on_sail:
            vessels[place], value = vessel(value, kind), unpacked(F.col(place), value, kind)
            if name not in chosen.watched:
                raised = F.col(place).isNull() & (F.lit(chosen.needed_by_deletes(name)) | ~_is_delete())
                told.append(F.when(raised, F.lit(f"{name}: select raises an error on this row")))
        columns[name] = value
    columns |= _defaults(set(types) - set(columns), columns)
    made = frame.withColumns(vessels) if vessels else frame
    if doubted:  # before a column of the file gives way to one of the delivery that is named alike
        made = made.withColumn(DOUBTED, F.concat_ws("; ", *doubted))
        told.append(F.when(F.col(DOUBTED) != "", F.col(DOUBTED)))
    watching = {n: s for n, s in selected.items() if n in chosen.watched}
    if watching:
        made, lost = _watched(made, chosen, watching, columns)
        columns = {name: F.col(f"__v_{name}") for name in columns}
        told += lost
    return made.withColumns(columns).withColumn(RAISED, F.concat_ws("; ", *told) if told else F.lit(""))


def _without_doubt(
    name: str, value: "Column", given: "Column", found: str, kind: ColumnType
) -> "tuple[Column, list[Column]]":
    """Return the value where both engines read `given` alike, and why it is NULL elsewhere. Raises UnfitSelect for an
    untried type."""
    from pyspark.sql import functions as F

    if not is_tried(found, kind):
        raise UnfitSelect(f'{name} is {found}, of which engine = "sail" was not tried to make a {kind}')
    if (doubt := doubtful(given, found, kind)) is None:
        return value, []
    reason = F.lit(f"{name}: only engine = embedded reads a {kind} of this form")
    return F.when(~doubt, value), [F.when(doubt, reason)]


def _watched(
    frame: "DataFrame", chosen: _Chosen, watching: Mapping[str, tuple[int, str]], columns: Mapping[str, "Column"]
) -> "tuple[DataFrame, list[Column]]":
    """The frame with all values under names of their own, and for each column that is watched why a row lost its value.

    Casts are tried as they were written, which tells a failed one from NULL; an empty text may be NULL.
    """
    from pyspark.sql import functions as F

    types = delivery_types(chosen.payload)
    texts = [n for n, kind in frame.dtypes if kind == "string" and not n.startswith("__")]
    given = {n: F.when(F.trim(F.col(_quoted(n))) != "", F.col(_quoted(n))) for n in texts}
    frame = frame.withColumns({f"__v_{name}": value for name, value in columns.items()} | given)
    checks, lost = {}, []
    for name, (index, found) in watching.items():
        if chosen.on_sail and chosen.strict[index] != chosen.forgiving[index]:
            raise uncast(name)
        kind = types[name]
        value = F.expr(f"struct({chosen.strict[index]})").getField(name)
        sign = F.when(is_lost(value, as_target(value, found, kind), kind), "lost").otherwise("kept")
        checks[f"__w{index}"] = F.try_to_binary(sign, F.lit("utf-8"))
        gone = F.col(f"__w{index}").isNull() | (F.decode(F.col(f"__w{index}"), "utf-8") == "lost")
        lost.append(F.when(gone & ~_is_delete(), F.lit(f"{name} is no {kind}")))
    return frame.withColumns(checks), lost


def _is_delete() -> "Column":
    from pyspark.sql import functions as F

    return F.col("op").eqNullSafe(F.lit("delete"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _defaults(absent: Collection[str], columns: Mapping[str, "Column"]) -> dict[str, "Column"]:
    """What `select` need not give, because what a file lacks follows from the file itself, whenever it is read."""
    from pyspark.sql import functions as F

    made: dict[str, Column] = {}
    if "op" in absent:
        made["op"] = F.lit("upsert")
    if "seq" in absent:
        made["seq"] = number_of(F.col("__sha256"), F.col("__number"))
    if "arrival_ts" in absent:
        made["arrival_ts"] = arrival_of(F.col(FILE))
    if "version_ts" in absent:
        made["version_ts"] = ({**columns, **made})["arrival_ts"]
    return made


def _selected(frame: "DataFrame", chosen: _Chosen) -> dict[str, tuple[int, str]]:
    """Delivery column -> the position of its expression in `select`, and the type that Spark gives it."""
    schema: Any = frame.selectExpr(*(f"struct({e}) AS __d{i}" for i, e in enumerate(chosen.forgiving))).schema
    found = [schema[i].dataType[0] for i in range(len(chosen.forgiving))]
    fields = {f.name: (i, f.dataType.simpleString()) for i, f in enumerate(found)}
    types = delivery_types(chosen.payload)
    missing, extra = sorted(set(types) - set(fields) - HAVE_DEFAULTS), sorted(set(fields) - set(types))
    if missing or extra:
        raise SettingsError(
            "[source] select in lake.toml",
            f"it lacks {missing or 'nothing'} and has {extra or 'nothing'} too many",
            "Nothing was read",
            f"Give exactly these columns: {', '.join(types)}; {', '.join(sorted(HAVE_DEFAULTS))} may be left out",
        )
    return fields


@contextmanager
def quiet(names: Sequence[str] = CONTEXT_LOGGERS) -> Iterator[None]:
    """Keep pyspark from printing errors of this thread's queries that are expected to fail and dealt with; what other
    threads say meanwhile is theirs."""
    from pyspark.logger import PySparkLogger  # whoever asks first for a logger decides its class

    loggers, mine = [PySparkLogger.getLogger(name) for name in names], threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        """Whether another thread says it."""
        return record.thread != mine

    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)
