"""What `lake.toml` declares that Sail is known to compute otherwise than Spark: the one judge, and the refusal.

Lives here: columns of features and labels, by what their expressions hold, by their aggregation and its type. Does not
live here: reading an expression word by word (`second_engine`). What `select` holds is looked at where the types of a
file's columns are known (`landing.sail_select`). The aggregations were found by random declarations on both engines.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from backfill_assets.core.column_types import DECIMAL, EXACT, ColumnType, read_type
from backfill_assets.core.contracts import AGGREGATION, Contract
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.payload import OF_EVERY_EVENT
from backfill_assets.core.second_engine import DOUBLE
from backfill_assets.engine.confs import SAIL
from backfill_assets.lake.label_calls import label_calls
from backfill_assets.lake.second_engine import advice, told, unequal_names
from backfill_assets.lake.settings import LakeSettings

Types = Mapping[str, ColumnType]


@dataclass(frozen=True)
class Unequal:
    """An expression of `lake.toml`: the tables that are made by it, where it is written, and each name in it that is
    known to differ, with what to write instead ("": nothing)."""

    tables: tuple[str, ...]
    where: str
    names: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.where} in lake.toml (for {' and '.join(self.tables)})"


def refuse_unequal_settings(settings: LakeSettings, contracts: Collection[Contract], table: str = "") -> None:
    """Raise SettingsError where the lake's engine is the second one and one of these tables, or `table` alone, is made
    by an expression that is known to differ there. Nothing has run then."""
    if settings.spark.engine == SAIL:
        for found in unequal_settings(settings, contracts):
            if not table or table in found.tables:
                raise SettingsError(str(found), told(found.names), "Nothing was done", advice(found.names))


def unequal_settings(settings: LakeSettings, contracts: Collection[Contract]) -> list[Unequal]:
    """The expressions that the second engine would refuse, of those by which one of these tables is made."""
    maturing = _first_of(contracts, lambda contract: contract.matures_after_days is not None)
    found = [
        *(Unequal(_first_of(contracts, partial(_declares, n)), *of) for n, of in _of_features(settings)),
        *(Unequal(maturing, *of) for of in _of_labels(settings)),
    ]
    return [u for u in found if u.names and u.tables]


def _first_of(contracts: Collection[Contract], fits: Callable[[Contract], bool]) -> tuple[str, ...]:
    """The tables that fit and are made from none that does."""
    fit = {c.name for c in contracts if fits(c)}
    return tuple(c.name for c in contracts if c.name in fit and fit.isdisjoint(i.table for i in c.inputs))


def _declares(name: str, contract: Contract) -> bool:
    return any(c.name == name and AGGREGATION in c.tags for c in contract.columns)


def _of_features(settings: LakeSettings) -> Iterator[tuple[str, tuple[str, Mapping[str, str]]]]:
    """Of each declared column its name, and where each of its expressions is written, with what it holds."""
    types = _types(settings, settings.features.source)
    for column in settings.features.columns:
        where = f"[[features.columns]] {column.name}"
        yield column.name, (f"{where}: where", _names(column.where, types))
        yield column.name, (f"{where}: of", _of_aggregation(column.agg, column.of or "", types))


def _of_labels(settings: LakeSettings) -> Iterator[tuple[str, Mapping[str, str]]]:
    """A label's aggregates are ours, and exact; what it does with them is a condition over numbers."""
    types, asked = _types(settings, settings.labels.source), settings.labels
    if asked.label is None:
        where = f'[labels] measure = "{asked.measure}"'
        yield where, _of_aggregation("sum", "" if asked.measure == "events" else asked.measure, types)
        return
    found, condition, done = dict[str, str](), "", 0
    for call in label_calls(asked.label):
        found |= _of_aggregation(call.agg, call.of.strip(" *"), types)
        condition, done = f"{condition}{asked.label[done : call.start]}CAST(1 AS {EXACT})", call.end
    yield "[labels] label", found | _names(condition + asked.label[done:], types)


def _of_aggregation(agg: str, of: str, types: Types) -> dict[str, str]:
    """Of the aggregation of an expression ("": of the events themselves): what it holds, and the aggregation."""
    kind, least = _type_of(of, types) if of else None, agg in ("min", "max")
    found = _names(f"{agg}({of})" if of and least else of, types)
    if agg == "distinct":
        found["distinct"] = ""
    elif kind == DOUBLE:  # NaN, and numbers of many digits
        found[f"{agg} of {DOUBLE}"] = ""
    elif agg == "avg" and kind == DECIMAL:
        found[f"avg of {DECIMAL}"] = ""
    return found


def _names(text: str | None, types: Types) -> dict[str, str]:
    return unequal_names(text, {name.lower(): str(kind) for name, kind in types.items()}) if text else {}


def _type_of(text: str, types: Types) -> str:
    """The kind of an expression's type; the empty text where it cannot be told, which is refused elsewhere."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    from backfill_assets.lake.expression_types import Untold, type_of

    try:
        return type_of(sqlglot.parse_one(text, read="spark"), types).kind
    except (SqlglotError, Untold, KeyError):
        return ""


def _types(settings: LakeSettings, source: str | None) -> dict[str, ColumnType]:
    """The columns that a section may name, with their types; those of no payload where it does not say which."""
    return OF_EVERY_EVENT | {c.name: read_type(c.type) for c in settings.payload_of("", source) or ()}
