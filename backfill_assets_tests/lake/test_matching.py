"""Two sides matched by key, from SELECTs alone: what each side lacks, repeats and has otherwise, per day and column.

Tested here: `lake.matching`. Not tested here: sides, tolerances and digests (`operations.test_reconcile`).
"""

import duckdb

from backfill_assets.lake.matched_columns import compared_columns
from backfill_assets.lake.matching import DIFFERS, DOUBLED_LEFT, MISSING_LEFT, Matching

ROWS = "SELECT * FROM (VALUES {}) AS rows (day, key, n)"
MON, TUE = "DATE '2024-03-04'", "DATE '2024-03-05'"


def test_rows_are_counted_by_kind_and_day_and_values_by_column() -> None:
    left = ROWS.format(f"({MON}, 'a', 1), ({MON}, 'a', 1), ({TUE}, NULL, 2)")
    right = ROWS.format(f"({MON}, 'a', 1), ({TUE}, NULL, 3), ({TUE}, 'b', 4)")
    types = {"day": "DATE", "key": "VARCHAR", "n": "INTEGER"}
    with duckdb.connect() as engine:
        columns = compared_columns(engine, (types, types), ("day", "key"))
        matching = Matching(engine, (left, right), ("day", "key"), "day", columns)
        assert matching.match() == ((1, 1), (1, 0))
        monday, tuesday = matching.days()
        assert (monday.kinds, tuesday.kinds) == ({DOUBLED_LEFT: 1}, {DIFFERS: 1, MISSING_LEFT: 1})
        assert list(matching.changed_by_day().values()) == [{"n": 1}]
        assert {row.kind for row in matching.examples()} == {DOUBLED_LEFT, DIFFERS, MISSING_LEFT}
