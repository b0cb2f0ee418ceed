"""The rules of a contract as SQL of the engine that audits: written once, in Spark's words.

Lives here: checking a rule's expression and saying it to Spark or DuckDB. Does not live here: counting the rows that
break it (`audit`, `profile`) and judging the counts (`core.gates`).
"""

from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract, Rule
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.fingerprints import Dialect

if TYPE_CHECKING:
    from sqlglot import exp


def breaking(contract: Contract, dialect: Dialect) -> dict[str, str]:
    """Per rule of a contract the condition under which a row breaks it. Raises BackfillError naming a bad rule."""
    return {rule.name: f"NOT ({_parsed(contract, rule).sql(_name(dialect))})" for rule in contract.rules}


def _name(dialect: Dialect) -> str:
    return "duckdb" if dialect is Dialect.DUCKDB else "spark"


def _parsed(contract: Contract, rule: Rule) -> "exp.Expr":
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(rule.expression, read="spark")
    except SqlglotError as error:
        raise _bad(contract, rule, f"it is no expression: {str(error).splitlines()[0]}") from None
    foreign = sorted({c.name for c in parsed.find_all(exp.Column)} - set(contract.column_names))
    if foreign:
        raise _bad(contract, rule, f"the table has no column {', '.join(foreign)}")
    if parsed.find(exp.AggFunc, exp.Window, exp.Subquery, exp.Select, exp.Rand) is not None:
        raise _bad(contract, rule, "it is not about one row")
    return parsed


def _bad(contract: Contract, rule: Rule, culprit: str) -> BackfillError:
    return BackfillError(
        f"the rule {rule.name} of the table {contract.name} ({rule.expression})", culprit, "Nothing was written",
        "Write Spark SQL over the columns of one row, e.g. `value >= 0`",
    )  # fmt: skip
