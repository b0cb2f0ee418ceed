"""Which expressions of `select` Sail is known to compute otherwise than Spark: these are refused, all others run.

Lives here: walking an expression for such a part, with its name. Does not live here: the names of functions
(`core.second_engine`), casts of values (`sail_casts`), and expressions in general (`select`).

Spark catches what an expression raises on a row, and sets that row aside. On Sail the same ends the query: the one file
that holds such a row is refused by name (`load.counting`), and all others are read.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.second_engine import REFUSED

CAST_TYPES = {
    "BIGINT": "number", "INT": "number", "SMALLINT": "number", "TINYINT": "number", "VARCHAR": "text", "TEXT": "text",
    "TIMESTAMP": "moment", "TIMESTAMPTZ": "moment", "TIMESTAMPNTZ": "moment", "TIMESTAMPLTZ": "moment",
}  # fmt: skip
KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "number"), "string": "text", "timestamp": "moment",
    "timestamp_ntz": "moment", "boolean": "truth",
}  # fmt: skip
TRUTH, ANY = "truth", ""
SAME = (exp.Coalesce, exp.Nullif)  # values of one type, of which one comes out
TEXTS = (exp.Concat, exp.ConcatWs, exp.DPipe, exp.Trim)
COMPARED = (exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ)
TRUTHS = (exp.And, exp.Or, exp.Not)
PARTS = "parts of text"
# What is a regular expression to Spark, and no text as it stands, is read otherwise by Sail.
DELIMITER = re.compile(r"[A-Za-z0-9 /,:;_-]+")


WHOLE: dict[type, str] = {
    exp.Add: "try_add",
    exp.Sub: "try_subtract",
    exp.Mul: "try_multiply",
}  # beyond 64 bits Sail wraps round
WRITTEN_OTHERWISE = ("moment", "double", "float", "binary")  # as text
READ_OTHERWISE = ("DATE", "DECIMAL", "BOOLEAN")  # text: `sail_casts.DOUBTFUL`


class _Different(Exception):
    """An expression, or part of one, of which Sail makes something else."""


def refuse_different(expressions: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise SettingsError naming what of these expressions Sail computes otherwise; `types` are those of the columns,
    in Spark's words."""
    kinds = {name.lower(): KINDS.get(kind, kind) for name, kind in types.items()}
    for expression in expressions:
        try:
            _refuse_listed(expression)
            _kind(parse_one(expression, dialect="spark").unalias(), kinds)
        except (_Different, SqlglotError) as error:
            raise SettingsError(
                "[source] select in lake.toml", f"{str(error) or 'it'} in `{expression}` gives something else on Sail",
                "Nothing was read", 'Set engine = "embedded", which computes it, or write it without',
            ) from None  # fmt: skip


def _refuse_listed(expression: str) -> None:
    tokens = Spark().tokenize(expression)
    for token, following in pairwise(tokens):
        name = token.text.lower()
        # Of `split` the delimiter decides.
        if (following.token_type is TokenType.L_PAREN and name in REFUSED - {"split"}) or name == "rlike":
            raise _Different(f"`{name}`")


def uncast(name: str) -> SettingsError:
    """The refusal of a cast in a column that may be NULL: only trying it tells a failed cast from NULL."""
    return SettingsError(
        "[source] select in lake.toml", f"the cast of {name}, which may be NULL, was not tried on Sail",
        "Nothing was read", 'Leave the cast to the type in [source.payload], or set engine = "embedded"',
    )  # fmt: skip


def _kind(node: Any, kinds: Mapping[str, str]) -> str:
    """What kind of value it gives (ANY where that is not known); raises _Different."""
    if isinstance(node, exp.Column) and not node.table:
        return kinds.get(node.name.lower(), ANY)  # an absent column is NULL, or spoils its file
    if isinstance(node, exp.Literal):
        return "text" if node.is_string else "number"
    if isinstance(node, (exp.Null, exp.Boolean)):
        return ANY if isinstance(node, exp.Null) else TRUTH
    if isinstance(node, exp.Paren):
        return _kind(node.this, kinds)
    return _of_call(node, kinds)


def _of_call(node: Any, kinds: Mapping[str, str]) -> str:
    parts = [a for a in node.iter_expressions() if not isinstance(a, exp.DataType)]
    if isinstance(node, exp.Cast):
        given, target = _kind(node.this, kinds), node.to.sql().upper()
        if given == "text" and target.partition("(")[0] in READ_OTHERWISE and not node.this.is_string:
            raise _Different(f"a cast of text to {target}")
        return CAST_TYPES.get(target, ANY)
    if isinstance(node, exp.Case):
        conditions, results = [i.this for i in node.args["ifs"]], [i.args["true"] for i in node.args["ifs"]]
        _one(conditions if node.this is None else [node.this, *conditions], kinds)
        return _one([*results, *([d] if (d := node.args.get("default")) else [])], kinds)
    if isinstance(node, SAME):
        return _one(parts, kinds)
    if isinstance(node, (exp.RegexpSplit, exp.ArraySlice, exp.ArrayToString)):
        return _of_parts(node, kinds)
    if isinstance(node, (exp.Is, *COMPARED)):
        _one(parts, kinds)
        return TRUTH
    return _of_function(node, {_kind(p, kinds) for p in parts})


def _of_function(node: Any, given: set[str]) -> str:
    """The kind of what a function or operator makes of parts of these kinds."""
    if isinstance(node, TEXTS):
        if other := given.intersection(WRITTEN_OTHERWISE):
            raise _Different(f"{min(other)} where text is meant")
        return "text"
    if type(node) in WHOLE and given == {"number"}:
        raise _Different(f"`{node.sql(dialect='spark')}` beyond 64 bits (write {WHOLE[type(node)]})")
    return TRUTH if isinstance(node, TRUTHS) else ANY


def _of_parts(node: Any, kinds: Mapping[str, str]) -> str:
    """A text cut at a delimiter, some of its parts from the first on, and parts put together again."""
    if isinstance(node, exp.RegexpSplit):
        _only("text", [node.this], kinds)
        if node.args.get("limit") is None and node.expression.is_string and DELIMITER.fullmatch(node.expression.name):
            return PARTS
    elif _only(PARTS, [node.this], kinds) and isinstance(node, exp.ArrayToString):
        if node.args.get("null") is None and node.expression.is_string:
            return "text"
    else:  # Sail gives other parts where it is to count from the end
        numbers = [node.args.get("start"), node.args.get("end")]
        if all(isinstance(n, exp.Literal) and n.is_int for n in numbers) and int(numbers[0].name) > 0:
            return PARTS
    raise _Different(f"`{node.sql(dialect='spark')}`")


def _one(nodes: Iterable[Any], kinds: Mapping[str, str]) -> str:
    """The one kind of all these values; raises _Different where they are of several."""
    found = {kind for n in nodes if (kind := _kind(n, kinds)) != ANY}
    if len(found) > 1:
        raise _Different(f"mixing types ({', '.join(sorted(found))})")
    return next(iter(found), ANY)


def _only(kind: str, nodes: Iterable[Any], kinds: Mapping[str, str]) -> str:
    found = _one(nodes, kinds)
    if found not in (kind, ANY):
        raise _Different(f"{found} where {kind} is meant")
    return kind
