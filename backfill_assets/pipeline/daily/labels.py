"""labels: the outcome over the days after each day, for the entities of features_as_known,
provisional until mature.

Not here: reading the expression of a declared label (`pipeline.declared`).
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.contracts import Column, Contract, Input, Rule
from backfill_assets.kernel.core.days import matures_after
from backfill_assets.kernel.core.engines import DeclaredExpression
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Frames, Table
from backfill_assets.pipeline.columns import (
    MADE_BY,
    SEQUENCE,
    Aggregates,
    Declared,
    checked,
    declares_nothing,
    event_types,
    refused,
)
from backfill_assets.pipeline.daily.staging import staging
from backfill_assets.pipeline.transforms.aggregation import (
    RULES,
    Agg,
    Aggregation,
    Outcome,
    Value,
    ahead,
    trailing,
)
from backfill_assets.pipeline.transforms.queries import flips

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
    section, decided = settings.labels, list[DeclaredExpression]()
    if section.label is None:
        where, (declared, condition) = (
            f'[labels] measure = "{section.measure}"',
            label_from_rule(settings),
        )
    else:
        from backfill_assets.pipeline.declared import (
            decided_by,
            declared_label,
        )  # its parser is slow to import

        where, (declared, condition) = "[labels] label", declared_label(settings)
        decided = [
            DeclaredExpression(
                where, condition, {t.aggregation.name: str(decided_by(t)) for t in declared}
            )
        ]
    terms = Aggregates(settings, staging(settings, source).contract, declared, built_in)
    contract = _contract(terms, known)
    outcome = Outcome(
        terms.aggregations, condition, matures_after(section.horizon_days, section.maturity_days)
    )
    reaching: dict[str, Any] = section.model_dump(include={"horizon_days", "maturity_days"})
    if built_in:
        reaching |= {"measure": section.measure, "rule": section.rule}
    else:
        reaching |= {
            "entity": list(terms.entity),
            "terms": [t.settings for t in declared],
            "condition": condition,
        }

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import labels

        inputs, finer = (
            (frames[terms.staging.name], frames[known.name]),
            settings.features.by_day_first,
        )
        return labels(inputs, chunk.days, terms.entity, outcome, chunk.frontier, by_day_first=finer)

    return Table(
        contract,
        transform,
        reaching,
        (*MADE_BY, "backfill_assets.kernel.core.days"),
        revisions=partial(flips, entity=terms.entity),
        counts_alike=True,
        compiled={**terms.compiled, "label": condition} if terms.compiled else {},
        expressions=(*(e for t in declared for e in terms.expressions(t, where)), *decided),
        code_version=terms.version("labels"),
    )


def _contract(terms: Aggregates, known: Contract) -> Contract:
    settings, entity, events = terms.settings, terms.entity, terms.staging.name
    section, every_feature = settings.labels, terms.built_in and not settings.features.columns
    looked_at = tuple(
        dict.fromkeys(f"{events}.{column}" for t in terms.declared for column in t.columns)
    )
    return Contract(
        "labels",
        "The outcome over the horizon (d, d + horizon] as known now, for the entities of "
        "features_as_known.",
        columns=(
            *terms.entity_columns("whom the label belongs to", known.name),
            *(t.column(events, nullable=True if terms.built_in else None) for t in terms.declared),
            Column(
                "label",
                "INT",
                f"1 if {section.label or 'the rule of [labels]'}, else 0",
                made_from=looked_at,
            ),
            Column(
                "label_state",
                "STRING",
                "mature once horizon and maturity end, else provisional",
                tags=SEQUENCE,
            ),
            Column("label_date", "DATE", "the day the label belongs to"),
        ),
        day_column="label_date",
        key=entity,
        inputs=(
            Input(
                events,
                before=section.horizon_days - 1,
                after=section.horizon_days,
                columns=terms.read(c.name for c in DEFAULT_PAYLOAD)
                if terms.built_in
                else terms.columns_read,
                **settings.features.grouping,
            ),
            Input(known.name, columns=None if every_feature else (*entity, known.day_column)),
        ),
        waits_for_cut=True,
        matures_after_days=matures_after(section.horizon_days, section.maturity_days),
        rules=(IS_0_OR_1, STATE_IS_KNOWN),
    )


def label_from_rule(settings: LakeSettings) -> tuple[tuple[Declared, ...], str]:
    """The two aggregates of a label by measure and rule, and its condition. Raises
    SettingsError."""
    section, known = settings.labels, event_types(settings)
    where = f'[labels] measure = "{section.measure}"'
    columns = tuple(name for name in known if name.lower() == section.measure != "events")
    if not columns and section.measure != "events":
        advice = f"Name columns of the payload: {', '.join(known)}"
        raise refused(where, f"there is no column {section.measure}", advice)
    agg: Agg = "sum" if columns else "count"
    value = Value(section.measure, str(known[columns[0]])) if columns else Value()
    sides = {"forward": ahead(section.horizon_days), "backward": trailing(section.horizon_days)}
    terms = (checked(Aggregation(name, agg, value, reach), where) for name, reach in sides.items())
    return tuple(Declared(term, value.of, None, columns) for term in terms), RULES[section.rule]
