"""`[source] select` applied to the rows of files of one schema: each row gets its delivery columns,
or why it has none.

Also an engine's errors over landed rows: Spark gives conditions and SQL states; an engine without
them, kinds and words. Not here: reading and casting the expressions (`select`), the rules of usable
rows (`intake.deliveries`), and whether the engine is gone (`engines.loss`). Under ANSI rules `value
* 1` raises over `n/a` and would end the query over all files. So Spark evaluates what can raise as
written, inside `try_to_binary`, which gives NULL on any error: that row is set aside, and no other
value is changed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from backfill_assets.intake.casting import (
    OF_SELECT,
    UnfitSelect,
    as_target,
    is_lost,
    misfit,
    refuse_differing,
    refuse_texts_of_fractions,
    uncast,
    unpacked,
    vessel,
    without_doubt,
)
from backfill_assets.intake.select import (
    COMMITTED,
    can_raise,
    defaults,
    expressions,
    refuse_beyond_the_row,
    spelled_out,
)
from backfill_assets.intake.session_free import fault, freed, session_names
from backfill_assets.kernel.core.column_types import ColumnType, read_type, sparks_name
from backfill_assets.kernel.core.engines import SHORT_OF_MEMORY, SPARK, Engine
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, MACHINERY, PayloadColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RAISED = "__raised"
DOUBTED = "__doubted"
HAVE_DEFAULTS = frozenset(["op", "seq", "arrival_ts", "version_ts"])
# The text of `select` is wrong, whatever the files are: syntax, functions and their arguments.
OF_THE_TEXT = ("42601", "42883", "42605", "42803")
# Classes of SQL states of data and types: data exceptions, what Spark cannot analyse or does not
# support, or decode.
OF_THE_DATA = ("22", "42", "0A", "KD")
_ABSENT = re.compile(r'attribute ObjectName\(\[Identifier\("((?:[^"\\]|\\.)*)"\)')
_OF_DATA = frozenset(
    {
        "ParseException",
        "UnsupportedOperationException",
        "IllegalArgumentException",
        "AnalysisException",
        "ArithmeticException",
        "ArrayIndexOutOfBoundsException",
        "DateTimeException",
        "NumberFormatException",
        "SparkRuntimeException",
    }
)


def delivery_types(payload: Iterable[PayloadColumn]) -> dict[str, ColumnType]:
    """The columns of a delivery in raw's order, with their types: what the machinery needs, then
    its payload."""
    own = {name: read_type(kind) for name, kind in MACHINERY.items()}
    return own | {c.name: read_type(c.type) for c in payload}


def mapped(
    frame: "DataFrame",
    select: str,
    absent_is_null: bool,
    inexact: Mapping[str, str],
    payload: Sequence[PayloadColumn] = DEFAULT_PAYLOAD,
    engine: Engine = SPARK,
) -> "DataFrame":
    """The frame with the delivery columns, `__lacking` (why no row has one of them, else NULL), and
    RAISED: the columns whose expression raised on this row or whose value was lost in a cast, else
    the empty text.

    A column that the files lack is NULL (`absent_is_null`) or the reason; so is one of `inexact`
    (name -> why). The frame has ORIGIN and ROW, and FILE where `select` names it. Raises
    UnfitSelect, and SettingsError where the expressions fit no file or are known to differ on
    `engine`.
    """
    from pyspark.sql import functions as F

    refuse_beyond_the_row(select)
    lists = (expressions(select, strict) for strict in (False, True))
    forgiving, strict = (tuple(spelled_out(e, frame.columns) for e in listed) for listed in lists)
    chosen, lacking = _Chosen(forgiving, strict, tuple(payload), engine), None
    frame = frame.drop(*inexact)
    known = {c.lower() for c in frame.columns}
    functions = [
        n for n in session_names(chosen.forgiving) if n.lower() not in known
    ]  # to an engine, where no column is so named
    for _ in range(len(chosen.forgiving) * 8):
        column = functions.pop() if functions else ""
        try:
            if not column:
                made = _cast(frame, chosen).withColumn("__lacking", F.lit(lacking).cast("string"))
                made.columns  # noqa: B018 - a Connect session analyses only when asked
                return made
        except analysis_errors() as error:
            column = absent_column(error)
            if not column:
                raise refusal(error, engine) from None
        cut = next(
            (f"{name} {why}" for name, why in inexact.items() if name.lower() == column.lower()),
            None,
        )
        if cut or not absent_is_null:
            lacking = cut or f"the file lacks the column {column}"
        frame = frame.withColumn(column, F.lit(None).cast("string"))
    raise SettingsError(
        OF_SELECT, "it names too many absent columns", "Nothing was read", "Check it"
    )


@dataclass(frozen=True)
class _Chosen:
    """The expressions of `select`."""

    forgiving: tuple[str, ...]  # with casts that give NULL
    strict: tuple[str, ...]  # with casts that raise
    payload: tuple[PayloadColumn, ...]
    engine: Engine = SPARK
    free: tuple[
        str, ...
    ] = ()  # `forgiving` as it is computed, without what the session would decide
    free_strict: tuple[str, ...] = ()  # `strict` likewise

    def freed(self, types: Mapping[str, str]) -> "_Chosen":
        """Return these over columns of these types. Raises UnfitSelect for what the clock
        decides."""
        if why := next(filter(None, (fault(e, types) for e in self.forgiving)), ""):
            raise UnfitSelect(why)
        free, strict = (
            tuple(freed(e, types, s) for e in es)
            for es, s in ((self.forgiving, False), (self.strict, True))
        )
        return replace(self, free=free, free_strict=strict)

    @property
    def watched(self) -> list[str]:
        """The columns in which NULL has two meanings: the sender's value, or a cast that failed."""
        return [c.name for c in self.payload if c.nullable and c not in DEFAULT_PAYLOAD]

    def needed_by_deletes(self, name: str) -> bool:
        """Whether a delete may not lack the column."""
        return name != "event_ts" and name not in [c.name for c in self.payload]


