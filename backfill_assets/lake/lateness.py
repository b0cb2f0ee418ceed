"""Lateness of deliveries, read exactly from raw through delta-rs (no JVM): counts and quantiles.

Not here: turned labels (`label_flips`), conclusions from the counts (`core.lateness`), the report
(`operations.lateness`). A row takes two whole numbers (arrival and event, microseconds) and the memory to sort them:
measured 0.8 GiB for 10 million rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.lateness import Cell
from backfill_assets.lake.store import TableStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

PinnedTables = dict[str, tuple[str, int | None]]  # name in a query -> table and version
EPOCH = date(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
DAY_US = ONE_DAY // MICROSECOND
PERMILLES = (500, 900, 990)


@dataclass(frozen=True)
class Spread:
    """Lateness of some rows, in seconds, exact: quantiles between two rows are interpolated linearly."""

    rows: int
    least_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    greatest_s: float


@dataclass(frozen=True)
class Lateness:
    """The upserts of raw: rows per arrival day and event day, lateness per day and over all (None: there are none).

    `early` are upserts that arrived before their event's time; `deletes` have no lateness and count nowhere else.
    """

    cells: tuple[Cell, ...] = ()
    overall: Spread | None = None
    by_arrival: tuple[tuple[date, Spread], ...] = ()
    by_event: tuple[tuple[date, Spread], ...] = ()
    early: int = 0
    deletes: int = 0


def read_lateness(store: TableStore, raw: str, version: int, days: DayRange | None = None) -> Lateness:
    """Lateness of the deliveries in `version` of the table `raw` that arrived on `days` (half-open; None: all)."""
    asked = f"arrival_date BETWEEN DATE '{days.start}' AND DATE '{days.last}'" if days else "TRUE"
    times = "CAST(arrival_ts AS BIGINT) AS arrival_us, CAST(event_ts AS BIGINT) AS event_us"
    tables: PinnedTables = {"deliveries": (raw, version)}
    deletes = next(_rows(store, tables, f"SELECT count(*) AS deletes FROM deliveries WHERE op = 'delete' AND {asked}"))[
        "deletes"
    ]
    arrival, event = _columns(store, tables, f"SELECT {times} FROM deliveries WHERE op = 'upsert' AND {asked}")
    if not len(arrival):
        return Lateness(deletes=deletes)
    late = arrival - event
    early = int((late < 0).sum())
    arrival //= DAY_US
    event //= DAY_US
    cells = _cells(arrival, event)
    by_arrival, by_event = _spreads(arrival, late), _spreads(event, late)
    late.sort()
    return Lateness(cells, _spread(late), by_arrival, by_event, early, deletes)


def _rows(store: TableStore, tables: PinnedTables, sql: str) -> Iterator[dict[str, Any]]:
    for batch in store.query(sql, tables):
        names = [f.name for f in batch.schema]
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        yield from (dict(zip(names, row, strict=True)) for row in rows)


def _columns(store: TableStore, tables: PinnedTables, sql: str) -> "tuple[Column, Column]":
    """Two columns of whole numbers, of which batch after batch is copied, so that the engine's memory is let go."""
    import numpy as np

    batches = [(b.column(0).to_numpy().copy(), b.column(1).to_numpy().copy()) for b in store.query(sql, tables)]
    if not batches:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([first for first, _ in batches]), np.concatenate([second for _, second in batches])


def _cells(arrival: "Column", event: "Column") -> tuple[Cell, ...]:
    import numpy as np

    pairs, rows = np.unique((arrival << 32) + (event + (1 << 31)), return_counts=True)
    first, second = pairs >> 32, (pairs & ((1 << 32) - 1)) - (1 << 31)
    columns = zip(first.tolist(), second.tolist(), rows.tolist(), strict=True)
    return tuple(Cell(_day(a), _day(e), n) for a, e, n in columns)


def _spreads(days: "Column", late: "Column") -> tuple[tuple[date, Spread], ...]:
    """The spread of each day, ascending."""
    import numpy as np

    order = np.lexsort((late, days))
    sorted_late, sorted_days = late[order], days[order]
    starts = np.flatnonzero(np.diff(sorted_days, prepend=sorted_days[0] - 1))
    groups = np.split(sorted_late, starts[1:])
    return tuple((_day(day), _spread(group)) for day, group in zip(sorted_days[starts].tolist(), groups, strict=True))


def _spread(ascending: "Column") -> Spread:
    p50, p90, p99 = (_quantile(ascending, p) for p in PERMILLES)
    return Spread(len(ascending), int(ascending[0]) / 1e6, p50, p90, p99, int(ascending[-1]) / 1e6)


def _quantile(ascending: "Column", permille: int) -> float:
    """The quantile in seconds, between two rows by linear interpolation (type 7 of Hyndman and Fan 1996).

    In whole numbers up to the last division, so that a quantile that falls on a row is that row exactly.
    """
    below, rest = divmod((len(ascending) - 1) * permille, 1000)
    low, high = int(ascending[below]), int(ascending[min(below + 1, len(ascending) - 1)])
    return (low * 1000 + (high - low) * rest) / 1e9


def _day(number: int) -> date:
    return EPOCH + ONE_DAY * number
