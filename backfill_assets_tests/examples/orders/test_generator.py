"""The files of the example `orders` hold what its steps show: returns, corrections, late rows and unusable ones.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import csv
from collections import Counter

from backfill_assets.examples.orders.generator import CUSTOMERS, OFFLINE, OFFLINE_FROM, files


def rows() -> list[dict[str, str]]:
    return [
        {**row, "came": name.split("dt=")[1][:10], "later": str(name.startswith("later/"))}
        for name, text in files().items()
        for row in csv.DictReader(text.splitlines())
    ]


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_orders_are_late_corrected_returned_and_some_cannot_be_used() -> None:
    made = [r for r in rows() if not r["order_id"].startswith("bad")]
    assert {r["customer_id"] for r in made} == set(CUSTOMERS)
    assert len(rows()) - len(made) == 4
    assert any(r["came"] > r["ordered_at"][:10] for r in made if r["later"] == "False")
    twice = [name for name, times in Counter(r["order_id"] for r in made).items() if times > 1]
    assert twice
    assert {r["is_return"] for r in made} == {"true", "false"}


def test_the_till_that_was_offline_delivers_last() -> None:
    offline = [r for r in rows() if r["later"] == "True"]
    assert {r["customer_id"] for r in offline} == {OFFLINE}
    assert min(r["ordered_at"] for r in offline) >= str(OFFLINE_FROM)
