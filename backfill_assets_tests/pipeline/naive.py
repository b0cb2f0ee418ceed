"""Declared columns said once more and naively, in DuckDB: every row is looked at on every day of
every window. Here: that query, and random versions of events to try it on. Not here: the
comparison. Nothing is shared with the product but the words of a declaration and the types they
take, so both cannot be wrong in the same way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.aggregation import UnfitAggregation, result_type
from backfill_assets_tests.pipeline.oracle import engine

FIRST = date(2024, 2, 24)  # a leap day lies within
EVENT_DAYS = 16
INSTANT = pa.timestamp("us", "UTC")
# `first` and `day` are names that the product uses inside, and that an entity may have.
STAGING = pa.schema(
    [
        ("event_key", pa.string()),
        ("event_ts", INSTANT),
        ("first", pa.int64()),
        ("day", pa.string()),
        ("number", pa.int32()),
        ("wide", pa.int64()),
        ("amount", pa.decimal128(18, 2)),
        ("size", pa.float64()),
        ("word", pa.string()),
        ("born", pa.date32()),
        ("yes", pa.bool_()),
        ("bytes", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("known_from", INSTANT),
        ("known_until", INSTANT),
        ("event_date", pa.date32()),
    ]
)
Names = Sequence[str]
ENTITY = ("first", "day")
TYPES = {
    "number": "INT",
    "wide": "BIGINT",
    "amount": "DECIMAL(18,2)",
    "size": "DOUBLE",
    "word": "STRING",
    "born": "DATE",
    "yes": "BOOLEAN",
    "event_ts": "TIMESTAMP",
    "bytes": "BINARY",
    "tags": "ARRAY<STRING>",
}
SOURCE = {
    "files": "*",
    "format": "parquet",
    "select": "*",
    "payload": {
        "first": "BIGINT",
        "day": "STRING",
        **{n: t for n, t in TYPES.items() if n != "event_ts"},
    },
}
FILTERS = (
    "",
    "yes",
    "NOT yes AND amount > 1",
    "word <> 'b' OR number < 0",
    "size >= 0.5",
    "wide IS NULL",
)
# Per column values that collide, NULL among them; two of `wide` do not fit 64 bits together.
VALUES: dict[str, tuple[Any, ...]] = {
    "number": (None, -3, 0, 7, 2**31 - 1),
    "wide": (None, 2**62, 2**62, -5, 1),
    "word": ("a", "b", "c", None),
    "amount": (None, Decimal("0.10"), Decimal("-2.35"), Decimal("9999999999999999.99")),
    "size": (None, 0.25, 0.0, -0.0, 1.5, -3.75),
    "born": (None, date(2000, 1, 1), date(1969, 5, 5)),
    "yes": (None, True, False, False),
    "bytes": (None, b"", b"\x00", b"a"),
    "tags": (None, [], ["a", None], ["b", "c"]),
}
AGGS = ("count", "sum", "avg", "min", "max", "first", "last", "distinct", "days_since_last")
TRAILING = tuple((0, days - 1) for days in (1, 2, 3, 5, 8, 13))


@dataclass(frozen=True)
class Asked:
    """A declared column as a person would write it; `first` .. `last` are days around the event
    that it counts for."""

    name: str
    agg: str
    of: str
    where: str
    first: int
    last: int

    def written(self) -> dict[str, Any]:
        """The column as `lake.toml` declares it; only of a trailing window."""
        told = {
            "name": self.name,
            "agg": self.agg,
            "days": self.last + 1,
            "of": self.of,
            "where": self.where,
        }
        return {key: value for key, value in told.items() if value != ""}


def settings(**more: Any) -> dict[str, Any]:
    """A lake whose one source delivers what `STAGING` holds."""
    return {"start_date": FIRST, "source": SOURCE, **more}


def declarations(random: Random, columns: int) -> list[Asked]:
    """Columns of any aggregation, type, filter and window that fit each other: every aggregation at
    least once."""
    found: list[Asked] = []
    while len(found) < columns:
        agg = AGGS[len(found) % len(AGGS)]
        of = random.choice(["", *TYPES] if agg in ("count", "days_since_last") else list(TYPES))
        try:
            result_type(agg, TYPES[of] if of else "INT")  # type: ignore[arg-type]
        except UnfitAggregation:
            continue
        found.append(
            Asked(f"c{len(found)}", agg, of, random.choice(FILTERS), *random.choice(TRAILING))
        )
    return found


def versions(random: Random, entities: int) -> Any:
    """Rows of staging: events of few entities, with versions that arrive late and are replaced, in
    any order."""
    rows = [
        row
        for entity in range(entities)
        for key in range(random.randint(1, 6))
        for row in _event(random, entity, key)
    ]
    random.shuffle(rows)
    return pa.Table.from_pylist(rows, STAGING)


def _event(random: Random, entity: int, key: int) -> Iterable[dict[str, Any]]:
    since = datetime.combine(FIRST, time()) + ONE_DAY * random.randrange(EVENT_DAYS)
    for _ in range(random.choice((1, 1, 2, 3))):
        event = datetime.combine(
            FIRST, time(random.choice((0, 7, 7)))
        ) + ONE_DAY * random.randrange(EVENT_DAYS)
        until = (
            since
            + ONE_DAY * random.randint(0, 9)
            + timedelta(hours=random.choice((0, 0, 5)), microseconds=1)
        )
        ends = random.random() < 0.5
        yield {
            "event_key": f"{entity}/{key}",
            "event_ts": event,
            "first": entity if random.random() < 0.95 else None,
            "day": random.choice(("x", "x", "y")),
            "known_from": since,
            "known_until": until if ends else None,
            "event_date": event.date(),
            **{name: random.choice(values) for name, values in VALUES.items()},
        }
        if not ends:
            return
        since = until


def answers(
    rows: Any,
    asked: Sequence[Asked],
    days: DayRange,
    *,
    known: bool,
    grace_hours: int = 0,
    entity: Names = ENTITY,
) -> Any:
    """Per entity and day with an event in reach the columns asked for, as Arrow: as known now, or
    at the day's cut."""
    connection, who = engine(), ", ".join(entity)
    connection.execute("SET timezone = 'UTC'")
    connection.register("versions", rows)
    cut = f"CAST(range AS TIMESTAMPTZ) + INTERVAL 1 DAY + INTERVAL {grace_hours} HOUR"
    at_cut = "s.known_from < x.cut AND (s.known_until IS NULL OR x.cut <= s.known_until)"
    reached = " OR ".join(
        f"x.d BETWEEN s.event_date + {a.first} AND s.event_date + {a.last}" for a in asked
    )
    return connection.sql(f"""
        SELECT {who}, {", ".join(f"{_spelled(a)} AS {a.name}" for a in asked)}, x.d AS at
        FROM (SELECT CAST(range AS DATE) AS d, {cut} AS cut
              FROM range(DATE '{days.start}', DATE '{days.end}', INTERVAL 1 DAY)) x
        JOIN versions s ON ({reached}) AND {at_cut if known else "s.known_until IS NULL"}
        WHERE {" AND ".join(f"{e} IS NOT NULL" for e in entity)} GROUP BY {who}, x.d
    """).to_arrow_table()


