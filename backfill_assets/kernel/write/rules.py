"""Rules of a contract, written once, in Spark SQL: read, refused by name where no audit can judge
them, and translated.

Not here: counting what breaks them (`audit`, `auditor`) and what follows from it (`gates`).
"""

import re
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.column_types import DECIMAL, WHOLE_DIGITS, ColumnType
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
# Literals that every engine reads alike: without signs that some escape, and of few enough digits.
PLAIN_TEXT, PLAIN_NUMBER = re.compile(r"[\w .:/-]*"), re.compile(r"\d{1,9}(\.\d{1,6})?")


def check_rules(contract: Contract) -> None:
    """Raise BackfillError naming the first rule that no audit can evaluate or that names an unknown
    column."""
    for rule in contract.rules:
        _parsed_rule(contract, rule)


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


def is_judged_alike(contract: Contract, rule: Rule) -> bool:
    """Whether every engine judges the rule as DuckDB does. Alike are `IS NULL` and comparisons of a
    column with columns of its type and literals, of whole numbers, decimals of up to 18 digits and
    plain texts, and of groups those of `count(*)`. A DOUBLE is compared in several ways (-0.0 may
    be less than 0.0). Raises BackfillError naming a bad rule."""
    from sqlglot import exp

    nodes = list(_parsed_rule(contract, rule).walk())
    compared = {exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between}
    joined = {exp.And, exp.Or, exp.Not, exp.Paren, exp.Is, exp.Neg, exp.Literal, exp.Null}
    named = {exp.Count, exp.Star} if rule.per else {exp.Column, exp.Identifier}
    if not {*map(type, nodes)} <= compared | joined | named:
        return False
    return all(_compares_alike(contract, n) for n in nodes if type(n) in compared)


def _compares_alike(contract: Contract, comparison: "exp.Expr") -> bool:
    """Whether all its columns are of one type that engines compare alike, and its literals of the
    same sort."""
    from sqlglot import exp

    kinds = {contract.column(c.name).kind for c in comparison.find_all(exp.Column)}
    literals, negated = list(comparison.find_all(exp.Literal)), list(comparison.find_all(exp.Neg))
    if {k.kind for k in kinds} == {"STRING"}:
        are_plain = all(n.is_string and PLAIN_TEXT.fullmatch(n.this) for n in literals)
        return are_plain and not negated
    if len(kinds) > 1 or not all(map(_is_exact, kinds)):
        return False
    are_plain = all(not n.is_string and PLAIN_NUMBER.fullmatch(n.this) for n in literals)
    return are_plain and all(isinstance(n.this, exp.Literal) for n in negated)


def _is_exact(kind: ColumnType) -> bool:
    """Whether every engine compares numbers of the type exactly."""
    if kind.kind == DECIMAL:
        return kind.precision <= WHOLE_DIGITS
    return kind.kind in ("INT", "BIGINT")


def _broken_condition(contract: Contract, rule: Rule) -> str:
    return f"NOT ({_parsed_rule(contract, rule).sql('duckdb')})"


def _parsed_rule(contract: Contract, rule: Rule) -> "exp.Expr":
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
