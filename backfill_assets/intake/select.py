"""The text of `[source] select`: read by tokens, made safe for one bad row, and refused where it
needs more than a row.

Also columns that `select` may leave out. Not here: running it (`mapping`), values as types
(`casting`), expressions of one event (`pipeline.expressions`). `cast` becomes `try_cast` and so on;
the text otherwise stays as written, so that no rewriting can change a meaning. A function on no
list is refused: it may be a Python UDF, or read files.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from backfill_assets.engines.spark_functions import OF_MANY_ROWS, is_spark_function
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import CLOCKS, TAKEN_AWAY
from backfill_assets.kernel.core.unsteady import BARE, UNDECIDED

if TYPE_CHECKING:
    from pyspark.sql import Column

FILE, ROW = "_file", "_row"  # the path below the landing's root; the number of the record, from 1
PATH_DAY = "__path_day"  # the day that the path names (`paths`)
# The content as it landed: an erasure may have taken records out since, which `_row` counts, too.
ORIGIN = "__origin"
# Of a table's rows, with the names of Delta's change feed: the commit that brought a row, and
# insert or delete.
COMMITTED, COMMIT, CHANGE = "_commit_timestamp", "_commit_version", "_change_type"
OF_COMMITS = (COMMITTED, COMMIT, CHANGE)
# Of a table's rows: how many of the same commit come before those of their content; NULL where an
# earlier release took the content in, which did not look.
LOG_PLACE = "__log_place"
# Of the number of a row in the log of a table: 16 million commits, each of 5e11 rows.
COMMIT_BITS = 24
PLACE_BITS = 39
OWN_COLUMNS = frozenset(
    {
        FILE,
        ROW,
        PATH_DAY,
        ORIGIN,
        *OF_COMMITS,
        LOG_PLACE,
        "__json",
        "__sha256",
        "__number",
        "__text",
        "__reason",
    }
)
FORGIVING = {
    "cast": "try_cast",
    "to_timestamp": "try_to_timestamp",
    "to_date": "try_to_date",
    "to_number": "try_to_number",
    "element_at": "try_element_at",
    "make_timestamp": "try_make_timestamp",
    "url_decode": "try_url_decode",
    "parse_json": "try_parse_json",
    "to_binary": "try_to_binary",
    "parse_url": "try_parse_url",
}
TYPE_NAMES = frozenset(
    [
        "bigint",
        "int",
        "smallint",
        "tinyint",
        "float",
        "double",
        "decimal",
        "date",
        "timestamp",
        "boolean",
        "binary",
    ]
)
# The type of a cast, which may have brackets: decimal(18,2).
AFTER_AS = re.compile(r"\bAS\s+$", re.IGNORECASE)
# A column or literal, perhaps within forgiving casts: whatever the values, no row can make it
# raise.
_VALUE = r"(?:[a-z_]\w*|`[^`]*`|'[^'\\]*'|-?\d+)"
PLAIN = re.compile(
    rf"(?:try_cast\(\s*)*+{_VALUE}(?:\s+as\s+\w+\s*\))*+(?:\s+(?:as\s+)?(?:[a-z_]\w*|`[^`]*`))?",
    re.IGNORECASE,
)
UNMATCHED = "its brackets or commas do not match"
OPENERS = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
MANY_ROWS = (exp.Window, exp.AggFunc, exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline)
SUBQUERIES = (exp.Select, exp.Subquery, exp.Query, exp.Table, exp.Values)
NOT_PARSED = (
    SqlglotError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)  # over too few arguments
HASH_DIGITS = 15  # of hexadecimal: 60 bits, so that adding a row's number stays within 63


@lru_cache(maxsize=16)
def select_expressions(select: str, strict: bool = False) -> tuple[str, ...]:
    """The expressions of a select list, each ready for `selectExpr`; raises SettingsError naming
    what is wrong.

    `strict`: casts as they are written, which raise over a value that they cannot cast.
    """
    try:
        tokens = Spark().tokenize(select)
    except TokenError as error:
        raise select_error(f"it cannot be read ({error})") from None
    parts: list[str] = []
    current, position = "", 0
    open_brackets: list[TokenType] = []
    for index, token in enumerate(tokens):
        # A number with a type suffix (10L) comes as three tokens at one place.
        if token.start < position:
            continue
        gap = select[position : token.start]
        position = token.end + 1
        _track_brackets(token.token_type, open_brackets)
        if token.token_type is TokenType.SEMICOLON:
            raise select_error("it holds more than one statement")
        if token.token_type is TokenType.COMMA and not open_brackets:
            parts.append(current.strip())
            current = ""
            continue
        is_type_of_cast = index > 0 and tokens[index - 1].token_type is TokenType.ALIAS
        following = [] if is_type_of_cast else tokens[index + 1 : index + 2]
        current += gap + _forgiving_text(token, following, select, strict)
    parts.append(current.strip())
    if open_brackets or any(not p for p in parts):
        raise select_error(UNMATCHED)
    return tuple(parts)


def selected_names(select: str) -> tuple[str, ...]:
    """The column that each expression gives: what its text ends with; lower case."""
    return tuple(map(selected_name, select_expressions(select)))


def selected_name(expression: str) -> str:
    """The column that one of `select_expressions` gives; lower case."""
    return Spark().tokenize(expression)[-1].text.lower()


def selected_words(select: str) -> frozenset[str]:
    """The names in a select list that are no text in quotes; lower case."""
    words = set[str]()
    for expression in select_expressions(select):
        names = [t for t in Spark().tokenize(expression) if t.token_type is not TokenType.STRING]
        words |= {token.text.lower() for token in names}
    return frozenset(words)


def selected_clocks(select: str) -> tuple[str, ...]:
    """Those of `CLOCKS` that a select list gives."""
    given = selected_names(select)
    return tuple(name for name in CLOCKS if name in given)


def columns_by_name(select: str) -> dict[str, tuple[str, ...]]:
    """By column that a select list gives, in lower case, the names of the columns that its
    expression reads."""
    read = dict[str, tuple[str, ...]]()
    for name, expression in zip(selected_names(select), select_expressions(select), strict=True):
        parsed = sqlglot.parse_one(expression, read="spark")
        read[name] = tuple(column.name for column in parsed.find_all(exp.Column))
    return read


def root_columns(select: str) -> set[str]:
    """The names of the columns that a select list reads; of parts of a struct that of the
    struct."""
    roots = set[str]()
    for expression in select_expressions(select):
        columns = sqlglot.parse_one(expression, read="spark").find_all(exp.Column)
        roots |= {column.parts[0].name for column in columns}
    return roots


def reads_all_columns(select: str) -> bool:
    """Whether a select list reads every column that a file has, as `struct(*)` does."""
    return any(
        sqlglot.parse_one(e, read="spark").find(exp.Star) for e in select_expressions(select)
    )


def with_stars_expanded(expression: str, columns: Collection[str]) -> str:
    """The expression with the file's columns in place of each `*`, without those behind EXCEPT.
    `columns`: of a frame.

    In the order of the alphabet: files whose columns stand in several orders are read together, or
    not. Raises SettingsError for a `*` that no brackets hold."""
    tokens = list(Spark().tokenize(expression))
    for place in reversed(range(len(tokens))):
        before = tokens[place - 1].token_type if place else None
        is_sign = tokens[place].token_type is TokenType.STAR
        if not is_sign or before not in (None, TokenType.L_PAREN, TokenType.COMMA):
            continue  # of a multiplication
        if before is None:
            raise select_error("* gives no delivery column a name")
        last, left_out = _left_out(tokens, place)
        kept = [c for c in sorted({*columns} - OWN_COLUMNS) if c.lower() not in left_out]
        names = ", ".join("`" + c.replace("`", "``") + "`" for c in kept)
        behind = expression[tokens[last].end + 1 :]
        expression = expression[: tokens[place].start] + names + behind
    return expression


def columns_of_stars(select: str, name: str, columns: Collection[str]) -> set[str]:
    """Those of the columns that the expression for a delivery column takes by a `*`; `name`: of the
    delivery column, in lower case."""
    taken = set[str]()
    for expression in select_expressions(select):
        if selected_name(expression) == name:
            taken |= root_columns(with_stars_expanded(expression, columns)) & {*columns}
            taken -= root_columns(expression)
    return taken


def _left_out(tokens: Sequence[Token], star: int) -> tuple[int, set[str]]:
    """Of the `*` at this place: the place of its last token, and the columns behind EXCEPT, in
    small letters."""
    if tokens[star + 1].token_type is not TokenType.EXCEPT:
        return star, set()
    last = star
    while tokens[last].token_type is not TokenType.R_PAREN:
        last += 1
    return last, {token.text.lower() for token in tokens[star + 2 : last]}


@lru_cache(maxsize=16)
def uses_path(select: str) -> bool:
    """Whether rows depend on their file's path; then the path is part of the content's name."""
    return FILE in selected_words(select) or "arrival_ts" not in selected_names(select)


def can_raise(expression: str) -> bool:
    """Whether a row could make this expression (one of `select_expressions`) end a query: all but
    the plainest ones."""
    return PLAIN.fullmatch(expression) is None


def _track_brackets(kind: TokenType, open_brackets: list[TokenType]) -> None:
    """Push an opening bracket, pop the one that a closing bracket closes."""
    if kind in OPENERS:
        open_brackets.append(OPENERS[kind])
    elif kind in OPENERS.values() and (not open_brackets or open_brackets.pop() is not kind):
        raise select_error(UNMATCHED)


def _forgiving_text(token: Token, following: list[Token], select: str, strict: bool) -> str:
    """The text of a token of `select`: a function that raises over a value is replaced by one that
    gives NULL, unless `strict`. `following`: the next token, if any. Raises SettingsError for what
    would end a job at a value, and for what the row does not decide."""
    written = select[token.start : token.end + 1]
    called = bool(following) and following[0].token_type is TokenType.L_PAREN
    if written[:1] == "`" and called:
        raise select_error(f"{written} is a function in backticks")
    if written[:1] in "'\"`":
        return written
    name = written.lower()
    is_call_of_type = called and name in TYPE_NAMES
    if written == "::" or (is_call_of_type and not AFTER_AS.search(select[: token.start])):
        raise select_error(
            f"{written} ends the whole job at the first row it cannot cast; write cast(... AS type)"
        )
    if name in BARE or (called and name in UNDECIDED):
        raise select_error(
            f"{written} is not decided by the row, so that a rebuild would give other content"
        )
    if name == "select":
        raise select_error(f"{written} is not an expression over one row")
    is_forgiven = called and not strict
    return FORGIVING.get(name, written) if is_forgiven else written


def select_error(why: str) -> SettingsError:
    """The error for a select list that cannot be meant."""
    return SettingsError(
        "[source] select in lake.toml",
        why,
        "Nothing was read",
        "Write Spark SQL expressions over the file's columns, separated by commas, each with AS "
        "and a delivery column",
    )


@lru_cache(maxsize=16)
def refuse_beyond_the_row(select: str) -> None:
    """Raise SettingsError naming what of a select list looks at more than the values of one row."""
    for text in select_expressions(select):
        if not can_raise(text):
            continue
        try:
            parsed = sqlglot.parse_one(text, read="spark")
        except NOT_PARSED as error:
            raise select_error(
                f"`{text}` cannot be read as an expression ({str(error).splitlines()[0]})"
            ) from None
        for node in parsed.walk():
            why = beyond_row_reason(node)
            if why:
                raise select_error(why)


def beyond_row_reason(node: exp.Expr, *, may_raise: bool = True) -> str:
    """Why a part of an expression is not decided by the row; empty where it is. A function that the
    parser does not know is one of Spark's, and, unless it `may_raise`, one that raises for no
    row."""
    name = function_name(node)
    if isinstance(node, SUBQUERIES):
        return f"{node.sql('spark')} is a subquery, and reads more than the row"
    if isinstance(node, MANY_ROWS) or name in OF_MANY_ROWS:
        return f"{node.sql('spark')} is not an expression over one row"
    is_known = is_spark_function(name, may_raise=may_raise)
    is_unknown = isinstance(node, exp.Anonymous) and not is_known
    if is_unknown or name.startswith("current_"):
        return f"{name} is no function of Spark that gives the same for the same row"
    return ""


def function_name(node: exp.Expr) -> str:
    """The name of a function, in small letters; empty of anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Func):
        return node.sql_name().lower()
    return node.key if isinstance(node, exp.Any) else ""


