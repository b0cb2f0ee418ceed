"""Rules of a contract: rows that break one are counted and named, and a bad rule is refused by name.

Tested here: rules of rows and of groups in `lake.audit`. Not tested here: judging the counts (`lake.test_gates`).
"""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.contracts import Rule
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.audit import audit, breaking, breaking_groups, sample_keys
from backfill_assets.lake.gates import RULES
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand

SMALL = Rule("is_small", "abs(value) < 10 OR value = 99", "small, or the one that is known")
NAMED = Rule("has_name", "length(entity) > 0", "no name is empty")
RULED = replace(STAGING, rules=(SMALL, NAMED))


def shown(entity: str) -> str:
    """What sample keys show of an entity."""
    return f'"{hashlib.md5(entity.encode(), usedforsecurity=False).hexdigest()[:8]}"'


def test_rows_that_break_a_rule_are_counted_per_day_and_null_breaks_none(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    values = [(0, "a", 1), (0, "b", 10), (0, "c", -11), (0, None, None), (0, "d", 99), (1, "", 5)]
    rows = [{"entity": e, "value": v, "event_date": day(n)} for n, e, v in values]
    staged = stage_by_hand(lake, RULED, rows)
    found = audit(lake, staged.paths, RULED)
    assert {d: dict(p.broken) for d, p in found.items()} == {day(0): {"is_small": 2}, day(1): {"has_name": 1}}
    keys = sample_keys(lake, staged.paths, RULED, day(0), RULES)
    assert len(keys) == 2
    assert all(shown("b") in k or shown("c") in k for k in keys)
    assert not any('"b"' in k or '"c"' in k for k in keys), "events and alerts name no entity"


def test_groups_of_a_days_rows_that_break_a_rule_are_counted_per_day(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    few = Rule("few", "count(*) <= 2", "at most two an entity", per=("entity",))
    sums = Rule("sums_up", "sum(value) >= 0", "a day's total", per=("event_date",), only_warns=True)
    named = Rule("no_x", "entity <> 'x' OR max(value) < 5", "x is small", per=("entity",))
    contract = replace(STAGING, rules=(SMALL, few, sums, named))
    values = [(0, "a", 1), (0, "a", 2), (0, "a", 3), (0, "b", 4), (1, "a", -9), (1, "x", 6), (1, "b", None)]
    rows = [{"entity": e, "value": v, "event_date": day(n)} for n, e, v in values]
    staged = stage_by_hand(lake, contract, rows)
    found = audit(lake, staged.paths, contract)
    assert {d: dict(p.broken) for d, p in found.items()} == {day(0): {"few": 1}, day(1): {"sums_up": 1, "no_x": 1}}
    keys = sample_keys(lake, staged.paths, contract, day(0), RULES)
    assert [shown("a") in k for k in keys] == [True]
    assert [shown("x") in k for k in sample_keys(lake, staged.paths, contract, day(1), RULES)] == [True]


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
        breaking_groups(replace(STAGING, rules=(rule,)))


@pytest.mark.parametrize(
    ("expression", "culprit"),
    [
        ("value >", "it is no expression"),
        ("amount > 0", "the table has no column amount"),
        ("value > avg(value)", "it is not about one row"),
        ("value IN (SELECT 1)", "it is not about one row"),
    ],
)
def test_a_rule_that_is_none_is_refused_by_name(expression: str, culprit: str) -> None:
    contract = replace(STAGING, rules=(Rule("odd", expression, ""),))
    with pytest.raises(BackfillError, match=culprit) as refused:
        breaking(contract)
    assert "the rule odd of the table staging" in str(refused.value)


def test_a_rule_is_written_in_sparks_words_and_audited_in_duckdbs() -> None:
    contract = replace(STAGING, rules=(Rule("matched", "entity RLIKE '^[A-Z]+$'", "capitals"),))
    assert "REGEXP_MATCHES(entity" in breaking(contract)["matched"]


def test_no_name_of_a_rule_may_repeat() -> None:
    with pytest.raises(ValueError, match="no name of a rule may repeat"):
        replace(STAGING, rules=(SMALL, SMALL))


def test_the_rules_of_the_products_tables_can_be_audited(tmp_path: Path) -> None:
    made = [t.contract for t in tables(bare_lake(tmp_path).settings)]
    assert sum(len(breaking(c)) for c in made) == 15
    assert {c.name for c in made if c.rules} == {"features", "features_as_known", "labels", "training"}
