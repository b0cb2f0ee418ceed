"""Contracts of this product's tables, built-in and declared: columns, keys, rules and the days of their inputs.

Not here: reading declarations (`declared`), the transforms (`transforms`) and their settings (`tables`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from backfill_assets.core.column_types import ColumnType, read_type
from backfill_assets.core.contracts import AGGREGATION, LANDING, Basis, Column, Contract, Input, Rule
from backfill_assets.core.days import matures_after
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ledgers import named
from backfill_assets.core.payload import DEFAULT_PAYLOAD, OF_EVERY_EVENT, PayloadColumn
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.transforms.aggregation import (
    RULES,
    Agg,
    Aggregation,
    UnfitAggregation,
    Value,
    ahead,
    built_in_columns,
    trailing,
)

RAW, STAGING = "raw", "staging"  # of a source with a name these are lengthened by it
KEY = {"role": "key"}
DAYS = {"unit": "days"}
MEASURE = {"role": "measure"}
SEQUENCE = {"role": "sequence"}  # it changes by itself as time passes: no drift
# True by how rows are made: they tell a changed transform that no longer makes them so, before anything is written.
LABEL_RULES = (
    Rule("label_is_0_or_1", "label IN (0, 1)", "a label is the outcome of a yes-or-no question"),
    Rule("state_is_known", "label_state IN ('mature', 'provisional')", "a label is mature or provisional"),
)
HAS_EVENTS = Rule("has_events", "events_long >= 1", "there is a row only where the long window holds an event")
WIDE = "0: none, NULL: the sum does not fit 64 bits"
# Of the undeclared payload the meaning is known, of any other column only its type.
IN_RAW = dict(zip(DEFAULT_PAYLOAD, (
    "whom the event belongs to; may be unknown", "its amount, -2^53 through 2^53; NULL on deletes",
    "0 or 1; NULL on deletes",
), strict=True))  # fmt: skip
IN_STAGING = dict(zip(DEFAULT_PAYLOAD, (
    "whom it belongs to; unknown ones stay here and leave features", "its amount, -2^53 through 2^53", "0 or 1",
), strict=True))  # fmt: skip
CARRIED = "carried unchanged from the landed file"
Payload = tuple[PayloadColumn, ...]


def raw(payload: Payload = DEFAULT_PAYLOAD, source: str = "") -> Contract:
    """Every delivery of a source that landed on a day, unchanged. A delete may lack its payload: all may be NULL."""
    return Contract(
        named("raw", source),
        "Every delivery that landed that day, unchanged. Corrections are new deliveries; nothing is ever edited.",
        (
            Column("seq", "BIGINT", "the delivery's number, unique within its arrival day", tags=KEY),
            Column("arrival_ts", "TIMESTAMP", "when we received it (UTC); decides the day"),
            Column("version_ts", "TIMESTAMP", "which version of the event it is: the greatest is current"),
            Column("event_ts", "TIMESTAMP", "when the event happened (UTC); NULL on deletes", nullable=True),
            Column("event_key", "STRING", "the event that the delivery speaks of", tags=KEY),
            Column("op", "STRING", "upsert or delete"),
            *(
                Column(c.name, c.type, IN_RAW.get(c, f"{CARRIED}; NULL on deletes"), nullable=True, tags=_tags(c))
                for c in payload
            ),
            Column("source_file", "STRING", "sha256 of the landed file; its path is in the ledger `files`", tags=KEY),
            Column("arrival_date", "DATE", "the day of arrival (UTC)"),
        ),
        "arrival_date",
        ("seq",),
        (Input(named(LANDING, source), basis=Basis.FILES),),
    )


def staging(payload: Payload = DEFAULT_PAYLOAD, source: str = "") -> Contract:
    """Every version of an event of a source that was ever current, with its known interval."""
    return Contract(
        named("staging", source),
        "Every version of an event that was ever the current one, with the interval in which it was.",
        (
            Column("event_key", "STRING", "the event", tags=KEY),
            Column("event_ts", "TIMESTAMP", "when it happened (UTC); decides the day"),
            *(Column(c.name, c.type, IN_STAGING.get(c, CARRIED), nullable=c.nullable, tags=_tags(c)) for c in payload),
            Column("version_ts", "TIMESTAMP", "which version this is"),
            Column("seq", "BIGINT", "the delivery that brought it", tags=SEQUENCE),
            Column("known_from", "TIMESTAMP", "its arrival: from then on it was the current version", tags=KEY),
            Column("known_until", "TIMESTAMP", "arrival of what replaced it; NULL: still current", nullable=True),
            Column("event_date", "DATE", "the day of the event (UTC)"),
        ),
        "event_date",
        ("event_key", "known_from"),
        (Input(named(RAW, source), basis=Basis.ARRIVALS),),
    )


def _tags(column: PayloadColumn) -> dict[str, str]:
    return MEASURE if read_type(column.type).is_number else {}


@dataclass(frozen=True)
class Declared:
    """A column of features or labels: aggregation, expressions as written, columns of staging in them."""

    aggregation: Aggregation
    of: str | None
    where: str | None
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The aggregation as SQL over staging, for people; `day` is the described day."""
        return self._sql(self.aggregation.value.of, self.aggregation.value.where)

    @property
    def settings(self) -> list[object]:
        """The values that decide the content of the column, for digests of settings."""
        spec = self.aggregation
        return [spec.name, spec.agg, asdict(spec.value), [spec.reach.first, spec.reach.last]]

    def column(self, source_table: str, *, nullable: bool | None = None) -> Column:
        """The column of a contract, computed from `source_table`; `nullable` (None: by the aggregation)."""
        spec, days = self.aggregation, self.aggregation.reach.days
        may_be_null = spec.nullable if nullable is None else nullable
        window = f"{days} day{'' if days == 1 else 's'}{'' if spec.reach.first == 0 else ' ahead'}"
        tags = {**(DAYS if spec.agg == "days_since_last" else MEASURE), AGGREGATION: spec.agg, "window": window}
        tags |= {"of": self.of or "events"} | ({"filter": self.where} if self.where else {})
        description = f"{self._sql(self.of, self.where)}{self._without_events(may_be_null)}"
        origins = tuple(f"{source_table}.{column}" for column in self.columns or ("event_key",))
        return Column(spec.name, spec.type, description, may_be_null, tags, origins)

    @property
    def rules(self) -> Iterator[Rule]:
        """The rules that follow from the aggregation itself."""
        spec = self.aggregation
        if spec.agg in ("count", "distinct"):
            yield Rule(f"{spec.name}_is_no_less_than_0", f"`{spec.name}` >= 0", "it counts")
        if spec.agg == "days_since_last":
            inside = f"`{spec.name}` BETWEEN {spec.reach.first} AND {spec.reach.last}"
            yield Rule(f"{spec.name}_is_in_window", inside, "the newest event is in the window")

    def _sql(self, of: str | None, where: str | None) -> str:
        reach, agg, argument = self.aggregation.reach, self.aggregation.agg, of or "*"
        call = {
            "distinct": f"count(DISTINCT {argument})", "first": f"min_by({argument}, (event_ts, event_key))",
            "last": f"max_by({argument}, (event_ts, event_key))", "days_since_last": "max(event_date)",
        }.get(agg, f"{agg}({argument})")  # fmt: skip
        skips_null = of and agg in ("first", "last", "days_since_last")
        conditions = [f"({where})"] * bool(where) + [f"({of}) IS NOT NULL"] * bool(skips_null)
        call += f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        window = f"event_date BETWEEN {_shifted(-reach.last)} AND {_shifted(-reach.first)}"
        return f"{f'datediff(day, {call})' if agg == 'days_since_last' else call} over {window}"

    def _without_events(self, nullable: bool) -> str:
        aggregation = self.aggregation
        if aggregation.agg == "days_since_last":
            return "; 0: that day" + ("; NULL: none" if nullable else "")
        if aggregation.type == "BIGINT" and nullable:
            return f"; {WIDE}"
        if aggregation.agg == "sum":
            misfit = f", NULL: a number does not fit a decimal of {aggregation.value.scale} places"
            return f"; 0: none{misfit if aggregation.nullable else ''}"
        return "; NULL: none" if nullable else ""