def default_columns(
    absent: Collection[str], columns: Mapping[str, "Column"], of_table: bool = False
) -> dict[str, "Column"]:
    """The delivery columns that `select` leaves out (`absent`), made of what the file gives, the
    same at every load. `columns`: those that `select` gives.

    With `of_table` they follow from the commit; of a row that it took away `op`, `arrival_ts` and
    `version_ts` do so in any case. What `select` gives stays beside them
    (`kernel.core.payload.log_columns`), and `seq` becomes the row's place in the log.
    """
    from pyspark.sql import functions as F

    made: dict[str, Column] = {}
    if "op" in absent:
        made["op"] = F.lit("upsert")
    if "seq" in absent:
        made["seq"] = delivery_number(F.col(ORIGIN), F.col(ROW))
    if "arrival_ts" in absent:
        made["arrival_ts"] = F.col(COMMITTED) if of_table else arrival_at_day_end(F.col(PATH_DAY))
    if "version_ts" in absent:
        made["version_ts"] = ({**columns, **made})["arrival_ts"]
    if of_table:
        gone, given = F.col(CHANGE) == TAKEN_AWAY, {**columns, **made}
        made["op"] = F.when(gone, F.lit("delete")).otherwise(given["op"])
        for name in ("arrival_ts", "version_ts"):
            made[name] = F.when(gone, F.col(COMMITTED)).otherwise(given[name])
        clocks = {name: columns[name] for name in CLOCKS if name not in absent}
        made |= _log_columns(clocks, given["seq"])
    return made


