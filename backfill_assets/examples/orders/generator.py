"""What lands in the example `orders`: one CSV a day, orders and returns of a dozen customers, some days late.

Lives here: the rows, the same on every machine. Does not live here: writing them to a folder
(`operations.example_lakes`). The files have no times of arrival and no numbers: the folder of a day says when it came.
"""

from collections import defaultdict
from datetime import date, datetime, timedelta
from random import Random

from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.examples.texts import chance_of, csv_text, moment

FIRST = date(2024, 3, 1)
OF_BAD_ROWS = FIRST + ONE_DAY * 3
DAYS = 14
LATE_DAY = date(2024, 3, 15)  # on which one shop's till, offline for days, delivers all it has
COLUMNS = ("order_id", "ordered_at", "customer_id", "country", "total", "is_return")
CUSTOMERS = {"ada": "DE", "ben": "DE", "cleo": "FR", "dan": "IT", "eva": "DE", "fay": "FR", "gus": "DE", "hal": "IT"}
ORDERS_A_DAY = (6, 12)
OFFLINE = "gus"  # his shop's till has no network from the 5th on
OFFLINE_FROM = date(2024, 3, 5)

Row = dict[str, object]


def files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    chance, arrived = chance_of("orders"), defaultdict[date, list[Row]](list)
    for number in range(DAYS):
        day = FIRST + ONE_DAY * number
        for order in range(chance.randint(*ORDERS_A_DAY)):
            _order(chance, f"{day:%m%d}-{order:02d}", day, arrived)
    arrived[OF_BAD_ROWS] += _unusable()
    return {
        f"{'later' if day == LATE_DAY else 'landing'}/dt={day}/orders.csv": csv_text(COLUMNS, rows)
        for day, rows in sorted(arrived.items())
    }


def _order(chance: Random, name: str, day: date, arrived: defaultdict[date, list[Row]]) -> None:
    """An order, on the day it arrives, and perhaps its correction or its return on a later one."""
    at = midnight(day) + timedelta(minutes=chance.randrange(24 * 60))
    customer, cents = chance.choice(list(CUSTOMERS)), chance.randrange(500, 20_000)
    order = _row(name, at, customer, cents)
    late = customer == OFFLINE and day >= OFFLINE_FROM
    comes = LATE_DAY if late else day + ONE_DAY * chance.choice((0, 0, 0, 0, 0, 0, 1, 3))
    drawn = chance.random()
    after = comes + ONE_DAY * chance.randint(1, 2)
    if comes <= LATE_DAY - ONE_DAY or late:
        arrived[comes].append(order)
    if drawn < 0.08 and after < LATE_DAY:  # the same order once more, with another total: it replaces the first
        arrived[after].append({**order, "total": f"{(cents // 2) / 100:.2f}"})
    elif drawn < 0.2 and after < LATE_DAY:
        returned = _row(f"R{name}", midnight(after) + timedelta(hours=12), customer, cents)
        arrived[after].append({**returned, "is_return": "true"})


def _row(name: str, at: datetime, customer: str, cents: int) -> Row:
    return {
        "order_id": name, "ordered_at": moment(at), "customer_id": customer, "country": CUSTOMERS[customer],
        "total": f"{cents / 100:.2f}", "is_return": "false",
    }  # fmt: skip


def _unusable() -> list[Row]:
    """Rows that cannot be deliveries: each breaks another promise of `lake.toml`."""
    good = _row("bad-1", midnight(OF_BAD_ROWS), "ada", 1000)
    return [
        {**good, "total": "ten euros"},
        {**good, "order_id": "bad-2", "total": None},
        {**good, "order_id": "bad-3", "ordered_at": "yesterday"},
        {**good, "order_id": "bad-4", "total": "12345678901234567890.00"},
    ]
