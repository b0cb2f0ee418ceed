"""Random declared features over awkward rows, on both engines: each is equal, or refused by name before it runs.

Lives here: drawing declarations (typed expressions of what Spark SQL offers) and rows, and asking both engines for many
of them at once, over Spark Connect. Does not live here: functions one by one (`second_engine_catalogue`), and what the
right answer is (`pipeline.transforms.test_declared`).

usage: python -m backfill_assets_tests.second_engine_features EXAMPLES COLUMNS
"""

import json
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.second_engine_settings import unequal_settings
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.declared import Declared, declared
from backfill_assets.pipeline.declared_tables import features
from backfill_assets_tests.second_engine_probe import session_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]
Drawn = tuple[date, Any, bool]  # the era, staging as Arrow, and whether the cut counts
Column = dict[str, Any]
PAYLOAD = {
    "entity": "STRING", "n": "BIGINT", "k": "INT", "x": "DOUBLE", "total": "DECIMAL(18,2)", "big": "DECIMAL(28,9)",
    "o": "BOOLEAN", "s": "STRING", "d": "DATE", "t": "TIMESTAMP",
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
        "year({DATE}) < 1970",
    ],
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
             pa.string(), pa.date32(), instant]  # fmt: skip
    made = [pa.array([f"key {i}" for i in range(len(rows))])]
    made += [pa.array([r[i] for r in rows], instant) for i in (0, 1)]
    made.append(pa.array([r[2] and r[1] + timedelta(hours=r[2]) for r in rows], instant))
    made.append(pa.array([r[0].date() for r in rows], pa.date32()))
    made += [pa.array([r[3][i] for r in rows], kind) for i, kind in enumerate(kinds)]
    return pa.table(made, ["event_key", "event_ts", "known_from", "known_until", "event_date", *PAYLOAD])


def taken(asked: Sequence[Column]) -> tuple[list[Declared], list[str]]:
    """The columns that Spark takes and Sail does not refuse; and the names that it refuses, as often as it does."""
    found, refused = list[Declared](), list[str]()
    for column in asked:
        source = {"files": "*.csv", "format": "csv", "select": "seq", "payload": PAYLOAD}
        told = {"start_date": ERAS[1], "source": source, "features": {"columns": [column]}}
        try:
            made = LakeSettings.model_validate(told)
            (compiled,) = declared(made)
        except SettingsError:
            continue
        names = {name for u in unequal_settings(made, [t.contract for t in features(made)]) for name in u.names}
        refused += names
        found += [] if names else [compiled]
    return found, refused


def answers(session: "SparkSession", drawn: Drawn, columns: Sequence[Declared]) -> list[str]:
    """Each row of the features, as text, in one order: on days before, within and after those of the events."""
    from backfill_assets.pipeline.transforms.declared import at_cut, now

    era, rows, known = drawn
    days, made = DayRange(era - ONE_DAY, era + ONE_DAY * (EVENT_DAYS + AROUND)), [c.aggregation for c in columns]
    frame = session.createDataFrame(rows)
    frame = at_cut(frame, days, ["entity"], made, 2) if known else now(frame, days, ["entity"], made)
    typed = [f"CAST({c.name} AS {c.type}) AS {c.name}" for c in made]
    table = frame.selectExpr("CAST(feature_date AS STRING) AS feature_date", "entity", *typed).toArrow()
    # Read as what Python holds of any era: microseconds, and a DOUBLE to its last bit.
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


def compared(sessions: Sequence["SparkSession"], drawn: Drawn, made: Sequence[Declared]) -> Iterator[dict[str, Any]]:
    """What differs; where an engine raises, of each half apart, down to the columns for which one alone raises."""
    told: list[list[str] | str] = []
    for session in sessions:
        try:
            told.append(answers(session, drawn, made))
        except Exception as error:  # noqa: BLE001 - the engine's, whatever it is
            told.append(str(error).splitlines()[0][:200])
    spark, sail = told
    if isinstance(spark, list) and isinstance(sail, list):
        yield from [found] if (found := difference(made, spark, sail)) else []
    elif len(made) > 1:
        half = len(made) // 2
        yield from compared(sessions, drawn, made[:half])
        yield from compared(sessions, drawn, made[half:])
    elif isinstance(spark, list) or isinstance(sail, list):
        yield {said(made[0]): [x if isinstance(x, str) else "does not raise" for x in told]}


def said(column: Declared) -> str:
    """A column as it was declared."""
    return f"{column.aggregation.agg} of {column.of} where {column.where}"


def difference(asked: Sequence[Declared], spark: Sequence[str], sail: Sequence[str]) -> dict[str, Any]:
    """The declared columns whose values differ in rows of the same place, and the first of these; {}: none does."""
    if len(spark) != len(sail):
        return {"rows": [len(spark), len(sail)]}
    found: dict[str, Any] = {}
    for one, other in zip(map(json.loads, spark), map(json.loads, sail), strict=True):
        for place, column in enumerate(asked, 2):
            if one[:2] != other[:2] or one[place] != other[place]:
                found.setdefault(said(column), [one[:2], other[:2], one[place], other[place]])
    return found


def main() -> None:
    """Draw and ask; prints what differs and how much was asked."""
    examples, columns = map(int, sys.argv[1:3])
    told: dict[str, Any] = {"asked": 0, "other": [], "refused": {}}
    logging.disable(logging.CRITICAL)
    with session_on("embedded") as spark, session_on("sail") as sail:

        @settings(
            max_examples=examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(versions(), declarations(columns), st.booleans())
        def hold(drawn: tuple[date, list[Row]], asked: list[Column], known: bool) -> None:
            made, refused = taken(asked)
            told["asked"] += len(made)
            for name in refused:
                told["refused"][name] = told["refused"].get(name, 0) + 1
            told["other"] += compared((spark, sail), (drawn[0], staging(drawn[1]), known), made)

        hold()
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
