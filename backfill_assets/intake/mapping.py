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

from backfill_assets.engines.abilities import SHORT_OF_MEMORY, SPARK, Engine
from backfill_assets.intake.casting import (
    OF_SELECT,
    UnfitSelect,
    exact_cast,
    is_lost_in_cast,
    is_misfit,
    packed_value,
    refuse_engine_differences,
    refuse_texts_of_fractions,
    undetected_cast_error,
    undoubted_value,
    unpacked_value,
)
from backfill_assets.intake.select import (
    COMMITTED,
    can_raise,
    default_columns,
    refuse_beyond_the_row,
    select_expressions,
    with_stars_expanded,
)
from backfill_assets.intake.session_free import clock_fault, guarded_text, session_names
from backfill_assets.kernel.core.column_types import ColumnType, quoted_column, read_type
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


def mapped_rows(
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
    forgiving = tuple(with_stars_expanded(e, frame.columns) for e in select_expressions(select))
    strict = tuple(
        with_stars_expanded(e, frame.columns) for e in select_expressions(select, strict=True)
    )
    chosen, lacking = _Chosen(forgiving, strict, tuple(payload), engine), None
    frame = frame.drop(*inexact)
    known = {c.lower() for c in frame.columns}
    # To an engine these are functions where no column is so named.
    absent = [name for name in session_names(forgiving) if name.lower() not in known]
    for _ in range(len(forgiving) * 8):  # an engine's error names one absent column at a time
        column = absent.pop() if absent else _cast_or_absent(frame, chosen, lacking)
        if not isinstance(column, str):
            return column
        cut = _inexact_reason(column, inexact)
        if cut or not absent_is_null:
            lacking = cut or f"the file lacks the column {column}"
        frame = frame.withColumn(column, F.lit(None).cast("string"))
    raise SettingsError(
        OF_SELECT, "it names too many absent columns", "Nothing was read", "Check it"
    )


def _cast_or_absent(
    frame: "DataFrame", chosen: "_Chosen", lacking: str | None
) -> "DataFrame | str":
    """The frame with the delivery columns, and `lacking` as `__lacking`; or the name of a column
    that it lacks. Raises as `mapped_rows` does."""
    from pyspark.sql import functions as F

    try:
        made = _cast_columns(frame, chosen).withColumn("__lacking", F.lit(lacking).cast("string"))
        made.columns  # noqa: B018 - a Connect session analyses only when asked
    except analysis_errors() as error:
        column = absent_column(error)
        if not column:
            raise select_refusal(error, chosen.engine) from None
        return column
    return made


def _inexact_reason(column: str, inexact: Mapping[str, str]) -> str:
    """Why values of the column differ from the landed file's; empty where they do not."""
    for name, why in inexact.items():
        if name.lower() == column.lower():
            return f"{name} {why}"
    return ""


@dataclass(frozen=True)
class _Chosen:
    """The expressions of `select`."""

    forgiving: tuple[str, ...]  # with casts that give NULL
    strict: tuple[str, ...]  # with casts that raise
    payload: tuple[PayloadColumn, ...]
    engine: Engine = SPARK
    # `forgiving` as it is computed, without what the session would decide
    free: tuple[str, ...] = ()
    free_strict: tuple[str, ...] = ()  # `strict` likewise

    def freed(self, types: Mapping[str, str]) -> "_Chosen":
        """Return these over columns of these types. Raises UnfitSelect for what the clock
        decides."""
        for expression in self.forgiving:
            why = clock_fault(expression, types)
            if why:
                raise UnfitSelect(why)
        free = tuple(guarded_text(expression, types) for expression in self.forgiving)
        strict = tuple(guarded_text(expression, types, strict=True) for expression in self.strict)
        return replace(self, free=free, free_strict=strict)

    @property
    def watched(self) -> list[str]:
        """The columns in which NULL has two meanings: the sender's value, or a cast that failed."""
        return [c.name for c in self.payload if c.nullable and c not in DEFAULT_PAYLOAD]

    def needed_by_deletes(self, name: str) -> bool:
        """Whether a delete may not lack the column."""
        return name != "event_ts" and name not in [c.name for c in self.payload]


def session_settings(
    select: str, payload: Sequence[PayloadColumn] = DEFAULT_PAYLOAD
) -> dict[str, str]:
    """Session settings that keep Spark from computing shared expressions ahead, where nothing
    catches their errors; none where no expression can raise."""
    is_default = tuple(payload) == DEFAULT_PAYLOAD
    if is_default and not any(map(can_raise, select_expressions(select))):
        return {}
    return {"spark.sql.subexpressionElimination.enabled": "false"}


def _cast_columns(frame: "DataFrame", chosen: _Chosen) -> "DataFrame":
    """The selected values as the delivery contract's types: NULL where a cast fails, RAISED where
    an expression raises.

    What may raise is evaluated within its own vessel and nowhere else, so that Spark has nothing to
    compute before it.
    """
    from pyspark.sql import functions as F

    found_types = {name.lower(): kind for name, kind in frame.dtypes}
    refuse_texts_of_fractions(chosen.forgiving, found_types)
    refuse_engine_differences(chosen.forgiving, found_types, chosen.engine)
    chosen = chosen.freed(found_types)
    types, selected = delivery_types(chosen.payload), _selected_types(frame, chosen)
    values = {
        name: _cast_value(name, chosen, index, found) for name, (index, found) in selected.items()
    }
    columns = {name: value.column for name, value in values.items()}
    vessels, reasons, doubts = dict[str, "Column"](), list["Column"](), list["Column"]()
    for value in values.values():
        vessels |= value.vessels
        reasons += value.reasons
        doubts += value.doubts
    columns |= default_columns(set(types) - set(columns), columns, COMMITTED in frame.columns)
    made = frame.withColumns(vessels) if vessels else frame
    if doubts:  # before a column of the file gives way to a delivery column of the same name
        made = made.withColumn(DOUBTED, F.concat_ws("; ", *doubts))
        reasons.append(F.when(F.col(DOUBTED) != "", F.col(DOUBTED)))
    watching = {name: place for name, place in selected.items() if name in chosen.watched}
    if watching:
        made, lost = _with_watched_casts(made, chosen, watching, columns)
        columns = {name: F.col(f"__v_{name}") for name in columns}
        reasons += lost
    raised = F.concat_ws("; ", *reasons) if reasons else F.lit("")
    return made.withColumns(columns).withColumn(RAISED, raised)


@dataclass(frozen=True)
class _Value:
    """A delivery column as it is computed."""

    column: "Column"
    vessels: "Mapping[str, Column]"  # what may raise, each under a name of its own
    reasons: "Sequence[Column]"  # why a row has no value: its expression raised
    doubts: "Sequence[Column]"  # why a row has no value: engines may read it in two ways


def _cast_value(name: str, chosen: _Chosen, index: int, found: str) -> _Value:
    """The delivery column that the expression at `index` gives, whose type is `found`. Raises
    UnfitSelect for a type that does not fit."""
    from pyspark.sql import functions as F

    kind = delivery_types(chosen.payload)[name]
    if is_misfit(found, kind):
        raise UnfitSelect(f"{name} must be a {kind.spark}, but select makes it {found[:200]}")
    given = F.expr(f"struct({chosen.free[index]})").getField(name)
    value = exact_cast(given, found, kind)
    value, doubts = undoubted_value(
        name, value, given=given, found=found, kind=kind, engine=chosen.engine
    )
    may_raise = can_raise(chosen.forgiving[index]) or kind.element is not None
    if not (may_raise and chosen.engine.catches_errors):
        return _Value(column=value, vessels={}, reasons=(), doubts=doubts)
    place, reasons = f"__d{index}", list["Column"]()
    if name not in chosen.watched:
        is_needed = F.lit(chosen.needed_by_deletes(name)) | ~_is_delete()
        why = F.lit(f"{name}: select raises an error on this row")
        reasons.append(F.when(F.col(place).isNull() & is_needed, why))
    packed = {place: packed_value(value, kind)}
    return _Value(unpacked_value(F.col(place), value, kind), packed, reasons, doubts)


def _with_watched_casts(
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
    given = {f"__v_{name}": value for name, value in columns.items()}
    for name, type_of_file in frame.dtypes:
        if type_of_file == "string" and not name.startswith("__"):
            text = F.col(quoted_column(name))
            given[name] = F.when(F.trim(text) != "", text)
    frame = frame.withColumns(given)
    checks, lost = {}, []
    for name, (index, found) in watching.items():
        has_cast = chosen.strict[index] != chosen.forgiving[index]
        if has_cast and not chosen.engine.catches_errors:
            raise undetected_cast_error(name, chosen.engine)
        kind = types[name]
        value = F.expr(f"struct({chosen.free_strict[index]})").getField(name)
        sign = F.when(
            is_lost_in_cast(value, exact_cast(value, found, kind), kind), "lost"
        ).otherwise("kept")
        check = f"__w{index}"
        checks[check] = F.try_to_binary(sign, F.lit("utf-8"))
        gone = F.col(check).isNull() | (F.decode(F.col(check), "utf-8") == "lost")
        lost.append(F.when(gone & ~_is_delete(), F.lit(f"{name} is no {kind}")))
    return frame.withColumns(checks), lost


def _is_delete() -> "Column":
    """Whether a row is a delete; false where `op` is NULL."""
    from pyspark.sql import functions as F

    return F.col("op").eqNullSafe(F.lit("delete"))


def _selected_types(frame: "DataFrame", chosen: _Chosen) -> dict[str, tuple[int, str]]:
    """Delivery column -> the position of its expression in `select`, and the type that Spark gives
    it."""
    schema: Any = frame.selectExpr(
        *(f"struct({e}) AS __d{i}" for i, e in enumerate(chosen.forgiving))
    ).schema
    found = [schema[i].dataType[0] for i in range(len(chosen.forgiving))]
    fields = {f.name: (i, f.dataType.simpleString()) for i, f in enumerate(found)}
    types = delivery_types(chosen.payload)
    missing = sorted(set(types) - set(fields) - HAVE_DEFAULTS)
    extra = sorted(set(fields) - set(types))
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
        is_absent = "missing from the schema" in str(error)
        return found[1] if found and is_absent else ""
    if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return ""
    named: str = (error.getMessageParameters() or {}).get("objectName", "")
    return named.strip("`").split("`.`")[0]


def is_select_fault(error: Any) -> bool:
    """Whether the query is at fault, whatever the data."""
    if has_no_condition(error):
        # What else it does not support may lie in the types of one file's columns.
        return type(error).__name__ == "ParseException" or "unknown function" in str(error)
    return (error.getSqlState() or "") in OF_THE_TEXT


def is_data_fault(error: Exception) -> bool:
    """Whether the error speaks of data and types, and not of the machine."""
    if has_no_condition(error):
        return type(error).__name__ in _OF_DATA and not SHORT_OF_MEMORY.search(str(error))
    state = getattr(error, "getSqlState", lambda: None)() or ""
    return bool(state.startswith(OF_THE_DATA))


def select_refusal(error: Exception, engine: Engine = SPARK) -> Exception:
    """UnfitSelect for an error of analysing one schema; SettingsError where `select` fits no
    file."""
    line = str(error).splitlines()[0]
    if not is_select_fault(error):
        return UnfitSelect(line)
    return SettingsError(
        OF_SELECT,
        f"{engine.name} refuses it ({line})",
        "Nothing was read",
        "Correct the expression; it sees the file's columns only",
    )
