"""labels: the outcome over the days after each day, for the entities of features_as_known,
provisional until mature.

Not here: reading the expression of a declared label (`pipeline.declared`).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_assets.kernel.core.contracts import Column, Contract, Input, Rule
from backfill_assets.kernel.core.days import days_until_mature
from backfill_assets.kernel.core.engines import DeclaredExpression
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Frames, Table
from backfill_assets.pipeline.columns import (
    MADE_BY,
    SEQUENCE,
    Aggregates,
    DeclaredColumn,
    checked_aggregation,
    declaration_error,
    declares_nothing,
    event_types,
)
from backfill_assets.pipeline.daily.staging import staging
from backfill_assets.pipeline.transforms.aggregation import (
    RULES,
    Agg,
    Aggregation,
    Outcome,
    Value,
    ahead_reach,
    trailing_reach,
)
from backfill_assets.pipeline.transforms.queries import label_flips_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# True by how rows are made: they tell a changed transform that no longer makes them so, before
# anything is written.
IS_0_OR_1 = Rule(
    "label_is_0_or_1", "label IN (0, 1)", "a label is the outcome of a yes-or-no question"
)
STATE_IS_KNOWN = Rule(
    "state_is_known", "label_state IN ('mature', 'provisional')", "a label is mature or provisional"
)


def labels(settings: LakeSettings, known: Contract) -> Table:
    """One row per row of `known` (features_as_known). Raises SettingsError for a faulty
    expression."""
    source, built_in = settings.source_of("labels"), declares_nothing(settings, "labels")
    settings = settings.of_source(source)
    section = settings.labels
    condition = _declared_condition(settings)
    terms = Aggregates(settings, staging(settings, source).contract, condition.terms, built_in)
    outcome = Outcome(
        terms.aggregations,
        condition.sql,
        days_until_mature(section.horizon_days, section.maturity_days),
    )

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        """The labels of a chunk's days, mature ones by the chunk's frontier."""
        from backfill_assets.pipeline.transforms.declared import label_rows

        inputs = frames[terms.staging.name], frames[known.name]
        finer = settings.features.by_day_first
        return label_rows(
            inputs, chunk.days, terms.entity, outcome, chunk.frontier, by_day_first=finer
        )

    expressions = list[DeclaredExpression]()
    for term in condition.terms:
        expressions += terms.expressions(term, condition.where)
    expressions += condition.expressions
    return Table(
        _labels_contract(terms, known),
        transform,
        settings=_reaching_settings(terms, condition.sql),
        sources=(*MADE_BY, "backfill_assets.kernel.core.days"),
        revisions=partial(label_flips_query, entity=terms.entity),
        counts_alike=True,
        compiled={**terms.compiled, "label": condition.sql} if terms.compiled else {},
        expressions=tuple(expressions),
        code_version=terms.version("labels"),
    )


class _Condition(NamedTuple):
    """What decides a label."""

    terms: tuple[DeclaredColumn, ...]  # aggregates ahead of the day and behind it
    sql: str  # the condition over them
    where: str  # `lake.toml` declares it
    expressions: Sequence[DeclaredExpression] = ()  # the condition, where a person wrote it


def _declared_condition(settings: LakeSettings) -> _Condition:
    """The condition of `[labels] label`, or of a measure and a rule. Raises SettingsError."""
    if settings.labels.label is None:
        terms, sql = label_from_rule(settings)
        return _Condition(terms, sql, f'[labels] measure = "{settings.labels.measure}"')
    # its parser is slow to import
    from backfill_assets.pipeline.declared import (
        condition_type,
        declared_label,
    )

    where, (terms, sql) = "[labels] label", declared_label(settings)
    types = {term.aggregation.name: str(condition_type(term)) for term in terms}
    return _Condition(terms, sql, where, [DeclaredExpression(where, sql, types)])


def _reaching_settings(terms: Aggregates, condition: str) -> dict[str, Any]:
    """The settings that reach the rows."""
    section = terms.settings.labels
    reaching: dict[str, Any] = section.model_dump(include={"horizon_days", "maturity_days"})
    if terms.built_in:
        return reaching | {"measure": section.measure, "rule": section.rule}
    of_terms = [term.settings for term in terms.declared]
    return reaching | {"entity": list(terms.entity), "terms": of_terms, "condition": condition}


def _labels_contract(terms: Aggregates, known: Contract) -> Contract:
    """The contract of labels with these terms, for the rows of `known`."""
    section, events = terms.settings.labels, terms.staging.name
    declared = (
        term.column(events, nullable=True if terms.built_in else None) for term in terms.declared
    )
    return Contract(
        "labels",
        "The outcome over the horizon (d, d + horizon] as known now, for the entities of "
        "features_as_known.",
        columns=(
            *terms.entity_columns("whom the label belongs to", known.name),
            *declared,
            *_label_columns(terms),
        ),
        day_column="label_date",
        key=terms.entity,
        inputs=_label_inputs(terms, known),
        waits_for_cut=True,
        matures_after_days=days_until_mature(section.horizon_days, section.maturity_days),
        rules=(IS_0_OR_1, STATE_IS_KNOWN),
    )


def _label_columns(terms: Aggregates) -> tuple[Column, ...]:
    """The label, whether it is mature, and its day."""
    condition, events = terms.settings.labels.label or "the rule of [labels]", terms.staging.name
    looked_at = [f"{events}.{column}" for term in terms.declared for column in term.columns]
    return (
        Column("label", "INT", f"1 if {condition}, else 0", made_from=(*dict.fromkeys(looked_at),)),
        Column(
            "label_state",
            "STRING",
            "mature once horizon and maturity end, else provisional",
            tags=SEQUENCE,
        ),
        Column("label_date", "DATE", "the day the label belongs to"),
    )


def _label_inputs(terms: Aggregates, known: Contract) -> tuple[Input, Input]:
    """The events on both sides of a day, and the rows of `known` for which there is a label."""
    settings, horizon = terms.settings, terms.settings.labels.horizon_days
    reads_every_feature = terms.built_in and not settings.features.columns
    payload = (column.name for column in DEFAULT_PAYLOAD)
    events = Input(
        terms.staging.name,
        before=horizon - 1,
        after=horizon,
        columns=terms.read(payload) if terms.built_in else terms.columns_read,
        **settings.features.grouping,
    )
    asked = None if reads_every_feature else (*terms.entity, known.day_column)
    return events, Input(known.name, columns=asked)


def label_from_rule(settings: LakeSettings) -> tuple[tuple[DeclaredColumn, ...], str]:
    """The two aggregates of a label by measure and rule, and its condition. Raises
    SettingsError."""
    section, known = settings.labels, event_types(settings)
    where = f'[labels] measure = "{section.measure}"'
    columns = tuple[str, ...]()  # the one that is measured; none where events are counted
    if section.measure != "events":
        columns = tuple(name for name in known if name.lower() == section.measure)
    if not columns and section.measure != "events":
        advice = f"Name columns of the payload: {', '.join(known)}"
        raise declaration_error(where, f"there is no column {section.measure}", advice)
    agg: Agg = "sum" if columns else "count"
    value = Value(section.measure, str(known[columns[0]])) if columns else Value()
    sides = {
        "forward": ahead_reach(section.horizon_days),
        "backward": trailing_reach(section.horizon_days),
    }
    terms = (
        checked_aggregation(Aggregation(name, agg, value, reach), where)
        for name, reach in sides.items()
    )
    declared = (DeclaredColumn(term, value.of, where=None, columns=columns) for term in terms)
    return tuple(declared), RULES[section.rule]
