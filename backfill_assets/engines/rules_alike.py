"""Which rules of a contract an engine judges as DuckDB does, so that it may audit the table.

Not here: reading the rules (`kernel.write.rules`), and counting what breaks them
(`engines.auditor`).
"""

import re
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.column_types import DECIMAL, WHOLE_DIGITS, ColumnType
from backfill_assets.kernel.core.contracts import Contract, Rule
from backfill_assets.kernel.write.rules import parsed_rule

if TYPE_CHECKING:
    from sqlglot import exp

# Literals that every engine reads alike: without signs that some escape, and of few enough digits.
PLAIN_TEXT, PLAIN_NUMBER = re.compile(r"[\w .:/-]*"), re.compile(r"\d{1,9}(\.\d{1,6})?")


def is_judged_alike(contract: Contract, rule: Rule) -> bool:
    """Whether every engine judges the rule as DuckDB does. Alike are `IS NULL` and comparisons of a
    column with columns of its type and literals, of whole numbers, decimals of up to 18 digits and
    plain texts, and of groups those of `count(*)`. A DOUBLE is compared in several ways (-0.0 may
    be less than 0.0). Raises BackfillError naming a bad rule."""
    from sqlglot import exp

    nodes = list(parsed_rule(contract, rule).walk())
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
