"""The arguments of `lake_checks` and `daily_table` that name rules, judged as a project is loaded.

Lives here: what can be known of them without a row. Does not live here: whether a table has the
columns that they name, which its first rows tell (`contracts`), and judging rows
(`kernel.write.gates`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from backfill_assets.assets.contracts import Rules
from backfill_assets.kernel.core.contracts import Rule
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.write.rules import check_expression

OnBadDays = Literal["", "refuse", "keep_good"]
GivenRules = Sequence[Rule] | Mapping[str, str]
NUMBER_OF_BOUNDS = 2  # of the rows of a day: the least, the most
RULES_FORM = 'Write rules={"is_paid": "cents > 0"}, or a list of `Rule`'


def rules_from_arguments(
    owner: str,
    *,
    unique: Sequence[str],
    not_null: Sequence[str],
    rows: tuple[int | None, int | None],
    rules: GivenRules,
    on_bad_days: OnBadDays,
) -> Rules:
    """The rules that these arguments say; `owner` is what an error names, such as `the asset
    orders`. Raises SettingsError naming the argument that says none: another type, no bound, no
    condition in Spark SQL."""
    if on_bad_days not in ("", "refuse", "keep_good"):
        raise _argument_error(
            owner, f"on_bad_days is {on_bad_days!r}", 'Say "refuse" or "keep_good"'
        )
    return Rules(
        _named_columns(owner, "unique", unique),
        _named_columns(owner, "not_null", not_null),
        _row_bounds(owner, rows),
        _named_conditions(owner, rules),
        on_bad_days,
    )


def _named_columns(owner: str, argument: str, given: Any) -> tuple[str, ...]:
    """The columns that an argument of that name was given. Raises SettingsError for no list of
    texts, which a single text is not."""
    if not _is_sequence(given) or not all(map(_is_text, given)):
        example = given if isinstance(given, str) else "id"
        raise _argument_error(
            owner,
            f"{argument} is {given!r}, and no list of columns",
            f'Write {argument}=["{example}"]',
        )
    return tuple(given)


def _row_bounds(owner: str, given: Any) -> tuple[int | None, int | None]:
    """The least and the most rows of a day. Raises SettingsError for anything else."""
    fix = "Write rows=(1, None) for at least one row a day; None is no bound"
    if not _is_sequence(given) or len(given) != NUMBER_OF_BOUNDS or not all(map(_is_bound, given)):
        raise _argument_error(
            owner, f"rows is {given!r}, and not the least and the most rows of a day", fix
        )
    least, most = given
    if None not in given and least > most:
        raise _argument_error(owner, f"rows is {given!r}, and the least is more than the most", fix)
    return least, most


def _is_sequence(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


def _is_bound(bound: Any) -> bool:
    is_number = isinstance(bound, int) and not isinstance(bound, bool)
    return bound is None or (is_number and bound >= 0)


def _named_conditions(owner: str, given: Any) -> tuple[Rule, ...]:
    """The rules by name, each of which could be one of some table."""
    if isinstance(given, Mapping):
        given = [Rule(name, text, str(name).replace("_", " ")) for name, text in given.items()]
    if not _is_sequence(given) or not all(isinstance(rule, Rule) for rule in given):
        raise _argument_error(owner, f"rules is {given!r}, which gives no names", RULES_FORM)
    found = cast("tuple[Rule, ...]", tuple(given))
    for rule in found:
        _refuse_no_condition(owner, rule)
    counts = Counter(rule.name for rule in found)
    if repeated := [name for name, times in counts.items() if times > 1]:
        raise _argument_error(
            owner,
            f"rules has {', '.join(repeated)} more than once",
            "Give every rule a name of its own",
        )
    return found


def _refuse_no_condition(owner: str, rule: Rule) -> None:
    """Raise SettingsError for a rule without a name, or whose expression is no condition of
    SQL."""
    if not _is_text(rule.name) or not isinstance(rule.expression, str):
        culprit = f"rules has {rule.name!r}: {rule.expression!r}, and both are texts"
        raise _argument_error(owner, culprit, RULES_FORM)
    try:
        check_expression(rule, owner)
    except BackfillError as error:
        raise SettingsError(error.object, error.culprit, "No check was made", error.fix) from None


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and bool(given)


def _argument_error(owner: str, culprit: str, fix: str) -> SettingsError:
    return SettingsError(owner, culprit, "No check was made", fix)
