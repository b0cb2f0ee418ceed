"""What a model saw beside what is known today: training against today's features and mature labels, with the later
deliveries behind the differences.

Not here: matching the rows (`reconcile`). A difference is no error: training holds what was known at the cut.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.contracts import Basis, Contract, first_reading
from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ledgers import ARRIVALS, named
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.reconcile_report import ReconcileRequest


@dataclass(frozen=True)
class LearningTables:
    """The tables of a model by their roles: features as known at the cut, the same as known now, labels, and the join
    of the first with the labels, which a model learns from."""

    as_known: Contract
    now: Contract
    labels: Contract
    learnt: Contract


@dataclass(frozen=True)
class LaterDelivery:
    """Deliveries of an arrival day for events in the window of a feature day; they arrived after that day."""

    day: date
    arrival_day: date
    deliveries: int


def learning_tables(pipeline: Pipeline) -> LearningTables | None:
    """Return the tables by facts of their contracts; None for a lake without them. Features as known now have the same
    columns and read the same days of the same inputs, by content in place of the cut."""
    as_known = first_reading(pipeline.contracts, Basis.KNOWN_AT_CUT)
    if as_known is None:
        return None
    others = [c for c in pipeline.contracts if c is not as_known]
    read = {c.name: {i.table for i in c.inputs} for c in others}
    as_now = tuple(replace(i, basis=Basis.CONTENT) for i in as_known.inputs)
    now = next((c for c in others if c.inputs == as_now and c.column_names == as_known.column_names), None)
    labels = next((c for c in others if as_known.name in read[c.name] and len(c.inputs) > 1), None)
    learnt = next((c for c in others if labels and read[c.name] == {as_known.name, labels.name}), None)
    return LearningTables(as_known, now, labels, learnt) if now and labels and learnt else None


def truths_request(pipeline: Pipeline, days: DayRange | None = None) -> ReconcileRequest:
    """Return the request that holds training against today's features and mature labels.

    Raises BackfillError for a lake without these tables.
    """
    tables = learning_tables(pipeline)
    if tables is None:
        raise BackfillError(
            "the reconciliation with today's truths", "the lake has no features as known, labels and their join",
            "Nothing was compared", "Name both sides: backfill-assets reconcile LEFT --with RIGHT",
        )  # fmt: skip
    learnt, labels = tables.learnt, tables.labels
    day, label_day = quoted(learnt.day_column), quoted(labels.day_column)
    same = " AND ".join([f"f.{day} = l.{label_day}", *(f"f.{quoted(k)} = l.{quoted(k)}" for k in learnt.key)])
    of_features = set(tables.now.column_names)
    columns = ", ".join(f"{'f' if c in of_features else 'l'}.{quoted(c)}" for c in learnt.column_names)
    query = f"SELECT {columns} FROM {quoted(tables.now.name)} f JOIN {quoted(labels.name)} l ON {same}"
    return ReconcileRequest(learnt.name, f"duckdb:{query} WHERE l.label_state = 'mature'", days=days)


def later_deliveries(lake: Lake, pipeline: Pipeline, days: Collection[date]) -> list[LaterDelivery]:
    """Return, per feature day and arrival day, the deliveries that arrived after the day for events in its window.

    By the ledger `arrivals`; ordered by day, then arrival day.
    """
    as_known = first_reading(pipeline.contracts, Basis.KNOWN_AT_CUT)
    if as_known is None or not days:
        return []
    ledger, before = named(ARRIVALS, _source(pipeline, as_known)), as_known.inputs[0].before
    listed = ", ".join(f"(DATE '{d}')" for d in sorted(days))
    query = (
        f"SELECT day, arrival_date, CAST(sum(deliveries) AS BIGINT) AS n FROM (VALUES {listed}) AS wanted (day) "
        "JOIN ledger ON arrival_date > day AND event_date <= day "
        f"AND event_date >= day - INTERVAL '{before}' DAY GROUP BY 1, 2 ORDER BY 1, 2"
    )
    found = lake.store.query(query, {"ledger": (ledger, None)}) if lake.store.exists(ledger) else ()
    return [LaterDelivery(*r) for b in found for r in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def _source(pipeline: Pipeline, as_known: Contract) -> str:
    """Return the name of the source whose deliveries reach the table."""
    contracts = {c.name: c for c in pipeline.contracts}
    staging = contracts[as_known.inputs[0].table]
    return contracts[staging.inputs[0].table].source
