"""Asks an engine the questions of the catalogue, and keeps what it answers: how the list of what
differs is made.

Lives here: asking over Spark Connect, answers in one form for both engines, and the answers of
Spark that are kept beside (`second_engine_answers.json`), digests of their parts. Does not live
here: the questions (`second_engine_catalogue`) and the list
(`engines.sail_differences`).

usage: python -m backfill_assets_tests.second_engine_probe embedded  # asks Spark (minutes), keeps
its answers
       python -m backfill_assets_tests.second_engine_probe sail      # asks Sail what Spark answers
"""

import hashlib
import json
import logging
import math
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.sail_differences import DIFFERENT, sql_differences
from backfill_assets.kernel.core.engines import SAIL
from backfill_assets_tests.second_engine_catalogue import (
    COLUMNS,
    ROWS,
    aggregates,
    queries,
    scalars,
    windows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWERS = Path(__file__).with_name("second_engine_answers.json")
RAISES, ANSWERS_IT = "!", "-"
KEYS = (frozenset({"id"}),)
TOGETHER, DIGITS = 20, 2
SCALAR, GROUPED = (
    "SELECT id, {} FROM rows {} ORDER BY id",
    "SELECT g AS id, {} FROM rows {} GROUP BY g ORDER BY g",
)
Answers = dict[str, list[str]]


def every() -> tuple[str, ...]:
    """All questions."""
    asked = [
        q
        for kind in (scalars(), aggregates(), windows())
        for questions in kind.values()
        for q in questions
    ]
    return (*dict.fromkeys(asked), *queries())


def is_let(question: str) -> bool:
    """Whether the product would let the second engine answer it."""
    query = question if question in queries() else f"SELECT {question} FROM rows"
    return not sql_differences(query, COLUMNS, KEYS)


def ask(session: "SparkSession", questions: Collection[str]) -> Answers:
    """The answers to these questions: that it answers or raises, and each row's value or that it
    raises."""
    # No connection breaks; it asks twice more for each query.
    session.client.disable_reattachable_execute()
    small_rows(session).createOrReplaceTempView("rows")
    wanted, found = set(questions), Answers()
    for asked, query in ((scalars(), SCALAR), (aggregates(), GROUPED), (windows(), SCALAR)):
        found |= _answered(session, [q for of in asked.values() for q in of if q in wanted], query)
    return found | {query: _outcome(session, query) for query in queries() if query in wanted}


def digest(answer: Sequence[str]) -> str:
    """An answer for keeping: few letters for each part of it. Numbers count as equal whatever their
    type writes."""
    whole, *values = answer
    told = [
        RAISES if v == RAISES else hashlib.sha256(_plain(v).encode()).hexdigest()[:DIGITS]
        for v in values
    ]
    return " ".join([whole, *told])


def _plain(value: str) -> str:
    try:
        number = Decimal(value)
    except ArithmeticError:
        return value
    return str(number.normalize(Context(prec=400))) if number.is_finite() else value


def kept() -> dict[str, str]:
    """Spark's answers, as digests; none where it raised over the question as such."""
    known: dict[str, str] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return known


def is_silently_other(answer: Sequence[str], of_spark: str) -> bool:
    """Whether an answer says anything but what Spark says. Where it raises, nobody takes it for an
    answer; what Spark refuses as a whole was never asked of it."""
    spark, other = of_spark.split(), digest(answer).split()
    if RAISES in ([*spark, ""][0], [*other, ""][0]):
        return False
    return len(spark) != len(other) or any(
        o not in (s, RAISES) for s, o in zip(spark, other, strict=True)
    )


def small_rows(session: "SparkSession") -> Any:
    """The awkward rows as a frame of typed columns."""
    import pyarrow as pa

    columns = zip(*ROWS, strict=True)
    texts = [
        pa.array(
            [
                None
                if v is None
                else str(v).lower()
                if v in (True, False) and name == "o"
                else str(v)
                for v in c
            ]
        )
        for name, c in zip(COLUMNS, columns, strict=True)
    ]
    frame = session.createDataFrame(pa.table(texts, names=list(COLUMNS)))
    return frame.selectExpr(*(_typed(name, kind) for name, kind in COLUMNS.items()))


def _typed(name: str, kind: str) -> str:
    if not kind.startswith("ARRAY"):
        return f"CAST({name} AS {kind}) AS {name}"
    inner = kind[6:-1]
    element = f"CAST(nullif(n, 'NULL') AS {inner})"
    return (
        f"CASE WHEN {name} = '' THEN CAST(array() AS {kind}) WHEN {name} IS NOT NULL THEN "
        f"transform(split({name}, ','), n -> {element}) END AS {name}"
    )


def _answered(session: "SparkSession", questions: Sequence[str], query: str) -> Answers:
    """Many at once, because a query has its price; where one raises, each half apart."""
    if not questions:
        return {}
    together = ", ".join(f"({q}) AS c{i}" for i, q in enumerate(questions))
    outcome = _rows_of(session, query.format(together, "")) if len(questions) <= TOGETHER else None
    if outcome is not None:
        return {q: [ANSWERS_IT, *(row[i + 1] for row in outcome)] for i, q in enumerate(questions)}
    if len(questions) == 1:
        return {questions[0]: _one_by_one(session, questions[0], query)}
    half = len(questions) // 2
    return _answered(session, questions[:half], query) | _answered(session, questions[half:], query)


def _one_by_one(session: "SparkSession", question: str, query: str) -> list[str]:
    """A question that raises over all rows, asked of each row or group alone; windows, and what no
    row has: once."""
    if " OVER (" in question or not _is_analysed(session, query.format(f"({question}) AS c", "")):
        return [RAISES]
    told, column = [], "g" if query is GROUPED else "id"
    for which in sorted({int(str(row[list(COLUMNS).index(column)])) for row in ROWS}):
        outcome = _rows_of(session, query.format(f"({question}) AS c", f"WHERE {column} = {which}"))
        told.append(outcome[0][1] if outcome else RAISES)
    return [RAISES] if {*told} == {RAISES} else [ANSWERS_IT, *told]


def _is_analysed(session: "SparkSession", query: str) -> bool:
    try:
        return bool(session.sql(query).schema)
    except Exception:  # noqa: BLE001 - whatever it is, it was not analysed
        return False


def _outcome(session: "SparkSession", query: str) -> list[str]:
    outcome = _rows_of(session, query)
    return [RAISES] if outcome is None else [ANSWERS_IT, *map(str, outcome)]


def _rows_of(session: "SparkSession", query: str) -> list[list[str]] | None:
    """The rows of a query, each value as text; None where it raises."""
    try:
        table = session.sql(query).toArrow()
    except Exception:  # noqa: BLE001 - the engine, or the client that does not understand what it gave
        return None
    columns = [[_text(v) for v in _values(column)] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    """Times as whole microseconds: Python knows no year before the first and none after 9999."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return str(value) if isinstance(value, Decimal) else repr(value)


@contextmanager
def session_on(engine: str) -> "Iterator[SparkSession]":
    """A session on a server of its own, as a lake with that engine has one; it stops with it."""
    from backfill_assets.engines.confs import EngineSettings
    from backfill_assets.engines.server import stop_server
    from backfill_assets.engines.session import drop_session, open_session

    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder)
        try:
            yield open_session(lake, EngineSettings(engine=engine, memory="1g", idle_minutes=1))
        finally:
            drop_session(lake)
            stop_server(lake)


def main() -> None:
    """Ask the engine that is named."""
    logging.getLogger("SQLQueryContextLogger").disabled = True
    with session_on(sys.argv[1]) as session:
        found = ask(session, kept().keys() & every() if sys.argv[1] == SAIL else every())
    if sys.argv[1] == "embedded":
        told = json.dumps(
            {q: digest(a) for q, a in found.items() if a != [RAISES]},
            indent=0,
            sort_keys=True,
            ensure_ascii=False,
        )
        ANSWERS.write_text(f"{told}\n", encoding="utf-8")
        return
    answers = kept()
    other = [q for q, answer in found.items() if is_silently_other(answer, answers.get(q, RAISES))]
    called = {name.lower() for q in other for name in re.findall(r"\w+", q)}
    needless = sorted(DIFFERENT - called)
    json.dump(
        {"let": [q for q in other if is_let(q)], "needless": needless, "asked": len(found)},
        sys.stdout,
    )


if __name__ == "__main__":
    main()
