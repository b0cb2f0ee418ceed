"""Declarations in lake.toml: features, and a label as a condition over aggregates ahead of a day
and behind it.

Not here: the record of a declared column (`columns`), allowed expressions (`expressions`), finding
the aggregates in the text of a label (`reading.queries`) and the computation (`transforms`).
"""

from collections.abc import Mapping, Sequence
from typing import get_args

from backfill_assets.kernel.core.column_types import DECIMAL, ColumnType, read_type
from backfill_assets.kernel.tables.sections import FeatureColumnSettings
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.pipeline.columns import (
    DeclaredColumn,
    checked_aggregation,
    declaration_error,
    event_types,
)
from backfill_assets.pipeline.expressions import Expression, read_expression
from backfill_assets.pipeline.label_calls import LabelCall, label_calls
from backfill_assets.pipeline.transforms.aggregation import (
    DOUBLE_SCALE,
    Agg,
    Aggregation,
    Reach,
    Value,
    ahead_reach,
    trailing_reach,
)

LABEL = "[labels] label"
BOOLEAN = ColumnType("BOOLEAN")
# As `transforms.measures` gives whole numbers to a condition; holds any sum of them.
EXACT = ColumnType(DECIMAL, 30, 0)
AGGS: dict[str, Agg] = {agg: agg for agg in get_args(Agg) if agg != "days_since_last"}
ADVICE = (
    "Write a condition over aggregates of the horizon, e.g. sum_ahead(total) > 2 * "
    "sum_behind(total)"
)


def declared_features(settings: LakeSettings) -> tuple[DeclaredColumn, ...]:
    """Compile the declared columns of features. Raises SettingsError with the key."""
    known = event_types(settings)
    return tuple(_declared_feature(column, known) for column in settings.features.columns)


def _declared_feature(
    column: FeatureColumnSettings, known: Mapping[str, ColumnType]
) -> DeclaredColumn:
    """The column that an entry of `[[features.columns]]` declares; `known`: the columns of an event
    with their types. Raises SettingsError."""
    key = f"[[features.columns]] {column.name}"
    of_key, where_key = f"{key}: of", f"{key}: where"
    value_read = where = None
    if column.of is not None:
        value_read = read_expression(column.of, known, of_key)
    if column.where is not None:
        where = read_expression(column.where, known, where_key)
        if where.type not in (None, BOOLEAN):
            culprit = f"{where.text} is {where.type}, not BOOLEAN"
            raise declaration_error(where_key, culprit, "Write a condition, e.g. total > 0")
    value = _aggregated_value(value_read, where, of_key, column.scale)
    aggregation = checked_aggregation(
        Aggregation(column.name, column.agg, value, trailing_reach(column.days)), of_key
    )
    return _declared_column(aggregation, value_read, where)


def _declared_column(
    aggregation: Aggregation, value: Expression | None, where: Expression | None = None
) -> DeclaredColumn:
    """The record of a column: the aggregation, its `value` and `where` as written (None: none), and
    the columns that both name."""
    columns = dict[str, None]()
    for expression in (value, where):
        if expression is not None:
            columns |= dict.fromkeys(expression.columns)
    value_text = value.text if value else None
    where_text = where.text if where else None
    return DeclaredColumn(aggregation, value_text, where_text, tuple(columns))


def _aggregated_value(
    value: Expression | None, where: Expression | None, setting: str, scale: int = DOUBLE_SCALE
) -> Value:
    """The `value` to aggregate (None: events), over the events for which `where` is true. A bare
    column stays as it is; any other expression is `try_cast` to the type inferred for it. Raises
    SettingsError, naming `setting`, if none could be."""
    condition = None
    if where is not None:
        condition = where.sql if where.type else f"try_cast({where.sql} AS BOOLEAN)"
    if value is None:
        return Value(where=condition)
    if value.type is None:
        advice = f"Write cast({value.text} AS DECIMAL(18,2)), or so"
        raise declaration_error(setting, f"the type of {value.text} is unknown", advice)
    is_bare_column = value.text.strip("` ") in value.columns
    sql = value.sql if is_bare_column else f"try_cast({value.sql} AS {value.type})"
    own_scale = scale if value.type.kind == "DOUBLE" else DOUBLE_SCALE
    return Value(sql, str(value.type), condition, own_scale)


