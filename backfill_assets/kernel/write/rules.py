"""Rules of a contract, written once, in Spark SQL: read, refused by name where no audit can judge
them, and translated.

Not here: counting what breaks them (`audit`, `auditor`) and what follows from it (`gates`).
"""

import re
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.contracts import Contract, Rule
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.unsteady import UNDECIDED
from backfill_assets.kernel.tables.fingerprints import quoted_list

if TYPE_CHECKING:
    from sqlglot import exp

# What DuckDB, which judges the rules, knows of the clock, chance and its session by names that
# Spark has not.
OF_SESSION = re.compile(
    r"current_\w+|pg_(?!typeof)\w+|getvariable|setseed|today|ago|transaction_timestamp|txid_current|in_search_path|"
    r"get_current_\w+|gen_random_uuid|uuidv\d|nextval|currval"
)


def check_rules(contract: Contract) -> None:
    """Raise BackfillError naming the first rule that no audit can evaluate or that names an unknown
    column."""
    for rule in contract.rules:
        parsed_rule(contract, rule)


def check_expression(rule: Rule, owner: str) -> None:
    """Raise BackfillError where no table could have this rule, whatever its columns; `owner` is
    what the error names, such as `the asset orders`."""
    _parsed_expression(rule, owner)


def breaking_conditions(contract: Contract) -> dict[str, str]:
    """Per rule of rows the condition under which a row breaks it. Raises BackfillError naming a bad
    rule."""
    return {rule.name: _broken_condition(contract, rule) for rule in contract.row_rules}


def group_breaking_conditions(contract: Contract) -> dict[str, tuple[str, str]]:
    """Per rule of groups the columns that make a group, the day first, and the condition under
    which one breaks it.

    Raises BackfillError naming a bad rule.
    """
    conditions = {}
    for rule in contract.group_rules:
        columns = dict.fromkeys((contract.day_column, *rule.per))
        conditions[rule.name] = (quoted_list(columns), _broken_condition(contract, rule))
    return conditions


def _broken_condition(contract: Contract, rule: Rule) -> str:
    return f"NOT ({parsed_rule(contract, rule).sql('duckdb')})"


def parsed_rule(contract: Contract, rule: Rule) -> "exp.Expr":
    """The condition of a rule of the table. Raises BackfillError naming a bad rule."""
    from sqlglot import exp

    owner = f"the table {contract.name}"
    parsed = _parsed_expression(rule, owner)
    columns = list(parsed.find_all(exp.Column))
    foreign = sorted({*rule.per, *(c.name for c in columns)} - set(contract.column_names))
    if foreign:
        raise _bad_rule_error(rule, owner, f"the table has no column {', '.join(foreign)}")
    single = {c.name for c in columns if c.find_ancestor(exp.AggFunc) is None}
    if rule.per and (several := sorted(single - {contract.day_column, *rule.per})):
        raise _bad_rule_error(rule, owner, f"a group has several {', '.join(several)}")
    return parsed


def _parsed_expression(rule: Rule, owner: str) -> "exp.Expr":
    """The condition of a rule. Raises BackfillError for what is none, or is not decided by one row
    or group."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(rule.expression, read="spark")
    except SqlglotError as error:
        raise _bad_rule_error(
            rule, owner, f"it is no expression: {str(error).splitlines()[0]}"
        ) from None
    if not isinstance(parsed, exp.Condition):
        raise _bad_rule_error(rule, owner, "it is not one condition")
    beyond: tuple[type[exp.Expr], ...] = (exp.Window, exp.Subquery, exp.Select, exp.Rand)
    unit = "group"
    if not rule.per:
        beyond, unit = (*beyond, exp.AggFunc), "row"
    if parsed.find(*beyond) is not None:
        raise _bad_rule_error(rule, owner, f"it is not about one {unit}")
    for called in parsed.find_all(exp.Func):
        if _is_undecided(called):
            raise _bad_rule_error(rule, owner, f"{called.sql('spark')} is not decided by the row")
    return parsed


def _is_undecided(called: "exp.Func") -> bool:
    """Whether a function gives what the clock, chance or the session says."""
    from sqlglot import exp

    name = (called.name if isinstance(called, exp.Anonymous) else called.sql_name()).lower()
    if name == "age":  # of one instant it is the time until now
        return len(called.expressions) == 1
    return name in UNDECIDED or OF_SESSION.fullmatch(name) is not None


def _bad_rule_error(rule: Rule, owner: str, culprit: str) -> BackfillError:
    return BackfillError(
        f"the rule {rule.name} of {owner} ({rule.expression})",
        culprit,
        "Nothing was written",
        "Write Spark SQL over the columns of one row, e.g. `value >= 0`; with `per`, over "
        "aggregates: `count(*) <= 3`",
    )
