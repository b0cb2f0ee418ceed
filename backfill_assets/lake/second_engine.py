"""What Spark SQL may hold where the second engine runs it: read word by word, before anything runs.

Lives here: what an expression or a whole query asks for that is known to differ, and the words of a refusal. Does
not live here: the lists (`core.second_engine`), what `lake.toml` declares (`second_engine_settings`) and what a user's
DataFrames ask for (`load.second_engine`). What cannot be read is refused as well.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from backfill_assets.core.second_engine import (
    ADVICE,
    DOUBLE,
    REFUSED,
    Term,
    Window,
    advised,
    is_floating,
    kind_of,
    unequal,
    unequal_window,
)
from backfill_assets.engine.confs import SAIL
from backfill_assets.landing.row_functions import is_sparks

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

SHOWN, SHOWN_CHARS = 3, 60
VALUES = frozenset(["STRING", "NUMBER", "IDENTIFIER"])
# Words that take any of several rows, or that the engines read otherwise.
REFUSED_WORDS = frozenset([
    "limit", "offset", "tablesample", "rlike", "regexp", "lateral", "pivot", "unpivot", "range",
    "current_date", "current_timestamp", "current_time", "current_user", "session_user", "localtimestamp",
    "localtime", "qualify",
])  # fmt: skip
SIGN_OF = {
    "dpipe": "concat",
    "div": "/",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "neg": "negative",
    "mod": "%",
    "case": "case",
    "if": "if",
}


def unequal_names(text: str, types: Mapping[str, str], keys: Iterable[frozenset[str]] = ()) -> dict[str, str]:
    """What of an expression or query over columns of these types is known to differ: each name with what to
    write instead ("": nothing). `keys` are sets of columns, each of which tells the rows of an input apart."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(text, read="spark")
        parsed: Any = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return {" ".join(text.split())[:SHOWN_CHARS]: ""}
    known = {name: kind for name, kind in types.items() if name not in _named_anew(parsed)}
    made = (a for a in parsed.find_all(exp.Alias) if is_floating(_term(a.this), known))
    known |= {a.alias.lower(): DOUBLE for a in [*made]}  # what a query above sums
    alone = [] if _multiplies(parsed) else [k for k in keys if k <= known.keys()]
    strange = [a.name for a in parsed.find_all(exp.Anonymous) if not is_sparks(a.name.lower())]
    windows = [name for w in parsed.find_all(exp.Window) for name in _of_window(w, known, alone)]
    return advised([*_listed_words(tokens), *strange, *unequal(_term(parsed), known), *windows])


def multiplies(text: str) -> bool:
    """Whether an expression or query may give a row more than once, or cannot be read."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return _multiplies(sqlglot.parse_one(text, read="spark"))
    except SqlglotError:
        return True


def tables_read(text: str) -> list[str]:
    """The tables that a query reads and does not make itself; none where it cannot be read, which is refused anyway."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return []
    made = [c.alias.lower() for c in parsed.find_all(exp.CTE)]
    found = list[str]()
    for table in (t for t in parsed.find_all(exp.Table) if isinstance(t.this, exp.Identifier)):
        name, within = ".".join(part.name for part in table.parts), table.find_ancestor(exp.CTE)
        is_itself = within is not None and within.alias.lower() == name.lower()  # nothing is made from itself
        if made.count(name.lower()) <= is_itself:
            found.append(name)
    return list(dict.fromkeys(found))


def _multiplies(parsed: Any) -> bool:
    from sqlglot import exp

    return bool(parsed.find(exp.Join, exp.Lateral, exp.Explode, exp.Posexplode, exp.SetOperation))


