"""How many mature labels a write turns, of rows written here.

Tested here: `pipeline.transforms.flips` in the embedded engine, without Spark. Not tested here: which days are looked
at (`load.test_facts`), and that Dagster shows it (`end_to_end.test_labels_over_time`).
"""

from datetime import date

import duckdb

from backfill_assets.pipeline.transforms.flips import flips

FIRST, SECOND = date(2024, 3, 1), date(2024, 3, 2)
COLUMNS = 'rows(label_date, "who "" is", label, label_state)'
BEFORE = f"""SELECT * FROM (VALUES
(DATE '2024-03-01', 'stays', 1, 'mature'), (DATE '2024-03-01', 'turns', 0, 'mature'),
(DATE '2024-03-01', 'goes', 0, 'mature'), (DATE '2024-03-01', 'had none', NULL, 'mature'),
(DATE '2024-03-02', 'stays', 1, 'mature'), (DATE '2024-03-02', 'unripe', 0, 'provisional'),
(DATE '2024-03-03', 'unripe', 0, 'provisional')) {COLUMNS}"""
AFTER = f"""SELECT * FROM (VALUES
(DATE '2024-03-01', 'stays', 1, 'mature'), (DATE '2024-03-01', 'turns', 1, 'mature'),
(DATE '2024-03-01', 'had none', 1, 'mature'), (DATE '2024-03-01', 'comes', 1, 'mature'),
(DATE '2024-03-02', 'stays', 1, 'provisional'), (DATE '2024-03-02', 'unripe', 1, 'mature'),
(DATE '2024-03-03', 'unripe', 1, 'mature')) {COLUMNS}"""


def test_a_mature_label_that_has_another_value_or_is_gone_counts_and_no_other() -> None:
    found = dict(duckdb.execute(flips(BEFORE, AFTER, ['who " is'])).fetchall())
    assert found == {FIRST: 3, SECOND: 0}


def test_a_label_is_found_again_by_all_columns_of_its_entity() -> None:
    day = f"DATE '{FIRST}' AS label_date"
    rows = f"SELECT {day}, a, b, label, 'mature' AS label_state FROM (VALUES {{}}) rows(a, b, label)"
    before, after = rows.format("(1, 1, 0), (1, 2, 1)"), rows.format("(1, 1, 1), (1, 2, 1)")
    assert duckdb.execute(flips(before, after, ["a", "b"])).fetchall() == [(FIRST, 1)]
