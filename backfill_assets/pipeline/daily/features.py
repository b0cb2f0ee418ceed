"""features: aggregates over the events of the days up to each day, as they are known now.

Not here: the same as known at each day's cut (`features_as_known`), and reading declarations
(`pipeline.declared`).
"""

from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.contracts import Column, Contract, Input, Rule
from backfill_assets.kernel.core.engines import DeclaredExpression
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Frames, Table
from backfill_assets.pipeline.columns import (
    ENTITY,
    MADE_BY,
    Aggregates,
    DeclaredColumn,
    declares_nothing,
)
from backfill_assets.pipeline.daily.staging import staging
from backfill_assets.pipeline.transforms.aggregation import Aggregation, built_in_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# True by how rows are made: it tells a changed transform that no longer makes them so, before
# anything is written.
HAS_EVENTS = Rule(
    "has_events", "events_long >= 1", "there is a row only where the long window holds an event"
)


def declared_windows(settings: LakeSettings) -> Aggregates:
    """The columns of features: `[[features.columns]]`, or else the built-in ones. Raises
    SettingsError for a faulty expression, and for a payload that lacks columns of the built-in
    ones."""
    source, built_in = settings.source_of("features"), declares_nothing(settings, "features")
    settings = settings.of_source(source)
    if settings.features.columns:
        # its parser is slow to import
        from backfill_assets.pipeline.declared import (
            declared_features,
        )

        columns = declared_features(settings)
    else:
        _refuse_lacking_columns(settings)
        built = built_in_columns(settings.features.windows_days)
        columns = tuple(_built_in_column(aggregation) for aggregation in built)
    return Aggregates(settings, staging(settings, source).contract, columns, built_in)


def _built_in_column(aggregation: Aggregation) -> DeclaredColumn:
    """The record of a built-in column, whose value is a column of the payload or the event."""
    value = aggregation.value.of
    columns = (value,) if value else ()
    return DeclaredColumn(aggregation, of=value, where=None, columns=columns)


def features(windows: Aggregates) -> Table:
    """One row per entity and day with an event in the longest of `windows`."""
    settings, entity, events = windows.settings.features, windows.entity, windows.staging.name

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        """The features of a chunk's days, as known now."""
        from backfill_assets.pipeline.transforms.declared import features_now

        found, finer = windows.aggregations, settings.by_day_first
        return features_now(frames[events], chunk.days, entity, found, by_day_first=finer)

    expressions = list[DeclaredExpression]()
    for column in windows.declared:
        where = f"[[features.columns]] {column.aggregation.name}"
        expressions += windows.expressions(column, where)
    return Table(
        _features_contract(windows),
        transform,
        settings=_reaching_settings(windows),
        sources=MADE_BY,
        code_version=windows.version("features"),
        compiled=windows.compiled,
        expressions=tuple(expressions),
    )


def _features_contract(windows: Aggregates) -> Contract:
    """The contract of features with these columns; staging is read as far back as the longest
    window reaches."""
    events, section = windows.staging.name, windows.settings.features
    longest = max(c.aggregation.reach.days for c in windows.declared)
    declared = (c.column(events, nullable=_is_nullable(c, windows)) for c in windows.declared)
    rules = [rule for column in windows.declared for rule in column.rules]
    read = Input(events, before=longest - 1, columns=windows.columns_read, **section.grouping)
    return Contract(
        "features",
        "Windows over staging as known now. Late data restates them: for training use "
        "features_as_known.",
        columns=(
            *windows.entity_columns("whom the features describe", events),
            *declared,
            Column("feature_date", "DATE", "the day the features describe"),
        ),
        day_column="feature_date",
        key=windows.entity,
        inputs=(read,),
        rules=(HAS_EVENTS, *rules) if windows.built_in else tuple(rules),
    )


def _reaching_settings(windows: Aggregates) -> dict[str, Any]:
    """The settings that reach the rows."""
    if windows.built_in:
        return {"windows_days": windows.settings.features.windows_days}
    columns = [column.settings for column in windows.declared]
    return {"entity": list(windows.entity), "columns": columns}


def _is_nullable(column: DeclaredColumn, windows: Aggregates) -> bool | None:
    """None: by the aggregation. Built-in ones count the events of their longest window: none of
    them lacks an event."""
    if not windows.built_in:
        return None
    return column.aggregation.agg == "sum" and column.aggregation.nullable


def _refuse_lacking_columns(settings: LakeSettings) -> None:
    """Raise SettingsError where the payload lacks a column that the built-in features look at."""
    amounts = [c for c in DEFAULT_PAYLOAD if c.name not in ENTITY]
    if not {*amounts} <= {*settings.source.payload_columns}:
        needed = ", ".join(f"{c.name} {c.type} NOT NULL" for c in amounts)
        raise SettingsError(
            "[source.payload] in lake.toml",
            "the built-in features look at other columns",
            "Nothing was done",
            f"Declare features of your own ([[features.columns]]), or these columns: {needed}",
        )
