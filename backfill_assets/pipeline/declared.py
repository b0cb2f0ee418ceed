"""Declared features, from `[features]` in lake.toml: compiled aggregations, their descriptions and contracts.

Not here: which expressions are allowed (`expressions`), labels (`declared_label`) and the computation (`transforms`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from backfill_assets.core.column_types import ColumnType, read_type
from backfill_assets.core.contracts import AGGREGATION, Column, Contract, Input, Rule
from backfill_assets.core.days import matures_after
from backfill_assets.core.payload import OF_EVERY_EVENT
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.source_settings import FeatureColumnSettings
from backfill_assets.pipeline.contracts import (
    DAYS,
    KEY,
    MEASURE,
    FeatureSet,
    label_table,
    read_of_staging,
    training_table,
)
from backfill_assets.pipeline.expressions import Expression, read_expression, refused
from backfill_assets.pipeline.transforms.aggregation import (
    Agg,
    Aggregation,
    Reach,
    UnfitAggregation,
    Value,
    built_in_columns,
    trailing,
)

PHRASES = {
    "count": "number of {}", "sum": "sum of {}", "avg": "mean of {}", "min": "least {}", "max": "greatest {}",
    "first": "first {} (by event_ts, then event_key)", "last": "last {} (by event_ts, then event_key)",
    "distinct": "number of different {}", "days_since_last": "days since the newest {}",
}  # fmt: skip
EVENTS = ("event", "events")


@dataclass(frozen=True)
class Declared:
    """A declared column: its aggregation, the expressions as written, and the columns of staging that they name."""

    aggregation: Aggregation
    of: str | None
    where: str | None
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The aggregation as SQL over staging, for people; `day` is the described day."""
        value, reach, agg = self.aggregation.value, self.aggregation.reach, self.aggregation.agg
        of = value.of or "*"
        called = {
            "distinct": f"count(DISTINCT {of})", "first": f"min_by({of}, (event_ts, event_key))",
            "last": f"max_by({of}, (event_ts, event_key))", "days_since_last": "max(event_date)",
        }.get(agg, f"{agg}({of})")  # fmt: skip
        chosen = value.of and agg in ("first", "last", "days_since_last")
        conditions = [value.where or "", f"({of}) IS NOT NULL" if chosen else ""]
        filtered = " AND ".join(f"({c})" if c == value.where else c for c in conditions if c)
        made = f"{called}{f' FILTER (WHERE {filtered})' if filtered else ''}"
        window = f"event_date BETWEEN {_shifted(-reach.last)} AND {_shifted(-reach.first)}"
        return f"{f'datediff(day, {made})' if agg == 'days_since_last' else made} over {window}"

    def column(self, *, tags: Mapping[str, str], made_from: str) -> Column:
        """The column of a contract, computed from the table `made_from`: type, description, and tags for its parts."""
        made = self.aggregation
        origins = tuple(f"{made_from}.{column}" for column in self.columns or ("event_key",))
        return Column(made.name, made.type, self._description(), made.nullable, {**tags, **self._tags()}, origins)

    def _description(self) -> str:
        made, reach = self.aggregation, self.aggregation.reach
        single = made.agg in ("days_since_last",)
        what = (f"event with {self.of}" if single else self.of) if self.of else EVENTS[0 if single else 1]
        if self.of and made.agg == "count":
            what = f"events with {self.of}"
        filtered = f" where {self.where}" if self.where else ""
        return f"{PHRASES[made.agg].format(what)} {_over(reach)}{filtered}{self._without()}"

    def _without(self) -> str:
        made = self.aggregation
        if made.agg == "days_since_last":
            return "; 0: that day, NULL: none"
        if made.agg == "sum":
            return {
                "BIGINT": "; 0: none, NULL: the sum does not fit 64 bits",
                "DOUBLE": f"; 0: none, NULL: a number does not fit a decimal of {made.value.scale} places",
            }.get(made.value.type, "; 0: none")
        return "; NULL: none" if made.nullable else ""

    def _tags(self) -> dict[str, str]:
        made = self.aggregation
        told = {AGGREGATION: made.agg, "of": self.of or EVENTS[1], "filter": self.where or "", "window": ""}
        days = made.reach.days
        told["window"] = f"{days} day{'' if days == 1 else 's'}{'' if made.reach.first == 0 else ' ahead'}"
        return {name: text for name, text in told.items() if text}


