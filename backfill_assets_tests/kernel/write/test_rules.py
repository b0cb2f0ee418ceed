"""Rules of a contract: which are refused by name, which DuckDB judges in its own words, and which
engines judge alike. Not here: the rows and groups that break them (`test_audit`,
`test_auditor`)."""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.write.rules import (
    breaking_conditions,
    group_breaking_conditions,
    is_judged_alike,
)
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import STAGING
from backfill_assets_tests.files import bare_lake

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


COLUMNS = (
    Column("day", "DATE", "d"),
    Column("n", "BIGINT", "n"),
    Column("m", "BIGINT", "m"),
    Column("i", "INT", "i"),
    Column("x", "DOUBLE", "x"),
    Column("sum", "DECIMAL(18,2)", "s"),
    Column("long", "DECIMAL(38,2)", "s"),
    Column("a text", "STRING", "t"),
)
TABLE = Contract("t", "t", COLUMNS, "day", (), ())


@pytest.mark.parametrize(
    "expression",
    [
        "n >= 0",
        "n < m AND NOT n IN (1, -2)",
        "i BETWEEN 0 AND 9 OR x IS NULL",
        "sum <> 0.5",
        "`a text` IN ('a', 'b c')",
        "long IS NOT NULL",
        "(`a text` < 'z') OR n IS NULL",
    ],
)
def test_what_engines_and_duckdb_judge_alike_is_judged_where_the_rows_are(expression: str) -> None:
    assert is_judged_alike(TABLE, Rule("r", expression, "r"))
    assert is_judged_alike(TABLE, Rule("r", "count(*) <= 3", "r", per=("x", "day")))


GROUPED = (
    "sum(n) >= 0",
    "max(n) < 5",
    "count(n) = 1",
    "count(DISTINCT n) = 1",
    "day IS NULL OR count(*) = 1",
)


@pytest.mark.parametrize(
    "expression",
    [
        "x >= 0",
        "n >= x",
        "n < i",
        "long > 1",
        "`a text` LIKE 'a%'",
        "`a text` = 'it''s'",
        "`a text` = 'b\\\\n'",
        "`a text` > 1",
        "n > '1'",
        "n + 1 > 0",
        "-n < 5",
        "n <=> 1",
        "day > '2024-01-01'",
        "n > 1e3",
        "n < 99999999999999999999",
        "length(`a text`) > 0",
        "(n IS NULL) IS TRUE",
        *GROUPED,
    ],
)
def test_what_they_may_judge_differently_is_left_to_duckdb(expression: str) -> None:
    per = ("day",) if expression in GROUPED else ()
    assert not is_judged_alike(TABLE, Rule("r", expression, "r", per=per))


def test_all_rules_of_the_products_tables_are_judged_alike(tmp_path: Path) -> None:
    made = [t.contract for t in tables(bare_lake(tmp_path).settings)]
    assert [(c.name, r.name) for c in made for r in c.rules if not is_judged_alike(c, r)] == []
