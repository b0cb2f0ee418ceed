"""The rows that `demo` loads: a month of a small shop's orders, from a first day, a number of days and a seed alone.

In it: late and repeated rows, a file delivered twice, corrections (some after a newer one), deletes, orders that move
to another day or lack a customer, unusable lines, a customer with a quarter of all orders, a day without deliveries.
Not here: the lake around it (`example_lakes`).
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from backfill_assets.core.days import ONE_DAY, midnight

SEED = 20240229
FEWEST_DAYS = 14  # fewer would have no room for rows that are two weeks late
ORDERS_A_DAY = (52, 74)
HOT_CUSTOMER, HOT_SHARE = "customer-001", 0.25
CUSTOMERS = 40
SECOND_FILE_EVERY = 3  # days; the others have one file
LATENESS = ((0.84, 600), (0.08, 6 * 3600), (0.05, 3 * 86400), (0.03, 16 * 86400))  # share, at most so many seconds
SELECT = (
    "CAST(delivery AS bigint) AS seq, CAST(received_at AS timestamp) AS arrival_ts, "
    "CAST(version_at AS timestamp) AS version_ts, CAST(ordered_at AS timestamp) AS event_ts, order_id AS event_key, "
    "op, customer AS entity, CAST(amount AS bigint) AS value, CAST(returned AS int) AS flag"
)


@dataclass(frozen=True)
class Delivery:
    """One row as it will stand in a file. `ordered` is None on deletes."""

    received: datetime
    version: datetime
    ordered: datetime | None
    order: str
    op: str
    customer: str | None
    amount: int | None
    returned: int | None

    def line(self, number: int) -> str:
        """The row as a JSON line; `number` is unique in the whole sample."""
        body = {
            "delivery": number, "received_at": _text(self.received), "version_at": _text(self.version),
            "ordered_at": _text(self.ordered) if self.ordered else None, "order_id": self.order, "op": self.op,
            "customer": self.customer, "amount": self.amount, "returned": self.returned,
        }  # fmt: skip
        return json.dumps(body)


def sample_files(first: date, days: int, seed: int = SEED) -> dict[str, str]:
    """File name -> text of all that arrived on `days` days from `first` on."""
    chance = random.Random(seed)  # noqa: S311  # made-up orders need no secrets
    quiet = first + ONE_DAY * (days // 2)
    end = midnight(first) + ONE_DAY * days
    arrived: dict[date, list[Delivery]] = defaultdict(list)
    for number in range(days):
        day = first + ONE_DAY * number
        for delivery in _day_of_orders(chance, day, first) if day != quiet else ():
            # Nothing arrives on the quiet day either: the line was down, and it all came the day after.
            held = delivery.received.date() == quiet
            moved = replace(delivery, received=delivery.received + ONE_DAY) if held else delivery
            if moved.received < end:
                arrived[moved.received.date()].append(moved)
    files: dict[str, str] = {}
    counted = 0
    for day in sorted(arrived):
        lines = []
        for delivery in sorted(arrived[day], key=lambda d: (d.received, d.order, d.version)):
            counted += 1
            lines.append(delivery.line(counted))
        files |= _day_of_files(chance, day, lines, (day - first).days, first)
    again = sorted(files)[days // 3]
    return {**files, again.replace(".jsonl", "-resent.jsonl"): files[again]}


def _day_of_orders(chance: random.Random, day: date, first: date) -> Iterator[Delivery]:
    for number in range(chance.randint(*ORDERS_A_DAY)):
        ordered = midnight(day) + timedelta(seconds=chance.randrange(86_400), microseconds=chance.randrange(1_000_000))
        received = ordered + timedelta(seconds=1 + chance.random() * _delay(chance))
        hot = chance.random() < HOT_SHARE
        customer = HOT_CUSTOMER if hot else f"customer-{2 + min(int(chance.expovariate(0.08)), CUSTOMERS - 2):03d}"
        order = Delivery(
            received, ordered, ordered, f"order-{day:%Y%m%d}-{number:03d}", "upsert",
            None if chance.random() < 0.02 else customer, chance.randrange(100, 20_000), int(chance.random() < 0.08),
        )  # fmt: skip
        yield order
        yield from _later(chance, order, first)


def _delay(chance: random.Random) -> float:
    drawn = chance.random()
    for share, seconds in LATENESS:
        if drawn < share:
            return seconds
        drawn -= share
    return LATENESS[-1][1]


def _later(chance: random.Random, order: Delivery, first: date) -> Iterator[Delivery]:
    """What arrives about an order afterwards: corrections, moves to the day before, deletes."""
    drawn = chance.random()
    after = timedelta(seconds=60 + chance.random() * 4 * 86_400)
    changed = replace(order, received=order.received + after, version=order.version + after)
    if drawn < 0.06:
        yield replace(changed, amount=chance.randrange(100, 20_000), returned=1)
    elif drawn < 0.08:
        # A correction and an older one that arrives after it: the older one never becomes current.
        yield replace(changed, amount=777)
        yield replace(
            changed, amount=666, version=changed.version - timedelta(seconds=30), received=changed.received + ONE_DAY
        )
    elif drawn < 0.10 and order.ordered is not None and order.ordered.date() > first:
        yield replace(changed, ordered=order.ordered - ONE_DAY)
    elif drawn < 0.12:
        yield replace(changed, op="delete", ordered=None, customer=None, amount=None, returned=None)


def _day_of_files(chance: random.Random, day: date, lines: list[str], place: int, first: date) -> dict[str, str]:
    """The day's lines in one file or two, some of them repeated, with the unusable ones of that place in the sample."""
    repeated = [line for line in lines if chance.random() < 0.02]
    cut = len(lines) if place % SECOND_FILE_EVERY else len(lines) * 2 // 3
    parts = [lines[:cut] + _unusable(day, place, first), lines[cut:] + repeated]
    if cut == len(lines):
        parts = [parts[0] + repeated]
    names = [f"{day:%Y-%m}/orders-{day}{'' if i == 0 else f'-{i + 1}'}.jsonl" for i in range(len(parts))]
    return {name: "\n".join(part) + "\n" for name, part in zip(names, parts, strict=True)}


def _unusable(day: date, place: int, first: date) -> list[str]:
    """Lines that can never become deliveries, one kind per day of the week."""
    noon = midnight(day) + timedelta(hours=12)
    good = Delivery(noon, noon, noon, f"order-{day:%Y%m%d}-bad", "upsert", "customer-002", 500, 0)
    number = 900_000 + 10 * place
    kinds = {
        1: [good.line(number)[:-9]],
        2: [good.line(number) + " " + good.line(number + 1)],
        3: [good.line(number).replace("500", '"five hundred"'), good.line(number + 1).replace('"upsert"', '"merge"')],
        4: [replace(good, ordered=midnight(first) - timedelta(days=20)).line(number)],
        5: [replace(good, order="  ").line(number)],
        6: [replace(good, ordered=noon + timedelta(days=9)).line(number), "null"],
    }
    return kinds.get(place % 7, [])


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
