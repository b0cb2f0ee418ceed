"""What lands in the example `retried-events`: clicks as a log of a message broker holds them, with every retry.

Lives here: the rows, the same on every machine. Does not live here: writing them to a folder
(`operations.example_lakes`). Every row has the offset that the broker gave it: a total order, also of rows that were
ingested at the same moment.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from random import Random

from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.examples.texts import chance_of, jsonl_text, moment

FIRST = date(2024, 5, 1)
DAYS = 7
USERS = (101, 102, 103, 104, 105, 106)
PAGES = ("/home", "/shoes", "/shirts", "/basket", "/help")
CLICKS_A_DAY = (10, 16)
TIE = "click-tie"  # sent twice within one second, with two different pages
TIED_AT = datetime.fromisoformat("2024-05-03T12:00:05Z")
RESTARTED = datetime.fromisoformat("2024-05-08T06:00:00Z")  # a producer that hung comes back, and sends all again

Row = dict[str, object]


def files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    rows = sorted(_clicks(chance_of("retried-events")), key=lambda r: (r["ingested_at"], r["click_id"], r["attempt"]))
    arrived = defaultdict[str, list[Row]](list)
    for offset, row in enumerate(rows, start=1):
        arrived[str(row["ingested_at"])[:10]].append({"offset": offset, **row})
    last = f"{RESTARTED:%Y-%m-%d}"
    return {
        f"{'later' if day == last else 'landing'}/clicks-{day}.jsonl": jsonl_text(mine)
        for day, mine in sorted(arrived.items())
    }


def _clicks(chance: Random) -> Iterator[Row]:
    for number in range(DAYS):
        day = FIRST + ONE_DAY * number
        for click in range(chance.randint(*CLICKS_A_DAY)):
            yield from _sent(chance, f"click-{day:%m%d}-{click:02d}", day)
    tied = _row(TIE, TIED_AT - timedelta(seconds=5), TIED_AT, USERS[0])
    yield {**tied, "page": "/home"}
    yield {**tied, "page": "/basket", "attempt": 2}


def _sent(chance: Random, name: str, day: date) -> Iterator[Row]:
    """A click and its retries: most are the same once more, some know better how long the visitor stayed."""
    at = midnight(day) + timedelta(seconds=chance.randrange(86_000))
    ingested = at + timedelta(seconds=chance.randrange(1, 60))
    row = {
        **_row(name, at, ingested, chance.choice(USERS)),
        "page": chance.choice(PAGES),
        "seconds": chance.randint(1, 90),
    }
    yield row
    for attempt in range(2, chance.choice((1, 1, 1, 2, 3)) + 1):
        ingested += timedelta(seconds=chance.choice((2, 30, 40_000)))
        better = chance.random() < 0.4
        row = {**row, "ingested_at": moment(ingested), "attempt": attempt}
        row["seconds"] = chance.randint(91, 200) if better else row["seconds"]
        if ingested < RESTARTED:
            yield row
    if chance.random() < 0.06:
        yield {**row, "ingested_at": moment(RESTARTED), "attempt": 9, "seconds": chance.randint(201, 300)}


def _row(name: str, at: datetime, ingested: datetime, user: int) -> Row:
    return {
        "click_id": name, "user_id": user, "clicked_at": moment(at), "ingested_at": moment(ingested), "attempt": 1,
        "page": "/home", "seconds": 10,
    }  # fmt: skip
