"""Columns of this product's tables: carried from a payload, of an entity, and aggregates of events
per entity and day.

Not here: reading declarations (`declared`), the tables with these columns (`daily`), and computing
(`transforms`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from backfill_assets.kernel.core.column_types import ColumnType, read_type
from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.kernel.core.engines import DeclaredExpression
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, MACHINERY, PayloadColumn
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.pipeline.transforms.aggregation import Aggregation, UnfitAggregation

# What an expression over an event may name besides the payload; both are the same in every
# version's row.
OF_EVERY_EVENT = {name: ColumnType(MACHINERY[name]) for name in ("event_key", "event_ts")}
AGGREGATION = "aggregation"  # the tag of a column that a lake declares, and of its copies below
# The transforms are imported when they run, because they import Spark.
TRANSFORMS = "backfill_assets.pipeline.transforms."
MADE_BY = tuple(TRANSFORMS + name for name in ("declared", "intervals", "measures", "aggregation"))
ENTITY = ("entity",)
KEY_TAG = {"role": "key"}
DAYS = {"unit": "days"}
MEASURE = {"role": "measure"}
SEQUENCE = {"role": "sequence"}  # it changes by itself as time passes: no drift
WIDE = "0: none, NULL: the sum does not fit 64 bits"
CARRIED = "carried unchanged from the landed file"


def payload_tags(column: PayloadColumn) -> dict[str, str]:
    """The tags of a carried column: numbers are measures."""
    return MEASURE if read_type(column.type).is_number else {}


@dataclass(frozen=True)
class DeclaredColumn:
    """A column of features or labels."""

    aggregation: Aggregation
    of: str | None  # expression as written
    where: str | None  # expression as written
    columns: tuple[str, ...]  # of staging in these

    @property
    def sql(self) -> str:
        """The aggregation as SQL over staging, for people; `day` is the described day."""
        return self._aggregate_sql(self.aggregation.value.of, self.aggregation.value.where)

    @property
    def settings(self) -> list[object]:
        """The values that decide the content of the column, for digests of settings."""
        spec = self.aggregation
        return [spec.name, spec.agg, asdict(spec.value), [spec.reach.first, spec.reach.last]]

    def column(self, source_table: str, *, nullable: bool | None = None) -> Column:
        """The column of a contract, computed from `source_table`. `nullable`: whether rows of the
        table may have none of its events (None: by the aggregation, which speaks of days with
        events)."""
        spec = self.aggregation
        may_be_null = spec.nullable if nullable is None else nullable
        meaning = self._aggregate_sql(self.of, self.where) + self._without_events(may_be_null)
        # A count of events reads of them only that they are there.
        origins = tuple(f"{source_table}.{column}" for column in self.columns or ("event_key",))
        return Column(
            spec.name,
            spec.type,
            meaning,
            nullable=may_be_null,
            tags=self._column_tags(),
            made_from=origins,
        )

    def _column_tags(self) -> dict[str, str]:
        """The tags of the column: its role, the aggregation, its window, value and filter."""
        spec, days = self.aggregation, self.aggregation.reach.days
        window = "1 day" if days == 1 else f"{days} days"
        tags = {
            **(DAYS if spec.agg == "days_since_last" else MEASURE),
            AGGREGATION: spec.agg,
            "window": window if spec.reach.first == 0 else f"{window} ahead",
            "of": self.of or "events",
        }
        return tags | {"filter": self.where} if self.where else tags

    @property
    def rules(self) -> Iterator[Rule]:
        """The rules that follow from the aggregation itself."""
        spec = self.aggregation
        if spec.agg in ("count", "distinct"):
            yield Rule(f"{spec.name}_is_no_less_than_0", f"`{spec.name}` >= 0", "it counts")
        if spec.agg == "days_since_last":
            inside = f"`{spec.name}` BETWEEN {spec.reach.first} AND {spec.reach.last}"
            yield Rule(f"{spec.name}_is_in_window", inside, "the newest event is in the window")

    def _aggregate_sql(self, value: str | None, where: str | None) -> str:
        """The aggregation in words close to SQL, of a `value` (None: of events) over the events for
        which `where` holds, with its days; e.g. `sum(total) over event_date BETWEEN day - 6 AND
        day`."""
        reach, agg, argument = self.aggregation.reach, self.aggregation.agg, value or "*"
        call = {
            "distinct": f"count(DISTINCT {argument})",
            "first": f"min_by({argument}, (event_ts, event_key))",
            "last": f"max_by({argument}, (event_ts, event_key))",
            "days_since_last": "max(event_date)",
        }.get(agg, f"{agg}({argument})")
        conditions = []
        if where:
            conditions.append(f"({where})")
        if value and agg in ("first", "last", "days_since_last"):
            conditions.append(f"({value}) IS NOT NULL")
        if conditions:
            call += f" FILTER (WHERE {' AND '.join(conditions)})"
        if agg == "days_since_last":
            call = f"datediff(day, {call})"
        # An event counts on the days event + first .. event + last: on a day those of
        # day - last .. day - first count.
        first, last = _shifted_day(-reach.last), _shifted_day(-reach.first)
        return f"{call} over event_date BETWEEN {first} AND {last}"

    def _without_events(self, nullable: bool) -> str:
        """What the column is where no event counts, to be put behind its meaning."""
        aggregation = self.aggregation
        if aggregation.agg == "days_since_last":
            return "; 0: that day; NULL: none" if nullable else "; 0: that day"
        if aggregation.type == "BIGINT" and nullable:
            return f"; {WIDE}"
        if aggregation.agg == "sum":
            misfit = f", NULL: a number does not fit a decimal of {aggregation.value.scale} places"
            return f"; 0: none{misfit if aggregation.nullable else ''}"
        return "; NULL: none" if nullable else ""


def _shifted_day(days: int) -> str:
    """The described day, so many days on, as text: `day - 6`."""
    if days == 0:
        return "day"
    return f"day + {days}" if days > 0 else f"day - {-days}"


def event_types(settings: LakeSettings) -> dict[str, ColumnType]:
    """The columns of an event that expressions may name, with their types."""
    return {c.name: read_type(c.type) for c in settings.source.payload_columns} | OF_EVERY_EVENT


def declaration_error(where: str, culprit: str, advice: str) -> SettingsError:
    """The error for a declaration at `where` in lake.toml."""
    return SettingsError(f"{where} in lake.toml", culprit, "Nothing was done", advice)


def checked_aggregation(aggregation: Aggregation, where: str) -> Aggregation:
    """The aggregation; raises SettingsError naming `where` for values that it does not take."""
    try:
        _ = aggregation.type
    except UnfitAggregation as misfit:
        raise declaration_error(where, misfit.culprit, misfit.advice) from None
    return aggregation


def declares_nothing(settings: LakeSettings, section: Literal["features", "labels"]) -> bool:
    """Whether a section declares nothing, and its source has the entity and payload of a lake that
    declares nothing."""
    declares = settings.features.columns if section == "features" else settings.labels.label
    if declares:
        return False
    source = settings.of_source(settings.source_of(section))
    has_default_payload = {*DEFAULT_PAYLOAD} <= {*source.source.payload_columns}
    return source.features.entity == ENTITY and has_default_payload


@dataclass(frozen=True)
class Aggregates:
    """The declared aggregates of a table over the events of one source, per entity and day."""

    settings: LakeSettings  # of the lake as if the source were its only one
    staging: Contract  # of the table with the events
    declared: tuple[DeclaredColumn, ...]
    built_in: (
        bool  # by `declares_nothing`: the table's digests are those of a lake that declares nothing
    )

    @property
    def entity(self) -> tuple[str, ...]:
        """The names of the entity's columns."""
        return self.settings.features.entity

    @property
    def aggregations(self) -> tuple[Aggregation, ...]:
        """The aggregates as the transforms take them."""
        return tuple(c.aggregation for c in self.declared)

    @property
    def compiled(self) -> Mapping[str, str]:
        """The SQL of declared columns, for people."""
        return {} if self.built_in else {c.aggregation.name: c.sql for c in self.declared}

    @property
    def columns_read(self) -> tuple[str, ...] | None:
        """The columns of staging to read: the arguments of these columns, the entity, and when an
        event counts."""
        return self.read((*self.entity, *(name for c in self.declared for name in c.columns)))

    def read(self, used: Iterable[str]) -> tuple[str, ...] | None:
        """The columns of staging that a table reads which uses these columns of the payload; None:
        every column."""
        unread = {c.name for c in self.settings.source.payload_columns} - set(used)
        return tuple(c for c in self.staging.column_names if c not in unread) if unread else None

    def entity_columns(self, meaning: str, table: str) -> Iterator[Column]:
        """The columns of the entity, taken from `table`."""
        types = {c.name: c.type for c in self.settings.source.payload_columns}
        for name in self.entity:
            others = ", ".join(n for n in self.entity if n != name)
            description = f"{meaning}, together with {others}" if others else meaning
            yield Column(
                name, types[name], description, tags=KEY_TAG, made_from=(f"{table}.{name}",)
            )

    def expressions(self, column: DeclaredColumn, where: str) -> Iterator[DeclaredExpression]:
        """The expressions of a column that `lake.toml` declares at `where`."""
        types = {name: str(kind) for name, kind in event_types(self.settings).items()}
        yield DeclaredExpression(where, column.of or "", types, column.aggregation.agg)
        if column.where:
            yield DeclaredExpression(where, column.where, types)

    def version(self, table: str) -> str:
        """The version of the code that makes a table of these aggregates."""
        return f"{table} 1" if self.built_in else f"declared {table.removesuffix('_as_known')} 1"
