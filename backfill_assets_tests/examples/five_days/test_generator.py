"""The files of the example `five-days` are off on five days, and say so right when they come again.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json

from backfill_assets.examples.five_days.generator import files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_exactly_five_days_come_again_with_a_hundredth_of_the_amounts() -> None:
    rows = {name: [json.loads(line) for line in text.splitlines()] for name, text in files().items()}
    (again,) = (mine for name, mine in rows.items() if name.startswith("later"))
    first = {r["sale_id"]: r for name, mine in rows.items() if name.startswith("landing") for r in mine}
    assert sorted({r["sold_at"][:10] for r in again}) == [f"2025-01-{day}" for day in range(10, 15)]
    assert all(first[r["sale_id"]]["cents"] == r["cents"] * 100 for r in again)