def sources(settings: LakeSettings) -> dict[str, ColumnType]:
    """The columns that expressions may name, with their types."""
    return {c.name: read_type(c.type) for c in settings.source.payload_columns} | OF_EVERY_EVENT


def declared(settings: LakeSettings) -> tuple[Declared, ...]:
    """Compile the columns of features: the declared ones, else the built-in ones. Raises SettingsError with the key."""
    known = sources(settings)
    if settings.features.columns:
        return tuple(_declared(c, known) for c in settings.features.columns)
    columns = built_in_columns(settings.features.windows_days)
    return tuple(Declared(c, c.value.of, None, (c.value.of,) if c.value.of else ()) for c in columns)


def compiled(
    name: str, agg: Agg, expressions: tuple[Expression | None, Expression | None], reach: Reach, where: str
) -> Declared:
    """Compile a column: `agg` of the first of two `expressions`, over the events for which the second is true.

    None stands for every event. Raises SettingsError naming `where` for a type that the aggregation does not take, or
    that is unknown.
    """
    of, only = expressions
    value = _value(of, only, where)
    made = Aggregation(name, agg, value, reach)
    try:
        _ = made.type
    except UnfitAggregation as misfit:
        raise refused(where, misfit.culprit, misfit.advice) from None
    columns = tuple(dict.fromkeys(c for e in expressions if e is not None for c in e.columns))
    return Declared(made, of.text if of else None, only.text if only else None, columns)


def words(columns: Sequence[Declared]) -> list[list[object]]:
    """The values that decide the content of these columns, for digests of settings."""
    return [[c.aggregation.name, c.aggregation.agg, asdict(c.aggregation.value), _days(c)] for c in columns]


def _declared(asked: FeatureColumnSettings, known: Mapping[str, ColumnType]) -> Declared:
    of_where, where_where = (f"[[features.columns]] {asked.name}: {key}" for key in ("of", "where"))
    of = read_expression(asked.of, known, of_where) if asked.of is not None else None
    only = read_expression(asked.where, known, where_where) if asked.where is not None else None
    if only is not None and only.type not in (None, ColumnType("BOOLEAN")):
        raise refused(where_where, f"{only.text} is {only.type} and no truth", "Write a condition, e.g. total > 0")
    made = compiled(asked.name, asked.agg, (of, only), trailing(asked.days), of_where)
    if asked.scale == made.aggregation.value.scale or made.aggregation.value.type != "DOUBLE":
        return made
    value = Value(**{**asdict(made.aggregation.value), "scale": asked.scale})
    return Declared(
        Aggregation(asked.name, asked.agg, value, made.aggregation.reach), made.of, made.where, made.columns
    )


def _value(of: Expression | None, only: Expression | None, where: str) -> Value:
    """The value to aggregate. A bare column keeps its type; any other expression is cast to its type."""
    condition = None if only is None else only.sql if only.type else f"try_cast({only.sql} AS BOOLEAN)"
    if of is None:
        return Value(where=condition)
    if of.type is None:
        raise refused(where, f"the type of {of.text} cannot be told", f"Write cast({of.text} AS DECIMAL(18,2)), or so")
    plain = of.text.strip("` ") in of.columns
    return Value(of.sql if plain else f"try_cast({of.sql} AS {of.type})", str(of.type), condition)


