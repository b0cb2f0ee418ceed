"""What a model saw beside what is known today: training against today's features and mature labels, with the later
deliveries behind the differences.

Not here: matching the rows (`reconcile`). A difference is no error: training holds what was known at the cut.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ledgers import ARRIVALS, named
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.reconcile_model import ReconcileRequest

LEARNT, NOW, LABELS = "training", "features", "labels"


@dataclass(frozen=True)
class LaterDelivery:
    """Deliveries of an arrival day for events in the window of a feature day; they arrived after that day."""

    day: date
    arrival_day: date
    deliveries: int


def truths_request(pipeline: Pipeline, days: DayRange | None = None) -> ReconcileRequest:
    """Return the request that holds training against today's features and mature labels.

    Raises BackfillError for a lake without these tables.
    """
    contracts = {c.name: c for c in pipeline.contracts}
    if lacking := sorted({LEARNT, NOW, LABELS} - set(contracts)):
        raise BackfillError(
            "the reconciliation with today's truths", f"the lake has no table {', '.join(lacking)}",
            "Nothing was compared", "Name both sides: backfill-assets reconcile LEFT --with RIGHT",
        )  # fmt: skip
    training, labels = contracts[LEARNT], contracts[LABELS]
    day, label_day = quoted(training.day_column), quoted(labels.day_column)
    same = " AND ".join([f"f.{day} = l.{label_day}", *(f"f.{quoted(k)} = l.{quoted(k)}" for k in training.key)])
    columns = ", ".join(f"{'l' if c == 'label' else 'f'}.{quoted(c)}" for c in training.column_names)
    query = f"SELECT {columns} FROM {NOW} f JOIN {LABELS} l ON {same} WHERE l.label_state = 'mature'"
    return ReconcileRequest(LEARNT, f"duckdb:{query}", days=days)


def later_deliveries(lake: Lake, pipeline: Pipeline, days: Collection[date]) -> list[LaterDelivery]:
    """Return, per feature day and arrival day, the deliveries that arrived after the day for events in its window.

    By the ledger `arrivals`; ordered by day, then arrival day.
    """
    as_known = next((c for c in pipeline.contracts if any(i.basis is Basis.KNOWN_AT_CUT for i in c.inputs)), None)
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