def _spelled(asked: Asked) -> str:
    of = f"({asked.of})" if asked.of else "1"
    if asked.of == "size":
        # -0.0 and 0.0 are one number, and least and greatest would choose one by chance.
        of = "(size + 0.0)"
    condition = f"({asked.where or 'TRUE'}) AND {of} IS NOT NULL"
    counted = (
        f"FILTER (WHERE x.d BETWEEN s.event_date + {asked.first} AND s.event_date + {asked.last} "
        f"AND {condition})"
    )
    ordered = "ORDER BY event_ts, event_key"
    said = {
        "count": f"count(*) {counted}",
        "distinct": f"count(DISTINCT {of}) {counted}",
        "avg": f"avg({of}) {counted}",
        "min": f"min({of}) {counted}",
        "max": f"max({of}) {counted}",
        "first": f"first({of} {ordered}) {counted}",
        "last": f"last({of} {ordered}) {counted}",
        "days_since_last": f"CAST(x.d - max(s.event_date) {counted} AS INT)",
        "sum": f"coalesce(sum({of}) {counted}, 0)",
    }[asked.agg]
    if asked.agg == "sum" and asked.of == "wide":
        return (
            f"CASE WHEN {said} BETWEEN -9223372036854775808 AND 9223372036854775807 THEN {said} END"
        )
    if asked.agg == "avg" and asked.of == "amount":  # DuckDB divides decimals as doubles
        return _mean(f"CAST(sum(amount) {counted} * 100 AS HUGEINT)", f"count({of}) {counted}")
    return said


def _mean(hundredths: str, count: str) -> str:
    """A quotient of whole numbers with six decimals, rounded half away from zero."""
    rounded = (
        f"(abs({hundredths}) * 20000 + {count}) // (2 * nullif({count}, 0)) * sign({hundredths})"
    )
    return f"CAST({rounded} AS DECIMAL(31, 0)) * CAST(0.000001 AS DECIMAL(7, 6))"