def feature_set(settings: LakeSettings, columns: Sequence[Declared], source_table: str) -> FeatureSet:
    """The columns and rules that the tables of declared features share, computed from `source_table`."""
    shown = (
        *_entity(settings, "whom the features describe", source_table),
        *(
            c.column(tags=DAYS if c.aggregation.agg == "days_since_last" else MEASURE, made_from=source_table)
            for c in columns
        ),
        Column("feature_date", "DATE", "the day the features describe"),
    )
    longest = max(c.aggregation.reach.days for c in columns)
    rules = tuple(rule for c in columns for rule in _rules(c.aggregation))
    return FeatureSet(shown, rules, longest, settings.features.entity, "Declared", _read(settings, columns))


def label_contract(settings: LakeSettings, terms: Sequence[Declared], source_table: str) -> Contract:
    """The contract of declared labels: a column per aggregate and the label, per entity of features_as_known."""
    asked, entity = settings.labels, settings.features.entity
    origins = tuple(dict.fromkeys(f"{source_table}.{column}" for t in terms for column in t.columns))
    columns = (
        *_entity(settings, "whom the label belongs to", "features_as_known"),
        *(t.column(tags=MEASURE, made_from=source_table) for t in terms),
        Column("label", "INT", f"1 if {asked.label or 'the rule of [labels]'}, else 0", made_from=origins),
    )
    inputs = (
        Input(source_table, columns=_read(settings, terms)),
        Input("features_as_known", columns=(*entity, "feature_date")),
    )
    return label_table(columns, entity, (asked.horizon_days, asked.maturity_days), inputs)


def training_contract(settings: LakeSettings, as_known: Contract) -> Contract:
    """The contract of training with the columns and rules of `as_known`, the contract of features_as_known."""

    def _carried(column: Column) -> Column:
        origin = () if column.name == "feature_date" else (f"features_as_known.{column.name}",)
        return replace(column, made_from=origin)

    label = Column("label", "INT", "the mature label: 0 or 1", made_from=("labels.label",))
    matures = matures_after(settings.labels.horizon_days, settings.labels.maturity_days)
    return training_table((*map(_carried, as_known.columns), label), as_known.rules, as_known.key, matures)


def _rules(made: Aggregation) -> Iterator[Rule]:
    """The rules that follow from the aggregation itself."""
    name = f"`{made.name}`"
    if made.agg in ("count", "distinct"):
        yield Rule(f"{made.name}_is_no_less_than_0", f"{name} >= 0", "it counts")
    if made.agg == "days_since_last":
        inside = f"{name} BETWEEN {made.reach.first} AND {made.reach.last}"
        yield Rule(f"{made.name}_is_in_window", inside, "the newest event is in the window")


def _entity(settings: LakeSettings, meaning: str, table: str) -> tuple[Column, ...]:
    types = {c.name: c.type for c in settings.source.payload_columns}
    names = settings.features.entity
    described = meaning if len(names) == 1 else f"{meaning}, together with {{}}"
    others = {n: ", ".join(o for o in names if o != n) for n in names}
    return tuple(Column(n, types[n], described.format(others[n]), tags=KEY, made_from=(f"{table}.{n}",)) for n in names)


def _read(settings: LakeSettings, columns: Sequence[Declared]) -> tuple[str, ...] | None:
    """The columns of staging to read: the arguments of these columns, the entity, and when an event counts."""
    used = (*settings.features.entity, *(name for c in columns for name in c.columns))
    return read_of_staging(settings.source.payload_columns, used)


def _days(column: Declared) -> list[int]:
    return [column.aggregation.reach.first, column.aggregation.reach.last]


def _shifted(days: int) -> str:
    return "day" if days == 0 else f"day {'+' if days > 0 else '-'} {abs(days)}"


def _over(reach: Reach) -> str:
    days = "day" if reach.days == 1 else f"{reach.days} days"
    if reach.first < 0:
        return f"over the {days} after the day"
    return "on the day" if reach.days == 1 else f"over the {days} up to and including the day"
