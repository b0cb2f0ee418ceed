"""Times in landed files that are not written as ISO 8601 says, and the Spark SQL that reads them.
DuckDB, no JVM.

Not here: times of ISO 8601, which are a column's type (`first_columns`), and the choice of the
event's time (`first_source`). A form is named and never used without a person, for 01/02/2024 is a
day in January or in February.
"""

import re
from collections.abc import Iterable, Mapping

from duckdb import DuckDBPyConnection

from backfill_assets.kernel.tables.embedded import sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.learn.first_columns import ENOUGH, TIMES, FileColumn, quoted_for_spark

MOST_VALUES = 1000  # of a column that are looked at
DAYS = (
    "dd.MM.yyyy",
    "dd/MM/yyyy",
    "MM/dd/yyyy",
    "dd-MM-yyyy",
    "yyyy/MM/dd",
    "yyyy.MM.dd",
    "yyyyMMdd",
)
CLOCKS = ("", " HH:mm", " HH:mm:ss")
PATTERNS = tuple(day + clock for day in DAYS for clock in CLOCKS)  # of Spark
IN_DUCKDB = {"dd": "%d", "MM": "%m", "yyyy": "%Y", "HH": "%H", "mm": "%M", "ss": "%S"}
# Since 1970, as Spark's functions are called: so many are a second.
NUMBERS = {"seconds": 1, "millis": 10**3, "micros": 10**6}
FROM_2000, TO_2100 = 946_684_800, 4_102_444_800  # in such seconds
TIMELY = re.compile(
    r"(?:^|_)(?:ts|time|timestamp|at|on|date|day|when|created|updated|modified)(?:_ms|_us)?$|time$|date$"
)


def other_times(engine: DuckDBPyConnection, columns: Iterable[FileColumn]) -> dict[str, str]:
    """For each column that holds times of another form, what `select` may say to read it; of
    several forms that fit, all, with "or" between them. `engine` has the rows as its table
    `landed`.

    A number may also be a key: it is taken for a time where the column's name says so.
    """
    found = dict[str, str]()
    for column in columns:
        if column.type not in TIMES and (forms := _fitting_readers(engine, column)):
            found[column.name] = " or ".join(forms)
    return found


def _fitting_readers(engine: DuckDBPyConnection, column: FileColumn) -> list[str]:
    """What reads nearly all values of the column."""
    tests = _form_tests(column)
    counts = ", ".join(f"count(*) FILTER ({test})" for test in tests.values())
    values = f"SELECT DISTINCT trim(CAST({quoted_name(column.name)} AS VARCHAR)) AS v FROM landed"
    some = f"SELECT v FROM ({values}) WHERE v <> '' ORDER BY hash(v) LIMIT {MOST_VALUES}"
    [(seen, *fit)] = engine.execute(f"SELECT count(*), {counts} FROM ({some})").fetchall()
    if not seen:
        return []
    return [read for read, count in zip(tests, fit, strict=True) if count >= ENOUGH * seen]


def _form_tests(column: FileColumn) -> Mapping[str, str]:
    """What reads a form, and DuckDB's condition for a text `v` of it."""
    name, is_timely = quoted_for_spark(column.name), TIMELY.search(column.name.lower()) is not None
    text, whole = f"CAST({name} AS string)", name
    if column.is_text:
        text, whole = name, f"CAST({name} AS bigint)"
    patterns = [p for p in PATTERNS if is_timely or not p.startswith("yyyyMMdd")]
    tests = {
        f"to_timestamp({text}, '{pattern}')": _pattern_condition(pattern) for pattern in patterns
    }
    if is_timely:
        for unit, a_second in NUMBERS.items():
            first, last = FROM_2000 * a_second, TO_2100 * a_second
            moment = f"try_cast(v AS BIGINT) BETWEEN {first} AND {last}"
            tests[f"timestamp_{unit}({whole})"] = f"regexp_full_match(v, '\\d+') AND {moment}"
    return tests


def _pattern_condition(pattern: str) -> str:
    digits = re.sub("[A-Za-z]", r"\\d", pattern.replace(".", r"\."))
    form = re.sub("|".join(IN_DUCKDB), lambda part: IN_DUCKDB[part.group()], pattern)
    return (
        f"regexp_full_match(v, {sql_literal(digits)}) AND try_strptime(v, {sql_literal(form)}) IS "
        "NOT NULL"
    )
