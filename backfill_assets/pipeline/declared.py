"""Declared features, from `[features]` in lake.toml: checked and compiled aggregations, and how they are told.

Lives here: `[[features.columns]]` and the five built-in columns as aggregations, and the description, tags, origin and
SQL of a column. Does not live here: what an expression may hold (`expressions`), contracts (`declared_contracts`) and
the computation (`transforms`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from backfill_assets.core.column_types import ColumnType, read_type
from backfill_assets.core.contracts import AGGREGATION, Column
from backfill_assets.core.payload import OF_EVERY_EVENT
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.source_settings import FeatureColumnSettings
from backfill_assets.pipeline.expressions import Expression, read_expression, refused
from backfill_assets.pipeline.transforms.aggregation import Agg, Aggregation, Reach, UnfitAggregation, Value, trailing

PHRASES = {
    "count": "number of {}", "sum": "sum of {}", "avg": "mean of {}", "min": "least {}", "max": "greatest {}",
    "first": "first {} (by event_ts, then event_key)", "last": "last {} (by event_ts, then event_key)",
    "distinct": "number of different {}", "days_since_last": "days since the newest {}",
}  # fmt: skip
EVENTS = ("event", "events")


@dataclass(frozen=True)
class Declared:
    """A declared column: its aggregation, the expressions as they were written, and the columns they are made from."""

    aggregation: Aggregation
    of: str | None
    where: str | None
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The aggregation as a query over staging would say it, for people; `day` is the day that is described."""
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
        """The column of a contract, made from that table: type, meaning, and tags that tell its parts apart."""
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
    """The columns of features: those declared, else the built-in ones. Raises SettingsError naming what is wrong."""
    known = sources(settings)
    return tuple(_declared(c, known) for c in settings.features.columns or built_in(settings.features.windows_days))


def built_in(windows_days: tuple[int, int]) -> tuple[FeatureColumnSettings, ...]:
    """The columns that a lake has without declaring any, as if they were declared."""
    short, long = windows_days
    return (
        FeatureColumnSettings(name="events_short", agg="count", days=short),
        FeatureColumnSettings(name="events_long", agg="count", days=long),
        FeatureColumnSettings(name="value_short", agg="sum", of="value", days=short),
        FeatureColumnSettings(name="value_long", agg="sum", of="value", days=long),
        FeatureColumnSettings(name="flagged_long", agg="sum", of="flag", days=long),
        FeatureColumnSettings(name="days_since_last", agg="days_since_last", days=long),
    )


def compiled(
    name: str, agg: Agg, expressions: tuple[Expression | None, Expression | None], reach: Reach, where: str
) -> Declared:
    """A column of an aggregation of `of` for which another expression is true (None: all events).

    Raises SettingsError naming `where` where the aggregation does not take values of that type, or the type of `of`
    cannot be told.
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
    """What decides the content of these columns, as plain values for digests of settings."""
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
    """Only a column keeps its own type untouched; anything else is brought to the type that was told of it."""
    condition = None if only is None else only.sql if only.type else f"try_cast({only.sql} AS BOOLEAN)"
    if of is None:
        return Value(where=condition)
    if of.type is None:
        raise refused(where, f"the type of {of.text} cannot be told", f"Write cast({of.text} AS DECIMAL(18,2)), or so")
    plain = of.text.strip("` ") in of.columns
    return Value(of.sql if plain else f"try_cast({of.sql} AS {of.type})", str(of.type), condition)


def _days(column: Declared) -> list[int]:
    return [column.aggregation.reach.first, column.aggregation.reach.last]


def _shifted(days: int) -> str:
    return "day" if days == 0 else f"day {'+' if days > 0 else '-'} {abs(days)}"


def _over(reach: Reach) -> str:
    days = "day" if reach.days == 1 else f"{reach.days} days"
    if reach.first < 0:
        return f"over the {days} after the day"
    return "on the day" if reach.days == 1 else f"over the {days} up to and including the day"
