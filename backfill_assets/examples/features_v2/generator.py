"""Files of the example `features-v2`: purchases and refunds of ten customers, in shops and on the web, over 90 days.

Not here: writing them to a folder (`operations.example_lakes`), and the two versions of the table, which are SQL.
"""

from datetime import date

from backfill_assets.examples.texts import Row, chance_of, daily_files, moment, times

FIRST = date(2024, 12, 1)
DAYS = 90  # to 2025-02-28
PURCHASES_A_DAY = 40
CUSTOMERS = 10
REFUNDED = 0.1  # share of purchases whose amount is negative


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance = chance_of("features-v2")
    rows: list[Row] = [
        {
            "purchase_id": f"p{number:05d}", "customer_id": f"c{chance.randrange(CUSTOMERS)}", "bought_at": moment(at),
            "cents": chance.randrange(500, 9_000) * (-1 if chance.random() < REFUNDED else 1),
            "channel": chance.choice(("web", "shop", "shop")),
        }
        for number, at in enumerate(times(chance, FIRST, DAYS, PURCHASES_A_DAY))
    ]  # fmt: skip
    return daily_files(rows, "bought_at")