def told(names: Mapping[str, str]) -> str:
    """The culprit of a refusal, naming what is known to differ."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{', '.join(listed[:SHOWN])}{more}: on {SAIL} not always what Spark gives"


def advice(names: Mapping[str, str]) -> str:
    """What to do about it."""
    return "; or: ".join(dict.fromkeys([*(a for a in names.values() if a), ADVICE]))


def _listed_words(tokens: "list[Token]") -> Iterator[str]:
    """Calls of functions, operators and words that are on the lists, in the order of the text."""
    for index, token in enumerate(tokens):
        name, kind = token.text.lower(), token.token_type.name
        if kind in VALUES:
            continue
        before = tokens[index - 1].token_type.name if index else ""
        called = index + 1 < len(tokens) and tokens[index + 1].token_type.name == "L_PAREN"
        names_columns = before == "ALIAS" or (kind == "VAR" and before == "R_PAREN")  # AS t(a, b)
        if called and not names_columns:
            if name.split()[-1] in REFUSED or name in REFUSED_WORDS:
                yield name
        elif name in REFUSED_WORDS and before != "DOT":
            yield name


def _named_anew(parsed: "exp.Expr") -> set[str]:
    """Names that the text itself gives to something else than the column of that name."""
    from sqlglot import exp

    aliases = [a for a in parsed.find_all(exp.Alias) if a.this.name.lower() != a.alias.lower()]
    columns = [c.name for t in parsed.find_all(exp.TableAlias) for c in t.columns]
    return {n.lower() for n in (*(a.alias for a in aliases), *columns)}


def _of_window(node: "exp.Expr", types: Mapping[str, str], keys: Iterable[frozenset[str]]) -> Iterator[str]:
    order, spec = node.args.get("order"), node.args.get("spec")
    if node.args.get("alias") is not None or not node.args.get("over"):
        yield "a window that is named"
        return
    window = Window(
        _term(node.this), tuple(map(_term, node.args.get("partition_by") or ())),
        tuple(_term(o.this) for o in order.expressions) if order is not None else (),
        "" if spec is None else str(spec.args.get("kind")).lower(),
    )  # fmt: skip
    yield from unequal_window(window, types, keys)


def _term(node: "exp.Expr") -> Term:
    """The neutral form of a syntax tree."""
    from sqlglot import exp

    if isinstance(node, exp.Cast):
        return Term("cast", kind_of(node.args["to"].sql("spark")), (_term(node.this),))
    if isinstance(node, exp.Column):
        return Term("column", node.name.lower())
    if isinstance(node, exp.Literal):
        number = DOUBLE if "e" in str(node.this).lower() else "INT"
        return Term("literal", "STRING" if node.is_string else number)
    if isinstance(node, exp.Null | exp.Boolean | exp.Interval):
        return Term("literal", node.key.upper())
    if isinstance(node, exp.Paren):
        return _term(node.this)
    if isinstance(node, exp.Case):
        branches = [i.args["true"] for i in node.args["ifs"]] + [d for d in [node.args.get("default")] if d is not None]
        conditions = [i.this for i in node.args["ifs"]] + [t for t in [node.this] if t is not None]
        return _choice("case", conditions, branches)
    if isinstance(node, exp.TsOrDsAdd):  # date_sub, too, of days times -1
        days = node.expression.this if isinstance(node.expression, exp.Mul) else node.expression
        return Term("call", "date_add", (_term(node.this), _term(days)))
    if isinstance(node, exp.If):
        return _choice("if", [node.this], [b for b in (node.args.get("true"), node.args.get("false")) if b is not None])
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else ""
    parts = tuple(_term(child) for child in node.iter_expressions())
    return Term("call", SIGN_OF.get(node.key, SPARKS_NAMES.get(name.lower(), name.lower())), parts)


# Functions that the parser knows by other names than Spark.
SPARKS_NAMES = {"safe_divide": "try_divide", "safe_add": "try_add", "safe_subtract": "try_subtract",
                "safe_multiply": "try_multiply", "ts_or_ds_to_date": "to_date", "quantile": "percentile"}  # fmt: skip


def _choice(name: str, conditions: "list[exp.Expr]", branches: "list[exp.Expr]") -> Term:
    """A choice gives its branches; its conditions stand beside."""
    return Term("call", "", (Term("call", name, tuple(map(_term, branches))), *map(_term, conditions)))
