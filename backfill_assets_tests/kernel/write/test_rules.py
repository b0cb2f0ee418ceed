"""Rules of a contract: which are refused by name, and how DuckDB judges them in its own words. Not
here: the rows and groups that break them (`test_audit`, `test_auditor`), and which rules engines
judge alike (`engines/test_rules_alike.py`)."""

from dataclasses import replace

import pytest

from backfill_assets.kernel.core.contracts import Rule
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.write.rules import breaking_conditions, group_breaking_conditions
from backfill_assets_tests.builders import STAGING

SMALL = Rule("is_small", "abs(value) < 10 OR value = 99", "small, or the one that is known")


@pytest.mark.parametrize(
    ("rule", "culprit"),
    [
        (Rule("odd", "value < 3", "", per=("entity",)), "a group has several value"),
        (Rule("odd", "count(*) < 3", "", per=("customer",)), "the table has no column customer"),
        (Rule("odd", "count(*) < (SELECT 1)", "", per=("entity",)), "it is not about one group"),
    ],
)
def test_a_rule_of_groups_that_is_none_is_refused_by_name(rule: Rule, culprit: str) -> None:
    with pytest.raises(BackfillError, match=culprit):
        group_breaking_conditions(replace(STAGING, rules=(rule,)))


@pytest.mark.parametrize(
    ("expression", "culprit"),
    [
        ("value >", "it is no expression"),
        ("amount > 0", "the table has no column amount"),
        ("value > avg(value)", "it is not about one row"),
        ("value IN (SELECT 1)", "it is not about one row"),
        ("event_date <= now()", "NOW.. is not decided by the row"),
        ("event_date <= current_timestamp", "CURRENT_TIMESTAMP.* is not decided by the row"),
        ("event_date <= today()", "TODAY.. is not decided by the row"),
        ("current_setting('TimeZone') = 'UTC'", "is not decided by the row"),
        ("age(event_date) > INTERVAL '1' DAY", "is not decided by the row"),
        ("version() <> entity", "is not decided by the row"),
    ],
)
def test_a_rule_that_is_none_is_refused_by_name(expression: str, culprit: str) -> None:
    contract = replace(STAGING, rules=(Rule("odd", expression, ""),))
    with pytest.raises(BackfillError, match=culprit) as refused:
        breaking_conditions(contract)
    assert "the rule odd of the table staging" in str(refused.value)


def test_a_rule_is_written_in_sparks_words_and_audited_in_duckdbs() -> None:
    contract = replace(STAGING, rules=(Rule("matched", "entity RLIKE '^[A-Z]+$'", "capitals"),))
    assert "REGEXP_MATCHES(entity" in breaking_conditions(contract)["matched"]
