"""The contracts of declared features and labels, for entities of one column or several.

Lives here: what these tables promise. Does not live here: the contracts of a lake that declares nothing (`contracts`),
and how a column is told (`declared`).
"""

from collections.abc import Sequence
from dataclasses import replace

from backfill_assets.core.contracts import Basis, Column, Contract, Input, Rule
from backfill_assets.core.cuts import matures_after
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.contracts import DAYS, KEY, LABEL_RULES, MEASURE, STAGING
from backfill_assets.pipeline.declared import Declared

Columns = Sequence[Declared]


def features(settings: LakeSettings, columns: Columns, staging: str = STAGING, *, known: bool) -> Contract:
    """The declared columns as known now, or (`known`) as known at the cut of the day."""
    now = "Declared windows over staging as known now. Late data restates them: for training use features_as_known."
    then = "The same windows as known at the cut: midnight after the day, plus grace. Later arrivals never change them."
    longest = max(c.aggregation.reach.days for c in columns)
    return Contract(
        "features_as_known" if known else "features",
        then if known else now,
        feature_columns(settings, columns, staging),
        "feature_date",
        settings.features.entity,
        (Input(staging, before=longest - 1, basis=Basis.KNOWN_AT_CUT if known else Basis.CONTENT),),
        waits_for_cut=known,
        rules=feature_rules(columns),
    )


def labels(settings: LakeSettings, terms: Columns, staging: str = STAGING) -> Contract:
    """What the label looks at over the horizon, and the label, for the entities of features_as_known."""
    horizon = settings.labels.horizon_days
    said = settings.labels.label or "the rule of [labels]"
    state = "mature once the horizon and the maturity days have passed, else provisional"
    return Contract(
        "labels",
        "The outcome over the horizon (d, d + horizon] as known now, for the entities of features_as_known.",
        (
            *_entity(settings, "whom the label belongs to", "features_as_known"),
            *(t.column(tags=MEASURE, made_from=staging) for t in terms),
            Column("label", "INT", f"1 if {said}, else 0", made_from=_origins(terms, staging)),
            Column("label_state", "STRING", state),
            Column("label_date", "DATE", "the day the label belongs to"),
        ),
        "label_date",
        settings.features.entity,
        (Input(staging, before=horizon - 1, after=horizon), Input("features_as_known")),
        waits_for_cut=True,
        matures_after_days=matures_after(horizon, settings.labels.maturity_days),
        rules=LABEL_RULES,
    )


def training(settings: LakeSettings, columns: Sequence[Column], rules: Sequence[Rule]) -> Contract:
    """The columns of features_as_known, joined to mature labels; `rules` are those of its rows."""
    horizon, maturity = settings.labels.horizon_days, settings.labels.maturity_days
    return Contract(
        "training",
        "What a model may learn from: features as known at the cut, joined to mature labels only.",
        (
            *(_carried(c) for c in columns),
            Column("label", "INT", "the mature label: 0 or 1", made_from=("labels.label",)),
        ),
        "feature_date",
        settings.features.entity,
        (Input("features_as_known"), Input("labels")),
        waits_for_cut=True,
        matures_after_days=matures_after(horizon, maturity),
        rules=(*rules, LABEL_RULES[0]),
    )


def _carried(column: Column) -> Column:
    origin = () if column.name == "feature_date" else (f"features_as_known.{column.name}",)
    return replace(column, made_from=origin)


def feature_columns(settings: LakeSettings, columns: Columns, staging: str) -> tuple[Column, ...]:
    """Entity, declared columns, day."""
    return (
        *_entity(settings, "whom the features describe", staging),
        *(
            c.column(tags=DAYS if c.aggregation.agg == "days_since_last" else MEASURE, made_from=staging)
            for c in columns
        ),
        Column("feature_date", "DATE", "the day the features describe"),
    )


def feature_rules(columns: Columns) -> tuple[Rule, ...]:
    """What is true of declared columns by how they are made."""
    rules = []
    for made in (c.aggregation for c in columns):
        name = f"`{made.name}`"
        if made.agg in ("count", "distinct"):
            rules.append(Rule(f"{made.name}_is_no_less_than_0", f"{name} >= 0", "it counts"))
        if made.agg == "days_since_last":
            least, most = made.reach.first, made.reach.last
            inside = f"{name} BETWEEN {least} AND {most}"
            rules.append(Rule(f"{made.name}_is_in_window", inside, "the newest event is in the window"))
    return tuple(rules)


def _entity(settings: LakeSettings, meaning: str, table: str) -> tuple[Column, ...]:
    types = {c.name: c.type for c in settings.source.payload_columns}
    names = settings.features.entity
    said = meaning if len(names) == 1 else f"{meaning}, together with {{}}"
    return tuple(
        Column(n, types[n], said.format(", ".join(o for o in names if o != n)), tags=KEY, made_from=(f"{table}.{n}",))
        for n in names
    )


def _origins(terms: Columns, staging: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{staging}.{column}" for t in terms for column in t.columns))