def _shifted(days: int) -> str:
    return "day" if days == 0 else f"day {'+' if days > 0 else '-'} {abs(days)}"


def event_types(settings: LakeSettings) -> dict[str, ColumnType]:
    """The columns of an event that expressions may name, with their types."""
    return {c.name: read_type(c.type) for c in settings.source.payload_columns} | OF_EVERY_EVENT


def refused(where: str, culprit: str, advice: str) -> SettingsError:
    """The error for a declaration at `where` in lake.toml."""
    return SettingsError(f"{where} in lake.toml", culprit, "Nothing was done", advice)


def checked(aggregation: Aggregation, where: str) -> Aggregation:
    """The aggregation; raises SettingsError naming `where` for values that it does not take."""
    try:
        _ = aggregation.type
    except UnfitAggregation as misfit:
        raise refused(where, misfit.culprit, misfit.advice) from None
    return aggregation


def built_in_features(settings: LakeSettings) -> tuple[Declared, ...]:
    """The features of a lake that declares none."""
    columns = built_in_columns(settings.features.windows_days)
    return tuple(Declared(c, c.value.of, None, (c.value.of,) if c.value.of else ()) for c in columns)


def label_from_rule(settings: LakeSettings) -> tuple[tuple[Declared, ...], str]:
    """The two aggregates of a label by measure and rule, and its condition. Raises SettingsError."""
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


