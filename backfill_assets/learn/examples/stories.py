"""Files of examples with a story: late verdicts, an offline shop, clicks with retries, sensors,
zones.

`late-truth`: a verdict names the payment and its time, so that it counts for the day of the
payment, and the time at which it was given, from which on it is known. `retried-events`: every row
has the offset that the broker gave it, a total order, also of rows that were ingested at the same
moment. `sensor-readings`: a sensor that is broken reports NaN; one that says nothing at all leaves
the field empty. `timezone-bug`: phones in New York and in Tokyo are in another day than UTC for
some hours, so plays lie on the wrong side of midnight at both ends of a day. What lies below
`later` has not landed yet. Not here: plain streams (`streams`), and writing files to a folder
(`learn.example_lakes`).
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

from backfill_assets.kernel.core.days import ONE_DAY, midnight
from backfill_assets.learn.examples.streams import (
    Row,
    csv_text,
    jsonl_text,
    seeded_random,
    time_text,
)

FIRST_PAYMENTS = date(2024, 9, 1)
DAYS_OF_PAYMENTS = 24
CARDS = ("c1", "c2", "c3", "c4", "c5")
PAYMENTS_A_DAY = (3, 6)
STOLEN = ("c2", "c5")
JUDGED_THROUGH = {
    date(2024, 9, 10): date(2024, 9, 5),
    date(2024, 9, 17): date(2024, 9, 12),
    date(2024, 9, 24): date(2024, 9, 19),
}
OVERTURNED = "c2"  # of this card the first verdicts were wrong, which the last file says
PAYMENT = ("payment_id", "card", "paid_at", "received_at", "amount")


def late_truth_files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    chance, verdicts, landed = (
        seeded_random("late-truth"),
        defaultdict[date, list[Row]](list),
        dict[str, str](),
    )
    for number in range(DAYS_OF_PAYMENTS):
        day = FIRST_PAYMENTS + ONE_DAY * number
        paid = [
            _payment_row(chance, f"p{day:%m%d}-{n}", day)
            for n in range(chance.randint(*PAYMENTS_A_DAY))
        ]
        landed[f"landing/payments/{day}.csv"] = csv_text(PAYMENT, paid)
        judged = next((on for on, through in JUDGED_THROUGH.items() if day <= through), None)
        if judged:
            doubted = [p for p in paid if p["card"] in STOLEN]
            verdicts[judged] += [
                _verdict_row(p, judged, fraud=chance.random() < 0.6) for p in doubted
            ]
    first, *_, last = JUDGED_THROUGH
    wrong = [v for v in verdicts[first] if v["fraud"] and v["card"] == OVERTURNED]
    verdicts[last] += [
        {**v, "given_at": time_text(_verdict_time(last)), "fraud": False} for v in wrong
    ]
    return landed | {
        f"later/verdicts/{day}.jsonl": jsonl_text(rows) for day, rows in verdicts.items()
    }


def _payment_row(chance: Random, name: str, day: date) -> Row:
    at = midnight(day) + timedelta(seconds=chance.randrange(86_000))
    return {
        "payment_id": name,
        "card": chance.choice(CARDS),
        "paid_at": time_text(at),
        "received_at": time_text(at + timedelta(minutes=3)),
        "amount": f"{chance.randrange(100, 40_000) / 100:.2f}",
    }


def _verdict_row(payment: Row, judged: date, fraud: bool) -> Row:
    return {
        "payment_id": payment["payment_id"],
        "card": payment["card"],
        "paid_at": payment["paid_at"],
        "given_at": time_text(_verdict_time(judged)),
        "fraud": fraud,
    }


def _verdict_time(day: date) -> datetime:
    return midnight(day) + timedelta(hours=9)


FIRST_ORDERS = date(2024, 3, 1)
OF_BAD_ROWS = FIRST_ORDERS + ONE_DAY * 3
DAYS_OF_ORDERS = 14
LATE_DAY = date(2024, 3, 15)  # on which one shop's till, offline for days, delivers all it has
COLUMNS = ("order_id", "ordered_at", "customer_id", "country", "total", "is_return")
CUSTOMERS = {
    "ada": "DE",
    "ben": "DE",
    "cleo": "FR",
    "dan": "IT",
    "eva": "DE",
    "fay": "FR",
    "gus": "DE",
    "hal": "IT",
}
ORDERS_A_DAY = (6, 12)
OFFLINE = "gus"  # his shop's till has no network from the 5th on
OFFLINE_FROM = date(2024, 3, 5)


def orders_files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    chance, arrived = seeded_random("orders"), defaultdict[date, list[Row]](list)
    for number in range(DAYS_OF_ORDERS):
        day = FIRST_ORDERS + ONE_DAY * number
        for order in range(chance.randint(*ORDERS_A_DAY)):
            _add_order(chance, f"{day:%m%d}-{order:02d}", day, arrived)
    arrived[OF_BAD_ROWS] += _unusable_rows()
    return {
        f"{'later' if day == LATE_DAY else 'landing'}/dt={day}/orders.csv": csv_text(COLUMNS, rows)
        for day, rows in sorted(arrived.items())
    }


def _add_order(chance: Random, name: str, day: date, arrived: defaultdict[date, list[Row]]) -> None:
    """An order, on the day it arrives, and perhaps its correction or its return on a later one."""
    at = midnight(day) + timedelta(minutes=chance.randrange(24 * 60))
    customer, cents = chance.choice(list(CUSTOMERS)), chance.randrange(500, 20_000)
    order = _order_row(name, at, customer, cents)
    late = customer == OFFLINE and day >= OFFLINE_FROM
    comes = LATE_DAY if late else day + ONE_DAY * chance.choice((0, 0, 0, 0, 0, 0, 1, 3))
    drawn = chance.random()
    after = comes + ONE_DAY * chance.randint(1, 2)
    if comes < LATE_DAY or late:
        arrived[comes].append(order)
    if after >= LATE_DAY:
        return
    if drawn < 0.08:  # the same order once more, with another total: it replaces the first
        arrived[after].append({**order, "total": f"{(cents // 2) / 100:.2f}"})
    elif drawn < 0.2:
        returned = _order_row(f"R{name}", midnight(after) + timedelta(hours=12), customer, cents)
        arrived[after].append({**returned, "is_return": "true"})


def _order_row(name: str, at: datetime, customer: str, cents: int) -> Row:
    return {
        "order_id": name,
        "ordered_at": time_text(at),
        "customer_id": customer,
        "country": CUSTOMERS[customer],
        "total": f"{cents / 100:.2f}",
        "is_return": "false",
    }


def _unusable_rows() -> list[Row]:
    """Rows that cannot be deliveries: each breaks another promise of `lake.toml`."""
    good = _order_row("bad-1", midnight(OF_BAD_ROWS), "ada", 1000)
    return [
        {**good, "total": "ten euros"},
        {**good, "order_id": "bad-2", "total": None},
        {**good, "order_id": "bad-3", "ordered_at": "yesterday"},
        {**good, "order_id": "bad-4", "total": "12345678901234567890.00"},
    ]


FIRST_CLICKS = date(2024, 5, 1)
DAYS_OF_CLICKS = 7
CLICKING = (101, 102, 103, 104, 105, 106)
PAGES = ("/home", "/shoes", "/shirts", "/basket", "/help")
CLICKS_A_DAY = (10, 16)
TIE = "click-tie"  # sent twice within one second, with two different pages
TIED_AT = datetime.fromisoformat("2024-05-03T12:00:05Z")
# A producer that hung comes back, and sends all again.
RESTARTED = datetime.fromisoformat("2024-05-08T06:00:00Z")


def retried_events_files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    rows = sorted(
        _click_rows(seeded_random("retried-events")),
        key=lambda r: (r["ingested_at"], r["click_id"], r["attempt"]),
    )
    arrived = defaultdict[str, list[Row]](list)
    for offset, row in enumerate(rows, start=1):
        arrived[str(row["ingested_at"])[:10]].append({"offset": offset, **row})
    last = f"{RESTARTED:%Y-%m-%d}"
    return {
        f"{'later' if day == last else 'landing'}/clicks-{day}.jsonl": jsonl_text(mine)
        for day, mine in sorted(arrived.items())
    }


def _click_rows(chance: Random) -> Iterator[Row]:
    for number in range(DAYS_OF_CLICKS):
        day = FIRST_CLICKS + ONE_DAY * number
        for click in range(chance.randint(*CLICKS_A_DAY)):
            yield from _sent_click_rows(chance, f"click-{day:%m%d}-{click:02d}", day)
    tied = _click_row(TIE, TIED_AT - timedelta(seconds=5), TIED_AT, CLICKING[0])
    yield {**tied, "page": "/home"}
    yield {**tied, "page": "/basket", "attempt": 2}


def _sent_click_rows(chance: Random, name: str, day: date) -> Iterator[Row]:
    """A click and its retries: most are the same once more, some know better how long the visitor
    stayed."""
    at = midnight(day) + timedelta(seconds=chance.randrange(86_000))
    ingested = at + timedelta(seconds=chance.randrange(1, 60))
    row = {
        **_click_row(name, at, ingested, chance.choice(CLICKING)),
        "page": chance.choice(PAGES),
        "seconds": chance.randint(1, 90),
    }
    yield row
    for attempt in range(2, chance.choice((1, 1, 1, 2, 3)) + 1):
        ingested += timedelta(seconds=chance.choice((2, 30, 40_000)))
        better = chance.random() < 0.4
        row = {**row, "ingested_at": time_text(ingested), "attempt": attempt}
        row["seconds"] = chance.randint(91, 200) if better else row["seconds"]
        if ingested < RESTARTED:
            yield row
    if chance.random() < 0.06:
        yield {
            **row,
            "ingested_at": time_text(RESTARTED),
            "attempt": 9,
            "seconds": chance.randint(201, 300),
        }


def _click_row(name: str, at: datetime, ingested: datetime, user: int) -> Row:
    return {
        "click_id": name,
        "user_id": user,
        "clicked_at": time_text(at),
        "ingested_at": time_text(ingested),
        "attempt": 1,
        "page": "/home",
        "seconds": 10,
    }


FIRST_PLAYS = date(2024, 4, 1)
DAYS_OF_PLAYS = 61  # on the clocks of phones: to 2024-05-31
NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"
PLAYING = {
    "ann": NEW_YORK,
    "bob": NEW_YORK,
    "cid": NEW_YORK,
    "dot": NEW_YORK,
    "eri": TOKYO,
    "goro": TOKYO,
}
TIMES = ((8, 50), (12, 50), (21, 150))  # hour, and the minutes after it within which a play begins
OWL, OWL_SLEEPS = "olga", 3  # plays in New York late in the evening, not on every third day


def timezone_bug_files() -> dict[str, str]:
    """Return text by path in the lake."""
    arrived = defaultdict[date, list[Row]](list)
    for number, row in enumerate(_play_rows(seeded_random("timezone-bug"))):
        day = date.fromisoformat(str(row["received_at"])[:10])
        arrived[day].append({"play_id": f"p{number:04d}", **row})
    return {f"landing/plays-{day}.jsonl": jsonl_text(rows) for day, rows in sorted(arrived.items())}


def _play_rows(chance: Random) -> Iterator[Row]:
    for number in range(DAYS_OF_PLAYS):
        day = FIRST_PLAYS + ONE_DAY * number
        yield from (
            _play_row(chance, user, zone, day, *at)
            for user, zone in PLAYING.items()
            for at in TIMES
        )
        if (number + 1) % OWL_SLEEPS:
            yield _play_row(chance, OWL, NEW_YORK, day, *TIMES[-1])


def _play_row(chance: Random, user: str, zone: str, day: date, hour: int, within: int) -> Row:
    at = datetime.combine(day, time(hour), ZoneInfo(zone)) + timedelta(
        minutes=chance.randrange(within)
    )
    return {
        "user_id": user,
        "local_time": f"{at:%Y-%m-%d %H:%M:%S}",
        "zone": zone,
        "received_at": time_text((at + timedelta(minutes=2)).astimezone(UTC)),
        "minutes": chance.randint(1, 60),
    }


FIRST_READINGS = date(2024, 7, 1)
DAYS_OF_READINGS = 8
# m1 of east and m1 of west are two machines.
PLANTS = {"east": ("m1", "m2"), "west": ("m1", "m2", "m3")}
HOURS = (0, 6, 12, 18)
READING = ("plant", "machine", "measured_at", "sent_at", "celsius")
CUT_OFF, CONNECTED_AGAIN = ("west", date(2024, 7, 6)), date(2024, 7, 8)
# m2 of east measured 1.5 degrees too much, from the 3rd on.
CALIBRATED = datetime.fromisoformat("2024-07-09T08:00:00Z")
TOO_MUCH, FROM = 1.5, date(2024, 7, 3)


def sensor_readings_files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    chance, landed, wrong = seeded_random("sensor-readings"), dict[str, str](), list[Row]()
    for number in range(DAYS_OF_READINGS):
        day = FIRST_READINGS + ONE_DAY * number
        for plant, machines in PLANTS.items():
            rows = list[Row]()
            for machine in machines:
                rows += [_reading_row(chance, plant, machine, day, hour) for hour in HOURS]
            if plant == "east" and day >= FROM:
                wrong += [row for row in rows if row["machine"] == "m2"]
            landed[f"landing/{plant}/{day}.csv"] = csv_text(READING, rows)
    # Read again, rather than measured again: the same machine and time, sent later, so that it
    # replaces what was sent.
    better = [
        {**r, "sent_at": time_text(CALIBRATED), "celsius": _corrected_celsius(r["celsius"])}
        for r in wrong
    ]
    return {**landed, f"later/east/{CALIBRATED:%Y-%m-%d}-calibrated.csv": csv_text(READING, better)}


def _reading_row(chance: Random, plant: str, machine: str, day: date, hour: int) -> Row:
    at = midnight(day) + timedelta(hours=hour, minutes=chance.randrange(50))
    cut_off = (plant, day) == CUT_OFF
    sent = midnight(CONNECTED_AGAIN) + timedelta(hours=1) if cut_off else at + timedelta(minutes=2)
    celsius: object = round(20 + 5 * int(machine[1]) + chance.gauss(0, 3), 2)
    if chance.random() < 0.06:
        celsius = chance.choice(("NaN", None))
    return {
        "plant": plant,
        "machine": machine,
        "measured_at": time_text(at),
        "sent_at": time_text(sent),
        "celsius": celsius,
    }


def _corrected_celsius(celsius: object) -> object:
    return round(celsius - TOO_MUCH, 2) if isinstance(celsius, float) else celsius


STORIES = {  # by the example's name
    "late-truth": late_truth_files,
    "orders": orders_files,
    "retried-events": retried_events_files,
    "sensor-readings": sensor_readings_files,
    "timezone-bug": timezone_bug_files,
}
