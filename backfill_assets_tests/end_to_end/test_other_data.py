"""Other data sets of the contract run through `lake.toml` alone: other windows, rules, formats,
never other code.

Lives here: seeded unruly deliveries against the naive oracle, for every format and rule. Does not
live here: the shared data sets (`test_golden`). A failing seed is a whole bug report: format, rules
and rows follow from it.
"""

import random
from datetime import date, datetime
from pathlib import Path

import pytest

from backfill_assets_tests.end_to_end.worlds import FORMATS, land, make_world, span
from backfill_assets_tests.oracle import TABLES, Rules, expected, unruly

pytestmark = pytest.mark.usefixtures("spark")
START = date(2024, 2, 25)
at = datetime.fromisoformat
CASES = [
    (
        "csv",
        Rules(START, at("2024-03-09 07:30"), date(2024, 3, 10), (3, 5), 0, "value", "rise", 2, 0),
    ),
    ("jsonl", Rules(START, at("2024-03-08"), date(2024, 3, 10), (1, 1), 30, "events", "any", 4, 2)),
    ("parquet", Rules(START, at("2024-03-09"), date(2024, 3, 9), (2, 28), 24, "flag", "any", 1, 0)),
    (
        "csv.gz",
        Rules(START, at("2024-03-20"), date(2024, 3, 21), (7, 7), 5, "events", "rise", 3, 1),
    ),
    (
        "jsonl.gz",
        Rules(START, at("2024-03-07 12:00"), date(2024, 3, 8), (1, 6), 13, "flag", "rise", 5, 3),
    ),
]


@pytest.mark.parametrize(("format", "rules"), CASES, ids=[c[0] for c in CASES])
def test_unruly_deliveries_under_any_rules_give_what_joins_give(
    tmp_path: Path, format: str, rules: Rules
) -> None:
    seed = list(FORMATS).index(format)
    rows = unruly(seed, START)
    random.Random(seed).shuffle(rows)
    world = make_world(tmp_path, rules, format)
    for n in range(3):
        land(world, f"part-{n}.{format}", rows[n::3])
    world.backfill(span(rules))
    wanted = expected(rows, rules)
    assert all(wanted[t] for t in TABLES)
    assert {t: world.content(t) for t in TABLES} == wanted
    assert len(world.content("raw")) == sum(r["arrival_ts"] < rules.until for r in rows)
    assert world.content("quarantine") == []
