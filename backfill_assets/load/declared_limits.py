"""Expressions of `lake.toml` that a lake's engine is known to compute otherwise than Spark, and their refusal.

Not here: what an engine computes otherwise (`core.engines.Engine.differences`), and plans of DataFrames (`steadiness`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from backfill_assets.core.column_types import EXACT
from backfill_assets.core.contracts import AGGREGATION, Contract
from backfill_assets.core.engines import Engine, advice, culprit
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.payload import OF_EVERY_EVENT
from backfill_assets.engine.launch import engine_named
from backfill_assets.lake.label_calls import label_calls
from backfill_assets.lake.settings import LakeSettings

Types = Mapping[str, str]


@dataclass(frozen=True)
class Differing:
    """An expression of `lake.toml`: the tables computed by it, where it is written, and each name in it that is known
    to differ, with what to write instead ("": nothing)."""

    tables: tuple[str, ...]
    where: str
    names: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.where} in lake.toml (for {' and '.join(self.tables)})"


def refuse_settings(settings: LakeSettings, contracts: Collection[Contract], table: str = "") -> None:
    """Raise SettingsError if an expression that differs on the lake's engine computes one of these tables, or `table`
    alone."""
    engine = engine_named(settings.spark.engine)
    for found in differing_settings(settings, contracts, engine):
        if not table or table in found.tables:
            raise SettingsError(str(found), culprit(found.names, engine), "Nothing was done", advice(found.names))


def differing_settings(settings: LakeSettings, contracts: Collection[Contract], engine: Engine) -> list[Differing]:
    """Return the expressions that differ on an engine, of those by which one of these tables is computed."""
    maturing = _first_of(contracts, lambda contract: contract.matures_after_days is not None)
    found, types = list[Differing](), _types(settings, settings.features.source)
    for column in settings.features.columns:
        tables, where = _first_of(contracts, partial(_declares, column.name)), f"[[features.columns]] {column.name}"
        found.append(Differing(tables, f"{where}: where", engine.differences(column.where or "true", types)))
        of = engine.differences(column.of or "", types, agg=column.agg)
        found.append(Differing(tables, f"{where}: of", of))
    found += [Differing(maturing, *label) for label in _of_labels(settings, engine)]
    return [f for f in found if f.names and f.tables]


def _first_of(contracts: Collection[Contract], fits: Callable[[Contract], bool]) -> tuple[str, ...]:
    """Return the tables that fit and have no input that does."""
    fit = {c.name for c in contracts if fits(c)}
    return tuple(c.name for c in contracts if c.name in fit and fit.isdisjoint(i.table for i in c.inputs))


def _declares(name: str, contract: Contract) -> bool:
    return any(c.name == name and AGGREGATION in c.tags for c in contract.columns)


def _of_labels(settings: LakeSettings, engine: Engine) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield where the label is declared, with what differs; its aggregates are exact numbers to its condition."""
    types, labels = _types(settings, settings.labels.source), settings.labels
    if labels.label is None:
        measure = "" if labels.measure == "events" else labels.measure
        yield f'[labels] measure = "{labels.measure}"', engine.differences(measure, types, agg="sum")
        return
    found, condition, done = dict[str, str](), "", 0
    for call in label_calls(labels.label):
        found.update(engine.differences(call.of.strip(" *"), types, agg=call.agg))
        condition, done = f"{condition}{labels.label[done : call.start]}CAST(1 AS {EXACT})", call.end
    yield "[labels] label", found | {**engine.differences(condition + labels.label[done:], types)}


def _types(settings: LakeSettings, source: str | None) -> Types:
    """Return the types of the columns that a section may name."""
    own = {c.name.lower(): c.type for c in settings.payload_of("", source) or ()}
    return {name: str(kind) for name, kind in OF_EVERY_EVENT.items()} | own
