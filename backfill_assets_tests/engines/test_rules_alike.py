"""Which rules an engine may judge where the rows are, and which are left to DuckDB. Not here: rules
that no audit can judge (`kernel/write/test_rules.py`)."""

from pathlib import Path

import pytest

from backfill_assets.engines.rules_alike import is_judged_alike
from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.files import bare_lake

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
