"""The `[source] select` of a lake, made safe for one bad row: casts give NULL instead of ending the whole job.

Lives here: cutting the text at its top-level commas, `cast` -> `try_cast` and its kin, and refusing functions whose
result is not decided by the row. Does not live here: running it (`lake.deliveries`). The text is otherwise left as
written: only tokens are looked at, so that no rewriting can change a meaning.
"""

from functools import lru_cache

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from backfill_assets.core.errors import SettingsError

FORGIVING = {
    "cast": "try_cast", "to_timestamp": "try_to_timestamp", "to_date": "try_to_date", "to_number": "try_to_number",
    "element_at": "try_element_at", "make_timestamp": "try_make_timestamp", "url_decode": "try_url_decode",
    "parse_json": "try_parse_json", "to_binary": "try_to_binary", "parse_url": "try_parse_url",
}  # fmt: skip
UNDECIDED = frozenset(
    [
        "now",
        "current_timestamp",
        "current_date",
        "current_time",
        "localtimestamp",
        "curdate",
        "unix_timestamp",
        "rand",
        "randn",
        "random",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "reflect",
        "java_method",
        "randstr",
        "uniform",
        "version",
        "current_user",
        "session_user",
    ]
)
OPENERS = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}


@lru_cache(maxsize=8)
def expressions(select: str) -> tuple[str, ...]:
    """The expressions of a select list, each ready for `selectExpr`; raises SettingsError naming what is wrong."""
    try:
        tokens = Spark().tokenize(select)
    except TokenError as error:
        raise _refused(f"it cannot be read ({error})") from None
    parts: list[str] = []
    depth, current, position = 0, "", 0
    for index, token in enumerate(tokens):
        gap = select[position : token.start]
        position = token.end + 1
        depth += (token.token_type in OPENERS) - (token.token_type in OPENERS.values())
        if token.token_type is TokenType.SEMICOLON:
            raise _refused("it holds more than one statement")
        if token.token_type is TokenType.COMMA and depth == 0:
            parts.append(current.strip())
            current = ""
            continue
        current += gap + _forgiving(token, tokens[index + 1 : index + 2], select)
    parts.append(current.strip())
    if depth or any(not p for p in parts):
        raise _refused("its brackets or commas do not match")
    return tuple(parts)


def _forgiving(token: Token, following: list[Token], select: str) -> str:
    written = select[token.start : token.end + 1]
    if written[:1] in "'\"`":
        return written
    called = bool(following) and following[0].token_type is TokenType.L_PAREN
    name = written.lower()
    if name in UNDECIDED and (called or name.startswith("current_")):
        raise _refused(f"{written} is not decided by the row, so that a rebuild would give other content")
    if name == "select":
        raise _refused(f"{written} is not an expression over one row of a file")
    return FORGIVING[name] if called and name in FORGIVING else written


def _refused(why: str) -> SettingsError:
    return SettingsError(
        "[source] select in lake.toml",
        why,
        "Nothing was read",
        "Write Spark SQL expressions over the file's columns, separated by commas, each with AS and a delivery column",
    )
