"""Random declarations for both engines, and awkward rows for them: what is drawn, by Hypothesis.

Lives here: typed expressions of what Spark SQL offers, declared columns of these, rows of staging as Arrow, and answers
as texts. Does not live here: labels (`second_engine_labels`) and asking the engines (there, `second_engine_features`).
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY

Row = tuple[Any, ...]
Column = dict[str, Any]
PAYLOAD = {
    "entity": "STRING", "n": "BIGINT", "k": "INT", "x": "DOUBLE", "total": "DECIMAL(18,2)", "big": "DECIMAL(28,9)",
    "o": "BOOLEAN", "s": "STRING", "d": "DATE", "t": "TIMESTAMP", "z": "BINARY", "l": "ARRAY<STRING>",
    "r": "ARRAY<DOUBLE>", "value": "BIGINT NOT NULL", "flag": "INT NOT NULL",
}  # fmt: skip
ERAS = (date(1969, 12, 29), date(2024, 2, 27), date(9999, 12, 20))
EVENT_DAYS, AROUND = 6, 3
# Expressions by the type they give; a name in braces stands for any expression of that type. Of those after ! it is
# known that Sail is not let do them.
MADE_FROM: dict[str, list[str]] = {
    "BIGINT": [
        "n", "n", "cast({INT} AS BIGINT)", "!try_add({BIGINT}, {INT})", "try_add({BIGINT}, {BIGINT})", "!n * 2",
        "try_subtract({BIGINT}, {BIGINT})",
        "try_multiply({BIGINT}, {INT})", "coalesce({BIGINT}, 0)", "CASE WHEN {TRUTH} THEN {BIGINT} END",
        "greatest({BIGINT}, {BIGINT})", "least(n, {BIGINT})", "cast({DECIMAL} AS BIGINT)", "cast({TEXT} AS BIGINT)",
        "if({TRUTH}, {BIGINT}, n)", "cast(floor({DECIMAL}) AS BIGINT)", "!cast(t AS BIGINT)", "!nullif({BIGINT}, 0)",
        "cast(unix_micros({TIME}) AS BIGINT)", "mod(n, 7)", "!cast(datediff({DATE}, {DATE}) AS BIGINT)",
        "cast(sign({INT}) AS BIGINT)", "cast(xxhash64({TEXT}) AS BIGINT)", "cast(shiftleft(n, 3) AS BIGINT)",
    ],
    "INT": [
        "k", "k", "length({TEXT})", "year({DATE})", "month({TIME})", "hour({TIME})", "day({DATE})", "coalesce(k, 0)",
        "cast({BIGINT} AS INT)", "cast({TEXT} AS INT)", "cast(dayofweek({DATE}) AS INT)", "minute({TIME})", "!k + 1",
        "try_multiply(k, {INT})", "!CASE WHEN {TRUTH} THEN {INT} ELSE k END", "cast(quarter({DATE}) AS INT)",
        "cast(dayofyear({DATE}) AS INT)", "cast(instr({TEXT}, 'a') AS INT)", "!cast(weekday({DATE}) AS INT)",
        "cast(size(l) AS INT)", "cast(octet_length({BYTES}) AS INT)", "cast(get(r, 1) AS INT)",
        "cast(octet_length({TEXT}) AS INT)", "cast({TRUTH} AS INT)", "cast(x AS INT)",
    ],
    "DECIMAL": [
        "total", "big", "total + 1", "total * cast(2 AS DECIMAL(3,0))", "coalesce(total, 0)", "abs({DECIMAL})",
        "cast({DECIMAL} AS DECIMAL(18,2))", "cast({DECIMAL} AS DECIMAL(12,4))", "cast({BIGINT} AS DECIMAL(20,0))",
        "!cast({TEXT} AS DECIMAL(18,2))", "CASE WHEN {TRUTH} THEN total END", "cast(x AS DECIMAL(18,2))", "-total",
        "!cast(round({DECIMAL}, 1) AS DECIMAL(18,2))", "!nullif({DECIMAL}, 0)", "!cast(total / 3 AS DECIMAL(18,4))",
        "greatest(total, cast(k AS DECIMAL(18,2)))", "!CASE WHEN {TRUTH} THEN {DECIMAL} ELSE k END",
    ],
    "TEXT": [
        "s", "s", "upper({TEXT})", "lower({TEXT})", "trim({TEXT})", "concat({TEXT}, '-', s)", "substr({TEXT}, 1, 2)",
        "cast({INT} AS STRING)", "cast({BIGINT} AS STRING)", "cast({DATE} AS STRING)", "cast({TRUTH} AS STRING)",
        "coalesce({TEXT}, 'ä')", "CASE WHEN {TRUTH} THEN {TEXT} END", "!nullif(s, '')", "reverse({TEXT})", "!s || 'ß'",
        "replace({TEXT}, 'a', '日')", "cast({DECIMAL} AS STRING)", "!cast(x AS STRING)", "!cast(t AS STRING)",
        "concat_ws(',', s, event_key)", "regexp_replace(s, '[a-z]', '_')", "!substring({TEXT}, 2, 2)", "!initcap(s)",
        "cast(hex({BYTES}) AS STRING)", "cast(get(l, 1) AS STRING)", "cast(array_join(l, '|') AS STRING)",
        "cast(sha2({BYTES}, 256) AS STRING)", "!cast(l AS STRING)", "cast(array_max(l) AS STRING)", "cast(z AS STRING)",
        "cast(lpad({TEXT}, 3, '0') AS STRING)", "cast(md5({TEXT}) AS STRING)",
    ],
    "DATE": [
        "d", "d", "cast({TIME} AS DATE)", "cast({TEXT} AS DATE)", "coalesce({DATE}, DATE '1969-07-20')",
        "cast(last_day({DATE}) AS DATE)", "cast(date_add(d, 1) AS DATE)", "CASE WHEN {TRUTH} THEN {DATE} END",
        "cast(add_months({DATE}, -1) AS DATE)", "!cast(date_trunc('month', d) AS DATE)",
    ],
    "TIME": [
        "t", "event_ts", "cast({DATE} AS TIMESTAMP)", "cast({TEXT} AS TIMESTAMP)", "coalesce({TIME}, event_ts)",
        "CASE WHEN {TRUTH} THEN {TIME} END", "cast(t - INTERVAL '1' HOUR AS TIMESTAMP)",
        "!cast(date_trunc('hour', t) AS TIMESTAMP)", "!cast({INT} AS TIMESTAMP)",
    ],
    "TRUTH": [
        "o", "o", "NOT {TRUTH}", "{BIGINT} > 0", "{INT} <= k", "{TEXT} LIKE 'a%'", "{TEXT} = s", "x > 0.5D", "x = x",
        "{DECIMAL} BETWEEN -1 AND 10", "{DATE} < DATE '1970-01-01'", "{TIME} >= event_ts", "{TRUTH} OR {INT} IS NULL",
        "o AND {TRUTH}", "!isnan(x)", "{TEXT} IN ('a', 'ä日', '')", "{TEXT} < 'b'", "{BIGINT} IN (1, 2, NULL)",
        "n <=> {BIGINT}", "{DECIMAL} = total", "!{TEXT} RLIKE '^[a-z]+$'", "s ILIKE 'Ä%'", "{TEXT} IS NOT NULL",
        "contains({TEXT}, 'a')", "startswith(s, {TEXT})", "{DECIMAL} > {INT}", "{BIGINT} > {DECIMAL}",
        "year({DATE}) < 1970", "z = {BYTES}", "{BYTES} IS NULL", "z < {BYTES}", "l IS NULL", "l = {TEXTS}",
        "!array_contains(l, {TEXT})", "arrays_overlap(l, array({TEXT}, 'a'))",
    ],
    "BYTES": ["z", "z", "coalesce(z, z)", "CASE WHEN {TRUTH} THEN z END", "!cast({TEXT} AS BINARY)"],
    "TEXTS": ["l", "l", "coalesce(l, l)", "CASE WHEN {TRUTH} THEN l END", "!cast(array({TEXT}) AS ARRAY<STRING>)"],
    "NUMBERS": ["r", "CASE WHEN {TRUTH} THEN r END"],
    "DOUBLE": ["x", "cast({INT} AS DOUBLE)", "x * 2"],
}  # fmt: skip
AGGS = ("count", "sum", "sum", "avg", "min", "max", "first", "last", "days_since_last", "count", "distinct")
HOLE, DEPTH, REFUSED = re.compile(r"\{(\w+)\}"), 2, "!"
TYPES = [*MADE_FROM] * 2
TYPES.remove("DOUBLE")  # all of its aggregates are refused: looked at less often
VALUES: tuple[Sequence[Any], ...] = (
    ["A", "A", "Ä", None], [None, 0, 1, -1, 10, 2**53 + 1, 2**63 - 1, -(2**63)], [None, 0, 7, -3, 2**31 - 1, -(2**31)],
    [None, 0.0, -0.0, 0.1, 1.5, 1e300, float("nan"), float("inf"), float("-inf")],
    [None, Decimal("0.01"), Decimal("-9999999999999999.99"), Decimal("12.50"), Decimal("0.05"), Decimal("-2.45")],
    [None, Decimal("9999999999999999999.999999999"), Decimal("-0.000000001"), Decimal("2.500000000")],
    [None, True, False], [None, "", "a", "ä日", "B ", "straße İI", "e\u0301", "😀a", "12", "-1.5", "2024-02-29", "NaN"],
    [None, date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
    [None, *map(datetime.fromisoformat, (
        "0001-01-01T00:00:00Z", "1883-11-18T12:00:00Z", "1969-12-31T23:59:59.999999Z", "2024-03-31T02:30:00Z",
        "9999-12-31T23:59:59.999999Z",
    ))],
    [None, b"", b"a", b"\x00\xff", "ä".encode()], [None, [], ["a"], ["", None, "ä日"], ["12", "B "], [None]],
    [None, [], [0.1, None], [-0.0, float("nan")], [1.0, 2.5]], [0, 3, -7, 2**63 - 1], [0, 1],
)  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, kind: str, depth: int = DEPTH, tame: bool = True) -> str:
    """An expression that gives that type, of so many calls within each other at the most; `tame`: not meant to be
    refused."""
    known = [t for t in MADE_FROM[kind] if (depth or not HOLE.search(t)) and not (tame and t.startswith(REFUSED))]
    template = draw(st.sampled_from(known)).removeprefix(REFUSED)
    return HOLE.sub(lambda hole: draw(expressions(hole[1], depth - 1, tame)), template)


@st.composite
def declarations(draw: st.DrawFn, columns: int) -> list[Column]:
    """So many declared columns, of which some are refused by all engines."""
    found: list[Column] = []
    for place in range(columns):
        agg, kind, tame = draw(st.sampled_from(AGGS)), draw(st.sampled_from(TYPES)), draw(st.integers(0, 3)) > 0
        if agg in ("sum", "avg"):
            kind = draw(st.sampled_from(["BIGINT", "INT", "DECIMAL"]))
        column = {
            "name": f"c{place}",
            "agg": agg,
            "days": draw(st.integers(1, 4)),
            "of": draw(expressions(kind, DEPTH, tame)),
        }
        where = draw(st.one_of(st.none(), expressions("TRUTH", 1)))
        found.append(column | ({"where": where} if where else {}))
    return found


@st.composite
def versions(draw: st.DrawFn) -> tuple[date, list[Row]]:
    """The first day of an era, and rows of staging in it: events, from when until when each was known, payloads."""
    era = draw(st.sampled_from(ERAS))
    moments = st.builds(
        lambda day, moment: datetime.combine(era + ONE_DAY * day, moment, UTC),
        st.integers(0, EVENT_DAYS - 1), st.sampled_from([time(), time(9), time(23, 59, 59, 999999)]),
    )  # fmt: skip
    until = st.none() | st.integers(1, 90)
    row = st.tuples(moments, moments, until, st.tuples(*map(st.sampled_from, VALUES)))
    return era, draw(st.lists(row, min_size=10, max_size=30))


def staging(rows: Sequence[Row]) -> Any:
    """The rows as Arrow."""
    import pyarrow as pa

    instant = pa.timestamp("us", "UTC")
    kinds = [pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.decimal128(18, 2), pa.decimal128(28, 9), pa.bool_(),
             pa.string(), pa.date32(), instant, pa.binary(), pa.list_(pa.string()), pa.list_(pa.float64()), pa.int64(),
             pa.int32()]  # fmt: skip
    made = [pa.array([f"key {i}" for i in range(len(rows))])]
    made += [pa.array([r[i] for r in rows], instant) for i in (0, 1)]
    made.append(pa.array([r[2] and r[1] + timedelta(hours=r[2]) for r in rows], instant))
    made.append(pa.array([r[0].date() for r in rows], pa.date32()))
    made += [pa.array([r[3][i] for r in rows], kind) for i, kind in enumerate(kinds)]
    return pa.table(made, ["event_key", "event_ts", "known_from", "known_until", "event_date", *PAYLOAD])


def rows_of(frame: Any) -> list[str]:
    """Each row of a frame of either engine as a text, in one order: read as what Python holds of any era, which is days
    and microseconds since 1970, and a DOUBLE to its last bit."""
    table = frame.toArrow()
    return sorted(
        json.dumps([_text(v) for v in row], ensure_ascii=False)
        for row in zip(*(_whole(c).to_pylist() for c in table.columns), strict=True)
    )


def _whole(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, float) else str(value)
