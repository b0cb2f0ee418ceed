"""The rules of a contract as SQL of the engine that audits: written once, in Spark's words.

Lives here: checking a rule's expression and saying it to Spark or DuckDB. Does not live here: counting the rows and
groups that break it (`audit`, `profile`) and judging the counts (`lake.gates`).
"""

from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract, Rule
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.fingerprints import Dialect

if TYPE_CHECKING:
    from sqlglot import exp


def check_rules(contract: Contract) -> None:
    """Raises BackfillError naming the first rule that no audit could take, or that names a column the table lacks.

    Nothing is run, and a contract without rules costs nothing.
    """
    for rule in contract.rules:
        _parsed(contract, rule)


def breaking(contract: Contract, dialect: Dialect) -> dict[str, str]:
    """Per rule of rows the condition under which a row breaks it. Raises BackfillError naming a bad rule."""
    return {rule.name: _broken(contract, rule, dialect) for rule in contract.row_rules}


def breaking_groups(contract: Contract, dialect: Dialect) -> dict[str, tuple[tuple[str, ...], str]]:
    """Per rule of groups the columns that make a group, the day first, and the condition under which one breaks it.

    Raises BackfillError naming a bad rule.
    """
    return {
        rule.name: (tuple(dict.fromkeys((contract.day_column, *rule.per))), _broken(contract, rule, dialect))
        for rule in contract.group_rules
    }


def _broken(contract: Contract, rule: Rule, dialect: Dialect) -> str:
    return f"NOT ({_parsed(contract, rule).sql(_name(dialect))})"


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
    columns = list(parsed.find_all(exp.Column))
    foreign = sorted({*rule.per, *(c.name for c in columns)} - set(contract.column_names))
    if foreign:
        raise _bad(contract, rule, f"the table has no column {', '.join(foreign)}")
    beyond = (exp.Window, exp.Subquery, exp.Select, exp.Rand)
    if parsed.find(*beyond, *(() if rule.per else (exp.AggFunc,))) is not None:
        raise _bad(contract, rule, f"it is not about one {'group' if rule.per else 'row'}")
    single = {c.name for c in columns if c.find_ancestor(exp.AggFunc) is None}
    if rule.per and (several := sorted(single - {contract.day_column, *rule.per})):
        raise _bad(contract, rule, f"a group has several {', '.join(several)}")
    return parsed


def _bad(contract: Contract, rule: Rule, culprit: str) -> BackfillError:
    return BackfillError(
        f"the rule {rule.name} of the table {contract.name} ({rule.expression})", culprit, "Nothing was written",
        "Write Spark SQL over the columns of one row, e.g. `value >= 0`; with `per`, over aggregates: `count(*) <= 3`",
    )  # fmt: skip