def declared_label(settings: LakeSettings) -> tuple[tuple[DeclaredColumn, ...], str]:
    """The aggregates of a label, each a column of its own, and the condition over them. Raises
    SettingsError."""
    label = str(settings.labels.label)
    terms, text = _label_terms(label, settings)
    if not terms:
        raise declaration_error(LABEL, f"{label} looks at no event ahead or behind", ADVICE)
    term_types = {t.aggregation.name: condition_type(t) for t in terms}
    # A typing error is more likely in a term's name than in a condition: the payload is named as
    # well.
    condition = read_expression(text, {**event_types(settings), **term_types}, LABEL)
    outside = [c for c in condition.columns if c not in term_types]
    if outside:
        raise declaration_error(
            LABEL, f"{', '.join(outside)} stands outside of an aggregate", ADVICE
        )
    if condition.type not in (None, BOOLEAN):
        raise declaration_error(LABEL, f"{label} is {condition.type}, not BOOLEAN", ADVICE)
    return terms, condition.sql


def condition_type(term: DeclaredColumn) -> ColumnType:
    """The type in which the condition gets a term: whole numbers exactly."""
    kind = read_type(term.aggregation.type)
    return EXACT if kind.kind in ("INT", "BIGINT") else kind


def _label_terms(label: str, settings: LakeSettings) -> tuple[tuple[DeclaredColumn, ...], str]:
    """The aggregates, one column for each different one, and the text with column names in their
    place."""
    known, condition, done = event_types(settings), "", 0
    found: dict[tuple[str, str, str], DeclaredColumn] = {}
    for call in _aggregate_calls(label):
        value = _call_argument(call, known)
        key = (call.agg, call.side, value.text.strip() if value else "")
        if key not in found:
            taken = [term.aggregation.name for term in found.values()]
            found[key] = _label_term(call, value, settings, taken)
        condition += label[done : call.start] + found[key].aggregation.name
        done = call.end  # as far as the label's text is in the condition
    return tuple(found.values()), condition + label[done:]


def _call_argument(call: LabelCall, known: Mapping[str, ColumnType]) -> Expression | None:
    """What a call is of; None of a count of events, which alone may be of nothing."""
    if call.of.strip(" *"):
        return read_expression(call.of, known, LABEL)
    if call.agg != "count":
        name = f"{call.agg}_{call.side}"
        advice = f"Write {name}(…) of a column, or count_{call.side}()"
        raise declaration_error(LABEL, f"{name}() is of nothing", advice)
    return None


def _label_term(
    call: LabelCall, value: Expression | None, settings: LakeSettings, taken: list[str]
) -> DeclaredColumn:
    """The column of a call of a label, over the horizon on its side of the day; its name is none of
    those `taken` and none of the entity's columns."""
    horizon = settings.labels.horizon_days
    reach: Reach = ahead_reach(horizon) if call.side == "ahead" else trailing_reach(horizon)
    base, used = f"{call.agg}_{call.side}", {*taken, *settings.features.entity}
    name, number = base, 2
    while name in used:
        name, number = f"{base}_{number}", number + 1
    aggregated = _aggregated_value(value, where=None, setting=LABEL)
    aggregation = Aggregation(name, AGGS[call.agg], aggregated, reach)
    return _declared_column(checked_aggregation(aggregation, LABEL), value)


def _aggregate_calls(label: str) -> Sequence[LabelCall]:
    """The calls of known aggregates; other calls stay in the text, where the check of the condition
    refuses them."""
    try:
        return [call for call in label_calls(label) if call.agg in AGGS]
    except ValueError as error:
        raise declaration_error(LABEL, str(error), ADVICE) from None
