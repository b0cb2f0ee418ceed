"""How late deliveries came, read exactly from raw; and which labels late deliveries turned. No JVM.

Lives here: reading raw's times through delta-rs into counts and exact quantiles, and label flips as one query. Does not
live here: what follows from the counts (`core.lateness`) and the report (`operations.lateness`). Of a row only two
whole numbers are held (arrival and event, microseconds), and what sorting takes: measured 0.8 GiB for 10 million rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from backfill_assets.core.cuts import horizon_steps, matures_after, newest_mature
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.lateness import Cell
from backfill_assets.lake.settings import LabelSettings
from backfill_assets.lake.store import TableStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

PinnedTables = dict[str, tuple[str, int | None]]
EPOCH = date(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
DAY_US = ONE_DAY // MICROSECOND
PERMILLES = (500, 900, 990)
MATURITIES_DAYS = (0, 7, 14, 30, 90)  # what people choose among: at once, a week, two, a month, a quarter


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


@dataclass(frozen=True)
class Flip:
    """Of `labels` that were mature with `maturity_days` back then, `flipped` are different as known now."""

    maturity_days: int
    labels: int
    flipped: int


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


def flips(
    store: TableStore,
    tables: tuple[tuple[str, int], tuple[str, int]],
    labels: LabelSettings,
    since: datetime,
    days: DayRange | None = None,
) -> tuple[Flip, ...]:
    """Of the labels that were mature at `since` (aware), how many the versions answer otherwise now.

    One answer per MATURITIES_DAYS. `tables` are one of known intervals of events and one of entities per day that are
    asked for, each as (name, version). Counted are entities and days asked for (of `days`, if given) with
    day + 1 + horizon + maturity days <= since. Known at an instant are the versions with known_from < instant <=
    known_until (NULL: no end): what arrives at the instant itself is not yet known.
    """
    asked: PinnedTables = dict(zip(("versions", "asked"), tables, strict=True))
    last = [newest_mature(since, matures_after(labels.horizon_days, m)) for m in MATURITIES_DAYS]
    found = next(_rows(store, asked, _flips_sql(labels, since.astimezone(UTC), days, last)))
    return tuple(Flip(m, found[f"labels_{i}"], found[f"flipped_{i}"]) for i, m in enumerate(MATURITIES_DAYS))


def _flips_sql(labels: LabelSettings, since: datetime, days: DayRange | None, last: Sequence[date]) -> str:
    """What is ahead and behind comes by sums of differences (`horizon_steps`).

    So each event costs three rows whatever the horizon. Of the two answers, `_then` is as known at `since`.
    """
    amount = "1" if labels.measure == "events" else f"CAST({labels.measure} AS BIGINT)"
    instant = f"TIMESTAMP '{since:%Y-%m-%dT%H:%M:%S.%fZ}'"
    changes = " UNION ALL ".join(
        f"SELECT entity, event_day + {shift} AS day, {a} * now AS ahead_now, {b} * now AS behind_now, "
        f"{a} * back_then AS ahead_then, {b} * back_then AS behind_then, 0 AS asked FROM daily"
        for shift, a, b in horizon_steps(labels.horizon_days)
    )
    parts = ("ahead_now", "behind_now", "ahead_then", "behind_then")
    summed = ", ".join(f"sum({p}) AS {p}" for p in parts)
    running = ", ".join(f"sum({p}) OVER so_far AS {p}" for p in parts)
    # `|| ''` drops the columns' comments: the engine refuses a UNION of columns whose metadata differ.
    now, then = ("ahead_{0} > " + ("0" if labels.rule == "any" else "behind_{0}") for _ in range(2))
    within = f"AND feature_date BETWEEN DATE '{days.start}' AND DATE '{days.last}'" if days else ""
    ripe = [f"day <= {(day - EPOCH).days}" for day in last]
    counts = [f"count(*) FILTER (WHERE {r}) AS labels_{i}" for i, r in enumerate(ripe)]
    counts += [f"count(*) FILTER (WHERE {r} AND now <> back_then) AS flipped_{i}" for i, r in enumerate(ripe)]
    return f"""
    WITH daily AS (
      SELECT entity || '' AS entity, CAST(event_date AS INT) AS event_day,
        coalesce(sum({amount}) FILTER (WHERE known_until IS NULL), 0) AS now,
        coalesce(sum({amount}) FILTER (
          WHERE known_from < {instant} AND (known_until IS NULL OR known_until >= {instant})), 0) AS back_then
      FROM versions WHERE entity IS NOT NULL GROUP BY 1, 2),
    points AS ({changes} UNION ALL
      SELECT entity || '' AS entity, CAST(feature_date AS INT), 0, 0, 0, 0, 1 FROM asked
      WHERE feature_date <= DATE '{max(last)}' {within}),
    days AS (SELECT entity, day, {summed}, max(asked) AS asked FROM points GROUP BY 1, 2),
    sums AS (SELECT day, asked, {running} FROM days
      WINDOW so_far AS (PARTITION BY entity ORDER BY day ROWS UNBOUNDED PRECEDING)),
    answers AS (SELECT day, {now.format("now")} AS now, {then.format("then")} AS back_then FROM sums WHERE asked = 1)
    SELECT {", ".join(counts)} FROM answers"""


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
