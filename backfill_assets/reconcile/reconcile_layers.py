"""Layers of a lake held against each other: one account per day across them.

Four balances, in which each number is counted in the rows of its own table and none is the rest:
what landed = raw + quarantine + duplicates + too late; events that raw's deliveries leave current =
current rows of staging; entities with an event of staging in the window, as known now and at the
cut = features; features as known = training + rows without a mature label. The second ranks
deliveries by SQL of its own, beside the transform. Not here: matching rows (`reconcile`) and the
account of landed rows by receipts (`account`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TypedDict

from duckdb import DuckDBPyConnection

from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.core.contracts import (
    Contract,
    InputKind,
    has_input_kind,
    landed_by_versions,
)
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.ledgers import QUARANTINE, TOO_LATE, source_table_name
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.embedded import rows_query
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.account import DUPLICATES, is_whole, landed_rows, vanished_keys
from backfill_assets.reading.sql import known_tables, own_engine
from backfill_assets.reconcile.reconcile import ReconcileForm


@dataclass(frozen=True)
class LearningTables:
    """The tables of a model by their roles."""

    as_known: Contract  # features as known at the cut
    now: Contract  # the same as known now
    labels: Contract
    learnt: Contract  # the join of `as_known` with mature labels


def learning_tables(pipeline: Pipeline) -> LearningTables | None:
    """Return the tables by facts of their contracts; None for a lake without them. Features as
    known now have the same columns and read the same days of the same inputs, by content in place
    of the cut."""
    contracts = pipeline.contracts
    as_known = _first_of(c for c in contracts if has_input_kind(c.inputs, InputKind.KNOWN_AT_CUT))
    if as_known is None:
        return None
    others = [c for c in contracts if c is not as_known]
    read = {c.name: {i.table for i in c.inputs} for c in others}
    as_now = tuple(replace(i, kind=InputKind.CONTENT) for i in as_known.inputs)
    alike = [c for c in others if c.column_names == as_known.column_names]
    now = _first_of(c for c in alike if c.inputs == as_now)
    labelled = [c for c in others if as_known.name in read[c.name]]
    labels = _first_of(c for c in labelled if len(c.inputs) > 1)
    if now is None or labels is None:
        return None
    joined = {as_known.name, labels.name}
    learnt = _first_of(c for c in others if read[c.name] == joined)
    return None if learnt is None else LearningTables(as_known, now, labels, learnt)


def _first_of(contracts: Iterable[Contract]) -> Contract | None:
    return next(iter(contracts), None)


Counts = Mapping[date, int]
CURRENT = (
    "SELECT CAST(event_ts AS DATE) AS d FROM (SELECT op, event_ts FROM {raw} QUALIFY row_number() "
    "OVER (PARTITION BY "
    "event_key ORDER BY version_ts DESC, arrival_ts DESC, seq DESC) = 1) WHERE op = 'upsert'"
)
IN_WINDOW = (
    "SELECT DISTINCT d, {entity} FROM (VALUES {days}) AS made (d) JOIN {staging} s "
    "ON s.event_date BETWEEN d - {before} AND d WHERE {known} AND {named}"
)
NOW = "s.known_until IS NULL"
AT_CUT = (
    "s.known_from < d + 1 + INTERVAL {hours} HOUR AND (s.known_until IS NULL OR s.known_until >= "
    "d + 1 + INTERVAL "
    "{hours} HOUR)"
)
UNLABELLED = (
    "SELECT f.{day} AS d FROM {features} f ANTI JOIN (FROM {labels} WHERE label_state = 'mature') "
    "l "
    "ON f.{day} = l.{label_day} AND {same}"
)


@dataclass(frozen=True)
class Balance:
    """One day of a balance."""

    name: str
    day: date
    one: Mapping[str, int]  # counts by name on one side of the equation
    other: Mapping[str, int]  # counts by name on the other
    state: State  # of the later table's day

    @property
    def is_equal(self) -> bool:
        """Return whether both sides have the same sum."""
        return sum(self.one.values()) == sum(self.other.values())

    @property
    def is_wrong(self) -> bool:
        """Return whether a day that claims to be complete does not balance."""
        return not self.is_equal and self.state.holds_all_known


class LayersForm(TypedDict):
    """The balances of all days, and how many are wrong or wait."""

    wrong: int
    waiting: int
    balances: Sequence[Balance]


# Of `--layers`, or of two sides.
ReconcileAnswer = LayersForm | ReconcileForm


@dataclass(frozen=True)
class LayersReport:
    """The balances of all days, in the order of layers and days."""

    balances: tuple[Balance, ...]

    @property
    def wrong(self) -> list[Balance]:
        """Return the balances that do not hold though their day is complete."""
        return [b for b in self.balances if b.is_wrong]

    @property
    def waiting(self) -> list[Balance]:
        """Return the balances that do not hold yet: their day is to be made again."""
        return [b for b in self.balances if not b.is_equal and not b.is_wrong]

    def to_dict(self) -> LayersForm:
        """Return the report as JSON values."""
        return {
            "wrong": len(self.wrong),
            "waiting": len(self.waiting),
            "balances": json_of(self.balances),
        }


def reconcile_layers(lake: Lake, pipeline: Pipeline, days: DayRange | None = None) -> LayersReport:
    """Count the rows of every layer and balance them per day (None: all days); needs no JVM.

    Raises BackfillError if a data file was altered. Tables of the user have no balance: nothing
    says how many rows they are to have.
    """
    states = pipeline.states(read_view(lake, pipeline.contracts))
    with own_engine(lake) as engine:
        counting = _Counting(lake, pipeline, engine, states)
        found = [
            *counting.landed(),
            *counting.current(),
            *counting.in_window(),
            *counting.learnt(),
        ]
    if days is not None:
        found = [balance for balance in found if balance.day in days]
    return LayersReport(tuple(found))


@dataclass(frozen=True)
class _Counting:
    lake: Lake
    pipeline: Pipeline
    engine: "DuckDBPyConnection"
    states: States

    def landed(self) -> Iterator[Balance]:
        """Yield per arrival day and source: rows that landed against the tables that a load
        writes."""
        for raw in (c for c in self.pipeline.contracts if c.is_landed):
            latest = self.states.view.table(raw.name).latest
            parts = {raw.name: self._table_rows(raw.name)}
            parts |= {
                n: self._table_rows(source_table_name(n, raw.source))
                for n in (QUARANTINE, TOO_LATE)
            }
            parts["duplicates"] = {d: r.entry.counts.get(DUPLICATES, 0) for d, r in latest.items()}
            landed = {"landed": landed_rows(read_files(self.lake.store, raw.source))}
            if vanished := vanished_keys({d: r.entry for d, r in latest.items()}):
                landed["vanished from dumps"] = vanished
            source = self.states.view.source(raw.name)
            for balance in self._daily_balances(
                f"landed rows of {raw.name}", raw.name, landed, parts
            ):
                if is_whole(source, balance.day):
                    yield balance
                else:
                    yield replace(balance, state=State.PENDING)

    def current(self) -> Iterator[Balance]:
        """Yield balances per event day and source: current events by raw's deliveries against
        current rows of staging."""
        for staging, raw in landed_by_versions(self.pipeline.contracts).items():
            by_raw = self._count_days(CURRENT.format(raw=self._table_select(raw)))
            rows = self._table_select(staging)
            by_staging = self._count_days(
                f"SELECT event_date AS d FROM {rows} WHERE known_until IS NULL"
            )
            one, other = {f"current by {raw}": by_raw}, {f"current in {staging}": by_staging}
            yield from self._daily_balances(f"current events of {staging}", staging, one, other)

    def in_window(self) -> Iterator[Balance]:
        """Yield per feature day: entities with an event in the window against rows of both tables
        of features."""
        tables = learning_tables(self.pipeline)
        if tables is None:
            return
        hours = self.lake.settings.features.cutoff_grace_hours
        yield from self._feature_balances(tables.now, NOW)
        yield from self._feature_balances(tables.as_known, AT_CUT.format(hours=hours))

    def _feature_balances(self, features: Contract, known: str) -> Iterator[Balance]:
        """Yield the balances of one table of features; `known` is the condition that an event is
        known to it."""
        made = sorted(self.states.view.table(features.name).latest)
        if not made:
            return
        staging = features.inputs[0]
        entity = [f"s.{quoted_name(k)}" for k in features.key if k != features.day_column]
        query = IN_WINDOW.format(
            entity=", ".join(entity),
            days=", ".join(f"(DATE '{d}')" for d in made),
            staging=self._table_select(staging.table),
            before=staging.before,
            known=known,
            named=" AND ".join(f"{column} IS NOT NULL" for column in entity),
        )
        one = {f"entities with events in {staging.table}": self._count_days(query)}
        rows = {features.name: self._table_rows(features.name)}
        yield from self._daily_balances(f"rows of {features.name}", features.name, one, rows)

    def learnt(self) -> Iterator[Balance]:
        """Yield per feature day: rows as known against rows with a mature label and rows without
        one."""
        tables = learning_tables(self.pipeline)
        if tables is None:
            return
        features, labels, learnt = tables.as_known, tables.labels, tables.learnt
        same = " AND ".join(f"f.{quoted_name(k)} = l.{quoted_name(k)}" for k in features.key)
        days = {
            "day": quoted_name(features.day_column),
            "label_day": quoted_name(labels.day_column),
            "same": same,
        }
        query = UNLABELLED.format(
            features=self._table_select(features.name),
            labels=self._table_select(labels.name),
            **days,
        )
        parts = {
            learnt.name: self._table_rows(learnt.name),
            "without a mature label": self._count_days(query),
        }
        yield from self._daily_balances(
            "features and labels",
            learnt.name,
            {features.name: self._table_rows(features.name)},
            parts,
        )

    def _daily_balances(
        self, name: str, table: str, one: Mapping[str, Counts], other: Mapping[str, Counts]
    ) -> Iterator[Balance]:
        days = set[date]().union(*one.values(), *other.values())
        for day in sorted(days):
            left, right = _counts_on(day, one), _counts_on(day, other)
            yield Balance(name, day, left, right, self.states.of(table, day))

    def _table_select(self, name: str) -> str:
        contract = self._known_contract(name)
        files = self.lake.store.data_files(contract) if self.lake.store.exists(name) else []
        return f"({rows_query(files, contract)})"

    def _known_contract(self, name: str) -> Contract:
        return known_tables(self.lake, self.pipeline)[name]

    def _table_rows(self, name: str) -> Counts:
        if not self.lake.store.exists(name):
            return {}
        day = quoted_name(self._known_contract(name).day_column)
        return self._count_days(f"SELECT {day} AS d FROM {self._table_select(name)}")

    def _count_days(self, query: str) -> Counts:
        return dict(self.engine.execute(f"SELECT d, count(*) FROM ({query}) GROUP BY 1").fetchall())


def _counts_on(day: date, side: Mapping[str, Counts]) -> dict[str, int]:
    return {name: counts.get(day, 0) for name, counts in side.items()}