def settings_for(select: str, payload: Sequence[PayloadColumn] = DEFAULT_PAYLOAD) -> dict[str, str]:
    """Session settings that keep Spark from computing shared expressions ahead, where nothing
    catches their errors; none where no expression can raise."""
    may_raise = tuple(payload) != DEFAULT_PAYLOAD or any(map(can_raise, expressions(select)))
    return {"spark.sql.subexpressionElimination.enabled": "false"} if may_raise else {}


def _cast(frame: "DataFrame", chosen: _Chosen) -> "DataFrame":
    """The selected values as the delivery contract's types: NULL where a cast fails, RAISED where
    an expression raises.

    What may raise is evaluated within its own vessel and nowhere else, so that Spark has nothing to
    compute before it.
    """
    from pyspark.sql import functions as F

    found_types = {name.lower(): kind for name, kind in frame.dtypes}
    refuse_texts_of_fractions(chosen.forgiving, found_types)
    refuse_differing(chosen.forgiving, found_types, chosen.engine)
    chosen = chosen.freed(found_types)
    types, selected = delivery_types(chosen.payload), _selected(frame, chosen)
    columns, vessels, told, doubted = dict[str, "Column"](), dict[str, "Column"](), [], []
    for name, (index, found) in selected.items():
        kind, place, text = types[name], f"__d{index}", chosen.forgiving[index]
        if misfit(found, kind):
            raise UnfitSelect(f"{name} must be a {kind.spark}, but select makes it {found[:200]}")
        given = F.expr(f"struct({chosen.free[index]})").getField(name)
        value = as_target(given, found, kind)
        value, reasons = without_doubt(name, value, given, found, kind, chosen.engine)
        doubted += reasons
        if (can_raise(text) or kind.element is not None) and chosen.engine.catches_errors:
            vessels[place], value = vessel(value, kind), unpacked(F.col(place), value, kind)
            if name not in chosen.watched:
                raised = F.col(place).isNull() & (
                    F.lit(chosen.needed_by_deletes(name)) | ~_is_delete()
                )
                told.append(F.when(raised, F.lit(f"{name}: select raises an error on this row")))
        columns[name] = value
    columns |= defaults(set(types) - set(columns), columns, COMMITTED in frame.columns)
    made = frame.withColumns(vessels) if vessels else frame
    if doubted:  # before a column of the file gives way to a delivery column of the same name
        made = made.withColumn(DOUBTED, F.concat_ws("; ", *doubted))
        told.append(F.when(F.col(DOUBTED) != "", F.col(DOUBTED)))
    watching = {n: s for n, s in selected.items() if n in chosen.watched}
    if watching:
        made, lost = _watched(made, chosen, watching, columns)
        columns = {name: F.col(f"__v_{name}") for name in columns}
        told += lost
    return made.withColumns(columns).withColumn(
        RAISED, F.concat_ws("; ", *told) if told else F.lit("")
    )


