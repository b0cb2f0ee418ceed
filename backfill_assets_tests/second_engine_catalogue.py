"""What both engines are asked: functions, operators and casts over awkward values, as Spark SQL.
Here: the rows, and reading the questions (`second_engine_questions.txt`). Not here: asking them
(`second_engine_probe`). What is let through must have the same answer, in value and type, on both
engines, for each question that asks about it: a type of argument that is not asked about here is
not vouched for."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

LONG, INT = 2**63 - 1, 2**31 - 1
COLUMNS = {
    "id": "INT",
    "g": "INT",
    "i": "INT",
    "j": "INT",
    "b": "BIGINT",
    "c": "BIGINT",
    "d": "DECIMAL(18,2)",
    "e": "DECIMAL(10,4)",
    "x": "DOUBLE",
    "y": "DOUBLE",
    "s": "STRING",
    "t": "STRING",
    "o": "BOOLEAN",
    "p": "DATE",
    "q": "DATE",
    "u": "TIMESTAMP",
    "v": "TIMESTAMP",
    "ai": "ARRAY<INT>",
    "at": "ARRAY<STRING>",
}
_N = None
ROWS: tuple[tuple[object, ...], ...] = (
    (
        0,
        0,
        0,
        0,
        0,
        0,
        "0.00",
        "0.0000",
        "0.0",
        "-0.0",
        "",
        " ",
        True,
        "1970-01-01",
        "1970-01-01",
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:00",
        "1,2",
        "a,b",
    ),
    (
        1,
        0,
        1,
        -1,
        1,
        -1,
        "1.00",
        "-1.5000",
        "1.5",
        "-1.5",
        "a",
        "A",
        False,
        "1969-12-31",
        "1970-01-01",
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00.000001",
        "3,NULL,1",
        "NULL",
    ),
    (
        2,
        0,
        7,
        -3,
        2**53 + 1,
        10,
        "12.35",
        "3.1416",
        "2.5",
        "3.5",
        "Ärger",
        "ä",
        True,
        "2024-02-29",
        "2023-03-01",
        "2024-02-29 12:34:56.789012",
        "2024-03-31 02:30:00",
        "NULL",
        "ä,Ö,NULL,ä",
    ),
    (
        3,
        1,
        INT,
        1,
        LONG,
        1,
        "9999999999999999.99",
        "999999.9999",
        "1e308",
        "1e-308",
        "straße İI",
        "STRASSE",
        _N,
        "9999-12-31",
        "0001-01-01",
        "9999-12-31 23:59:59.999999",
        "0001-01-01 00:00:00",
        "2147483647,-1",
        "x",
    ),
    (
        4,
        1,
        -INT - 1,
        -1,
        -LONG - 1,
        -1,
        "-9999999999999999.99",
        "-999999.9999",
        "-1e308",
        "0.1",
        "日本語😀",
        "e\u0301",
        False,
        "1582-10-10",
        "1600-02-29",
        "1582-10-10 10:10:10",
        "1883-11-18 12:00:00",
        "",
        "",
    ),
    (5, 1, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N, _N),
    (
        6,
        2,
        42,
        5,
        1000000007,
        3,
        "-0.05",
        "0.0001",
        "NaN",
        "1.0",
        "  12 ",
        "12",
        True,
        "2000-01-01",
        "2000-12-31",
        "2000-01-01 00:00:00",
        "1999-12-31 23:59:59.5",
        "5,5,5",
        "b,a,B",
    ),
    (
        7,
        2,
        -42,
        10,
        -1000000007,
        -3,
        "0.015",
        "-0.0001",
        "Infinity",
        "NaN",
        "2024-02-29",
        "1e3",
        False,
        "2024-12-30",
        "2025-01-05",
        "2024-10-27 01:30:00.123456",
        "2024-10-27 00:30:00",
        "9,-9",
        "%_,\\",
    ),
    (
        8,
        2,
        100,
        0,
        255,
        64,
        "123.45",
        "2.5000",
        "-Infinity",
        "-2.5",
        "a,b;c",
        ",",
        True,
        "1900-01-01",
        "1899-12-31",
        "1900-01-01 00:00:00.000001",
        "2038-01-19 03:14:08",
        "1,2,3,4",
        "a",
    ),
    (
        9,
        3,
        3,
        2,
        5,
        2,
        "2.50",
        "1.2500",
        "0.30000000000000004",
        "-2.0",
        "The quick",
        "quick",
        _N,
        "2021-01-03",
        "2021-01-04",
        "2021-01-03 06:00:00",
        "2021-01-04 18:00:00",
        "0",
        "q,u",
    ),
)
VALUES = ["i", "b", "d", "x", "s", "o", "p", "u", "ai", "at"]
NUMBERS = ["i", "b", "d", "e", "x"]
KINDS = {
    "any": VALUES,
    "plain": ["i", "b", "d", "x", "s", "o", "p", "u"],
    "n": NUMBERS,
    "k": ["i", "b"],
    "m": ["d", "e"],
    "f": ["i", "b", "d", "x", "y"],
    "s": ["s", "t"],
    "day": ["p", "q"],
    "ts": ["u", "v"],
    "when": ["p", "u"],
    "a": ["ai", "at"],
    "w": ["i", "b"],
    "over": [
        "sum(d)",
        "sum(cast(b AS DECIMAL(30,0)))",
        "count(*)",
        "count(s)",
        "count_if(o)",
        "min(s)",
        "max(d)",
        "min(p)",
        "max(u)",
        "min(b)",
        "max(o)",
    ],
    "place": [
        "row_number()",
        "ntile(3)",
        "rank()",
        "dense_rank()",
        "percent_rank()",
        "cume_dist()",
        "lag(s)",
        "lead(d, 2)",
        "lag(i, 1, 0)",
        "lead(u)",
        "lag(ai)",
        "lead(s, 1, 'z')",
        "lag(o, 3)",
        "lead(x)",
    ],
}
PAIRS = (
    "i, j",
    "b, c",
    "d, e",
    "x, y",
    "i, b",
    "b, d",
    "i, d",
    "d, x",
    "b, x",
    "s, t",
    "p, q",
    "u, v",
    "p, u",
    "o, o",
    "ai, ai",
)
NUMBER_PAIRS = PAIRS[:9]
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "=",
    "<=>",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "||",
    "&",
    "|",
    "^",
)
CASTS = (
    "BOOLEAN",
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(18,2)",
    "DECIMAL(38,10)",
    "DECIMAL(5,0)",
    "STRING",
    "DATE",
    "TIMESTAMP",
)
QUESTIONS = Path(__file__).with_name("second_engine_questions.txt")


def scalars() -> dict[str, tuple[str, ...]]:
    """Expressions over one row, by what they judge."""
    asked = {name: tuple(questions) for name, questions in _read("scalars")}
    for sign in OPERATORS:
        asked[sign] = tuple(f"{p.replace(', ', f' {sign} ')}" for p in PAIRS)
    for target in CASTS:
        name = target.partition("(")[0].lower()
        for function in ("cast", "try_cast"):
            said = tuple(f"{function}({c} AS {target})" for c in (*VALUES, "t"))
            asked[f"{function} as {name}"] = (*asked.get(f"{function} as {name}", ()), *said)
    return asked


def aggregates() -> Mapping[str, tuple[str, ...]]:
    """Expressions over the rows of a group."""
    return {name: tuple(questions) for name, questions in _read("aggregates")}


def windows() -> Mapping[str, tuple[str, ...]]:
    """Expressions over windows of rows."""
    return {name: tuple(questions) for name, questions in _read("windows")}


def queries() -> tuple[str, ...]:
    """Whole queries."""
    return tuple(line.partition(": ")[2] for line in _section("queries"))


def _section(name: str) -> list[str]:
    text = QUESTIONS.read_text(encoding="utf-8").partition(f"\n[{name}]\n")[2].partition("\n\n")[0]
    return text.strip().splitlines()


def _read(section: str) -> Iterator[tuple[str, Iterator[str]]]:
    for line in _section(section):
        name, _, questions = line.partition(": ")
        yield name, (told for question in questions.split("; ") for told in _each(question))


def _each(question: str) -> Iterator[str]:
    """The question for every choice of columns that its braces leave open; the same braces stand
    for the same."""
    asked = list(dict.fromkeys(re.findall(r"\{(\w+)\}", question)))
    choices = [PAIRS if k == "2" else NUMBER_PAIRS if k == "n2" else KINDS.get(k) for k in asked]
    if any(c is None for c in choices):
        yield question
        return
    for chosen in product(*(c for c in choices if c is not None)):
        told = question
        for kind, column in zip(asked, chosen, strict=True):
            told = told.replace(f"{{{kind}}}", column)
        yield told