def features(
    settings: LakeSettings, columns: Sequence[Declared], source_table: str, *, as_known: bool, built_in: bool
) -> Contract:
    """The contract of features with these columns as known now, or `as_known` at the cut, from `source_table`."""
    now = "Windows over staging as known now. Late data restates them: for training use features_as_known."
    cut = "The same windows as known at the cut: midnight after the day, plus grace. Later arrivals never change them."
    # Built-in features count the events of their longest window: none of them lacks an event.
    nullable = [c.aggregation.agg == "sum" and c.aggregation.nullable if built_in else None for c in columns]
    all_columns = (
        *_entity(settings, "whom the features describe", source_table),
        *(c.column(source_table, nullable=null) for c, null in zip(columns, nullable, strict=True)),
        Column("feature_date", "DATE", "the day the features describe"),
    )
    longest, basis = max(c.aggregation.reach.days for c in columns), Basis.KNOWN_AT_CUT if as_known else Basis.CONTENT
    entity, columns_read = settings.features.entity, _read(settings, columns)
    return Contract(
        "features_as_known" if as_known else "features",
        cut if as_known else now,
        all_columns,
        "feature_date",
        entity,
        (Input(source_table, longest - 1, 0, basis, columns_read, **settings.features.grouping),),
        waits_for_cut=as_known,
        rules=(*([HAS_EVENTS] if built_in else []), *(rule for c in columns for rule in c.rules)),
    )


def labels(settings: LakeSettings, terms: Sequence[Declared], source_table: str, *, built_in: bool) -> Contract:
    """The contract of labels: per row of features_as_known its key, a column per term, `label` and `label_state`."""
    section, entity, horizon = settings.labels, settings.features.entity, settings.labels.horizon_days
    origins = tuple(dict.fromkeys(f"{source_table}.{column}" for t in terms for column in t.columns))
    columns_read = read_of_staging(settings, (c.name for c in DEFAULT_PAYLOAD)) if built_in else _read(settings, terms)
    every_feature = built_in and not settings.features.columns
    return Contract(
        "labels",
        "The outcome over the horizon (d, d + horizon] as known now, for the entities of features_as_known.",
        (
            *_entity(settings, "whom the label belongs to", "features_as_known"),
            *(t.column(source_table, nullable=True if built_in else None) for t in terms),
            Column("label", "INT", f"1 if {section.label or 'the rule of [labels]'}, else 0", made_from=origins),
            Column("label_state", "STRING", "mature once horizon and maturity end, else provisional", tags=SEQUENCE),
            Column("label_date", "DATE", "the day the label belongs to"),
        ),
        "label_date",
        entity,
        (
            Input(source_table, horizon - 1, horizon, columns=columns_read, **settings.features.grouping),
            Input("features_as_known", columns=None if every_feature else (*entity, "feature_date")),
        ),
        waits_for_cut=True,
        matures_after_days=matures_after(section.horizon_days, section.maturity_days),
        rules=LABEL_RULES,
    )


def training(settings: LakeSettings, as_known: Contract) -> Contract:
    """The contract of training: columns and rules of `as_known` (features_as_known), and the mature label last."""
    origins = {c.name: () if c.name == "feature_date" else (f"features_as_known.{c.name}",) for c in as_known.columns}
    label = Column("label", "INT", "the mature label: 0 or 1", made_from=("labels.label",))
    return Contract(
        "training",
        "What a model may learn from: features as known at the cut, joined to mature labels only.",
        (*(replace(c, made_from=origins[c.name]) for c in as_known.columns), label),
        "feature_date",
        as_known.key,
        (Input("features_as_known"), Input("labels")),
        waits_for_cut=True,
        matures_after_days=matures_after(settings.labels.horizon_days, settings.labels.maturity_days),
        rules=(*as_known.rules, LABEL_RULES[0]),
    )


def read_of_staging(settings: LakeSettings, used: Iterable[str]) -> tuple[str, ...] | None:
    """The columns of staging that a table reads which uses these columns of the payload; None: every column."""
    payload = settings.source.payload_columns
    unread = {c.name for c in payload} - set(used)
    return tuple(c for c in staging(payload).column_names if c not in unread) if unread else None


def _read(settings: LakeSettings, columns: Sequence[Declared]) -> tuple[str, ...] | None:
    """The columns of staging to read: the arguments of these columns, the entity, and when an event counts."""
    return read_of_staging(settings, (*settings.features.entity, *(name for c in columns for name in c.columns)))


def _entity(settings: LakeSettings, meaning: str, table: str) -> Iterator[Column]:
    types, names = {c.name: c.type for c in settings.source.payload_columns}, settings.features.entity
    for name in names:
        others = ", ".join(n for n in names if n != name)
        description = f"{meaning}, together with {others}" if others else meaning
        yield Column(name, types[name], description, tags=KEY, made_from=(f"{table}.{name}",))