def _watched(
    frame: "DataFrame",
    chosen: _Chosen,
    watching: Mapping[str, tuple[int, str]],
    columns: Mapping[str, "Column"],
) -> "tuple[DataFrame, list[Column]]":
    """The frame with all values under names of their own, and for each watched column why a row
    lost its value.

    Casts are tried as they were written, which tells a failed one from NULL; an empty text may be
    NULL.
    """
    from pyspark.sql import functions as F

    types = delivery_types(chosen.payload)
    texts = [n for n, kind in frame.dtypes if kind == "string" and not n.startswith("__")]
    given = {n: F.when(F.trim(F.col(sparks_name(n))) != "", F.col(sparks_name(n))) for n in texts}
    frame = frame.withColumns({f"__v_{name}": value for name, value in columns.items()} | given)
    checks, lost = {}, []
    for name, (index, found) in watching.items():
        if not chosen.engine.catches_errors and chosen.strict[index] != chosen.forgiving[index]:
            raise uncast(name, chosen.engine)
        kind = types[name]
        value = F.expr(f"struct({chosen.free_strict[index]})").getField(name)
        sign = F.when(is_lost(value, as_target(value, found, kind), kind), "lost").otherwise("kept")
        checks[f"__w{index}"] = F.try_to_binary(sign, F.lit("utf-8"))
        gone = F.col(f"__w{index}").isNull() | (F.decode(F.col(f"__w{index}"), "utf-8") == "lost")
        lost.append(F.when(gone & ~_is_delete(), F.lit(f"{name} is no {kind}")))
    return frame.withColumns(checks), lost


def _is_delete() -> "Column":
    from pyspark.sql import functions as F

    return F.col("op").eqNullSafe(F.lit("delete"))


def _selected(frame: "DataFrame", chosen: _Chosen) -> dict[str, tuple[int, str]]:
    """Delivery column -> the position of its expression in `select`, and the type that Spark gives
    it."""
    schema: Any = frame.selectExpr(
        *(f"struct({e}) AS __d{i}" for i, e in enumerate(chosen.forgiving))
    ).schema
    found = [schema[i].dataType[0] for i in range(len(chosen.forgiving))]
    fields = {f.name: (i, f.dataType.simpleString()) for i, f in enumerate(found)}
    types = delivery_types(chosen.payload)
    missing, extra = (
        sorted(set(types) - set(fields) - HAVE_DEFAULTS),
        sorted(set(fields) - set(types)),
    )
    if missing or extra:
        raise SettingsError(
            OF_SELECT,
            f"it lacks {missing or 'nothing'} and has {extra or 'nothing'} too many",
            "Nothing was read",
            f"Give exactly these columns: {', '.join(types)}; {', '.join(sorted(HAVE_DEFAULTS))} "
            "may be left out",
        )
    return fields


def analysis_errors() -> tuple[type[Exception], ...]:
    """The kinds that an engine raises over a query that it cannot analyse."""
    from pyspark.errors import (
        AnalysisException,
        IllegalArgumentException,
        UnsupportedOperationException,
    )

    return AnalysisException, IllegalArgumentException, UnsupportedOperationException


def has_no_condition(error: Any) -> bool:
    """Whether the error is of another engine than Spark, whose errors name a condition."""
    return getattr(error, "getCondition", lambda: "")() is None


def absent_column(error: Any) -> str:
    """The column, as the query spells it, that the error calls absent; empty for any other
    error."""
    if has_no_condition(error):
        found = _ABSENT.search(str(error))
        return found[1] if found and "missing from the schema" in str(error) else ""
    told = (error.getMessageParameters() or {}).get("objectName", "").strip("`").split("`.`")[0]
    return told if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN") else ""


def is_of_the_text(error: Any) -> bool:
    """Whether the query is at fault, whatever the data."""
    if has_no_condition(error):
        # What else it does not support may lie in the types of one file's columns.
        return type(error).__name__ == "ParseException" or "unknown function" in str(error)
    return (error.getSqlState() or "") in OF_THE_TEXT


def is_of_the_data(error: Exception) -> bool:
    """Whether the error speaks of data and types, and not of the machine."""
    if has_no_condition(error):
        return type(error).__name__ in _OF_DATA and not SHORT_OF_MEMORY.search(str(error))
    state = getattr(error, "getSqlState", lambda: None)() or ""
    return bool(state.startswith(OF_THE_DATA))


def refusal(error: Exception, engine: Engine = SPARK) -> Exception:
    """UnfitSelect for an error of analysing one schema; SettingsError where `select` fits no
    file."""
    line = str(error).splitlines()[0]
    if not is_of_the_text(error):
        return UnfitSelect(line)
    return SettingsError(
        OF_SELECT,
        f"{engine.name} refuses it ({line})",
        "Nothing was read",
        "Correct the expression; it sees the file's columns only",
    )