def _log_columns(own: Mapping[str, "Column"], seq: "Column") -> dict[str, "Column"]:
    """The columns of the log, and `seq`, of rows whose place in it is known; `own`: those of
    `CLOCKS` that `select` gives."""
    from pyspark.sql import functions as F

    is_placed = F.col(LOG_PLACE).isNotNull()
    number = F.col(COMMIT) * F.lit(1 << PLACE_BITS) + F.col(LOG_PLACE) + F.col(ROW)
    kept = {
        "log_change": F.col(CHANGE),
        "log_commit_ts": F.col(COMMITTED),
        **{f"row_{n}": c for n, c in own.items()},
    }
    found = {name: F.when(is_placed, value) for name, value in kept.items()}
    return {**found, "seq": F.when(is_placed & seq.isNotNull(), number).otherwise(seq)}


def delivery_number(sha256: "Column", row_number: "Column") -> "Column":
    """A delivery number from a row's place: ascending within its file, distinct from other
    contents, and in no order between files.

    Two files of a million rows share numbers once in 10^12 pairs; their rows would go to
    quarantine, none is lost.
    """
    from pyspark.sql import functions as F

    start = F.conv(F.substring(sha256, 1, HASH_DIGITS), 16, 10).cast("bigint")
    return start + row_number.cast("bigint")


def arrival_at_day_end(day: "Column") -> "Column":
    """The last microsecond (UTC) of a day; NULL without one.

    The end, because a row of that day must not count as known before it arrived: a cut may lie
    within the day.
    """
    from pyspark.sql import functions as F

    return F.date_add(day, 1).cast("timestamp") - F.expr("INTERVAL '0.000001' SECOND")
