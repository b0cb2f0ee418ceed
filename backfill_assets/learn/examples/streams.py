"""Files of examples whose rows are one stream, so many a day: payments, trips, songs, purchases,
sales, visits.

Also passages through gates, which come late, and loans, whose outcomes come later. What lies below
`later` has not landed yet: the steps move it. First what all generators share: a seeded chance, and
rows as the text of a file. Not here: examples with a story of their own (`stories`), and writing
files to a folder (`learn.example_lakes`).
"""

import csv
import io
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from backfill_assets.kernel.core.days import midnight

Row = dict[str, object]


def seeded_random(example: str) -> random.Random:
    """A random source that is the same in every run of this example."""
    return random.Random(example)  # noqa: S311  # made-up rows need no secrets


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """The rows as CSV with a header; None is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def jsonl_text(rows: Iterable[Mapping[str, object]]) -> str:
    """The rows as JSON, one a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def time_text(at: datetime) -> str:
    """A time as files tell it: to the second, in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def random_times(chance: random.Random, first: date, days: int, per_day: int) -> Iterator[datetime]:
    """`per_day` instants of each of so many days from `first` on, day by day, to the second."""
    for number in range(days):
        for _ in range(per_day):
            yield midnight(first) + timedelta(days=number, seconds=chance.randrange(86_000))


def daily_files(rows: Iterable[Row], at: str) -> dict[str, str]:
    """JSON lines by path: a file per day of the column `at`, whose values `time_text` wrote."""
    found = defaultdict[str, list[Row]](list)
    for row in rows:
        found[f"landing/{str(row[at])[:10]}.jsonl"].append(row)
    return {path: jsonl_text(mine) for path, mine in sorted(found.items())}


DECEMBER = date(2024, 12, 1)
DAYS_OF_DECEMBER = 31
PAYMENTS_A_DAY = 30
CORRECTED, SENT_TWICE, UNUSABLE = 0.06, 0.03, 0.01  # shares


def december_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows = seeded_random("december"), list[Row]()
    for number, at in enumerate(random_times(chance, DECEMBER, DAYS_OF_DECEMBER, PAYMENTS_A_DAY)):
        drawn, after = chance.random(), at + timedelta(days=chance.randint(1, 3))
        row: Row = {
            "event_key": f"p{number:04d}",
            "event_ts": time_text(at),
            "arrival_ts": time_text(at),
            "entity": f"user{chance.randrange(9)}",
            "value": chance.randint(1, 500),
            "flag": int(chance.random() < 0.1),
        }
        rows.append({**row, "value": "twelve"} if drawn < UNUSABLE else row)
        if drawn > 1 - CORRECTED and after.month == DECEMBER.month:
            rows.append({**row, "arrival_ts": time_text(after), "value": chance.randint(1, 500)})
        elif drawn > 1 - CORRECTED - SENT_TWICE and after.month == DECEMBER.month:
            rows.append({**row, "arrival_ts": time_text(after)})
    return daily_files(rows, "arrival_ts")


FIRST_TRIPS = date(2025, 2, 27)
DAYS_OF_TRIPS = 10
TRIPS_A_DAY = 40
CARS = 8


def failed_week_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance = seeded_random("failed-week")
    rows: list[Row] = [
        {
            "event_key": f"t{number:04d}",
            "event_ts": time_text(at),
            "entity": f"car{chance.randrange(CARS)}",
            "value": chance.randint(1, 80),
            "flag": int(chance.random() < 0.2),
        }
        for number, at in enumerate(random_times(chance, FIRST_TRIPS, DAYS_OF_TRIPS, TRIPS_A_DAY))
    ]
    return daily_files(rows, "event_ts")


FIRST_SONGS = date(2025, 6, 1)
DAYS_OF_SONGS = 3
SONGS_A_DAY = 80
LISTENERS = 20
OFFLINE = "user07"


def feature_store_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows = seeded_random("feature-store"), list[Row]()
    for number, at in enumerate(random_times(chance, FIRST_SONGS, DAYS_OF_SONGS, SONGS_A_DAY)):
        user = f"user{chance.randrange(LISTENERS):02d}"
        rows.append(
            {
                "play_id": f"s{number:03d}",
                "user_id": user,
                "played_at": time_text(at),
                "sent_at": time_text(at),
                "seconds": chance.randint(20, 400),
                "skipped": chance.random() < 0.3,
            }
        )
    then = FIRST_SONGS + timedelta(days=DAYS_OF_SONGS)
    late: Row = {
        "play_id": "s999",
        "user_id": OFFLINE,
        "played_at": "2025-06-02T21:00:00Z",
        "skipped": False,
    }
    landed = daily_files(rows, "sent_at")
    return landed | {
        f"later/{then}.jsonl": jsonl_text(
            [{**late, "sent_at": f"{then}T09:00:00Z", "seconds": 300}]
        )
    }


FIRST_PURCHASES = date(2024, 12, 1)
DAYS_OF_PURCHASES = 90  # to 2025-02-28
PURCHASES_A_DAY = 40
CUSTOMERS = 10
REFUNDED = 0.1  # share of purchases whose amount is negative


def features_v2_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance = seeded_random("features-v2")
    rows: list[Row] = [
        {
            "purchase_id": f"p{number:05d}",
            "customer_id": f"c{chance.randrange(CUSTOMERS)}",
            "bought_at": time_text(at),
            "cents": chance.randrange(500, 9_000) * (-1 if chance.random() < REFUNDED else 1),
            "channel": chance.choice(("web", "shop", "shop")),
        }
        for number, at in enumerate(
            random_times(chance, FIRST_PURCHASES, DAYS_OF_PURCHASES, PURCHASES_A_DAY)
        )
    ]
    return daily_files(rows, "bought_at")


FIRST_SALES = date(2024, 12, 16)
# To 2025-01-20: four weeks to compare the wrong days with, and some days after them.
DAYS_OF_SALES = 36
SALES_A_DAY = 60
WRONG = ("2025-01-10", "2025-01-14")  # cents were taken for euros, and multiplied by 100
RESENT = "2025-01-21T07:00:00Z"


def five_days_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows, resent = seeded_random("five-days"), list[Row](), list[Row]()
    for number, at in enumerate(random_times(chance, FIRST_SALES, DAYS_OF_SALES, SALES_A_DAY)):
        row: Row = {
            "sale_id": f"s{number:05d}",
            "shop": chance.choice(("north", "south", "west")),
            "sold_at": time_text(at),
            "sent_at": time_text(at),
            "cents": (cents := chance.randrange(300, 6_000)),
        }
        is_wrong = WRONG[0] <= time_text(at)[:10] <= WRONG[1]
        rows.append({**row, "cents": cents * 100} if is_wrong else row)
        resent += [{**row, "sent_at": RESENT}] if is_wrong else []
    return daily_files(rows, "sent_at") | {f"later/{RESENT[:10]}.jsonl": jsonl_text(resent)}


FIRST_PASSAGES = date(2025, 3, 1)
DAYS_OF_PASSAGES = 6  # 2025-03-03 is a Monday
PASSAGES_A_DAY = 60
LATE_DAYS = (0, 0, 0, 0, 0, 0, 1, 1, 2)
PASSED_AGAIN = 0.1  # share of passages that a gate sends a second time, a day later
LANDED_BEFORE = "landing/2025-03-04"


def late_48h_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows = seeded_random("late-48h"), list[Row]()
    for number, at in enumerate(
        random_times(chance, FIRST_PASSAGES, DAYS_OF_PASSAGES, PASSAGES_A_DAY)
    ):
        late = chance.choice(LATE_DAYS)
        row: Row = {
            "passage_id": f"x{number:04d}",
            "gate": chance.choice("NESW"),
            "passed_at": time_text(at),
            "sent_at": time_text(at + timedelta(days=late)),
            "people": chance.randint(1, 9),
        }
        rows.append(row)
        if chance.random() < PASSED_AGAIN and late < max(LATE_DAYS):
            rows.append({**row, "sent_at": time_text(at + timedelta(days=late + 1))})
    landed = {
        path: text
        for path, text in daily_files(rows, "sent_at").items()
        if path[-16:] < "2025-03-08"
    }
    return {
        path if path < LANDED_BEFORE else path.replace("landing", "later"): text
        for path, text in landed.items()
    }


FIRST_LOANS = date(2023, 10, 4)
DAYS_OF_LOANS = 180  # to 2024-03-31
LOANS_A_DAY = 5
LATE_MONTH = "2024-03"


def late_labels_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, loans, outcomes = (
        seeded_random("late-labels"),
        defaultdict[str, list[Row]](list),
        defaultdict[str, list[Row]](list),
    )
    for number, at in enumerate(random_times(chance, FIRST_LOANS, DAYS_OF_LOANS, LOANS_A_DAY)):
        loan: Row = {
            "loan_id": f"l{number:04d}",
            "taken_at": time_text(at),
            "customer": f"c{number % 40:02d}",
        }
        month = f"{at:%Y-%m}"
        loans[month].append({**loan, "euros": chance.randrange(100, 5_000)})
        known_at = at.replace(day=1, hour=6) + timedelta(days=40)
        outcomes[month].append(
            {**loan, "told_at": time_text(known_at), "repaid": chance.random() < 0.8}
        )
    landed = {f"landing/loans/{month}.jsonl": jsonl_text(rows) for month, rows in loans.items()}
    return landed | {
        f"{'later' if month == LATE_MONTH else 'landing'}/outcomes/{month}.jsonl": jsonl_text(rows)
        for month, rows in outcomes.items()
    }


FIRST_VISITS = date(2024, 1, 1)
# Six before the 90 of the training table, for its windows, and one behind them, for its labels.
DAYS_OF_VISITS = 97
VISITS_A_DAY = 30
VISITORS = 12
EVERY_SENT_TWICE = 10  # every so many visits one is sent again


def training_daily_files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance = seeded_random("training-daily")
    rows: list[Row] = [
        {
            "visit_id": f"v{number:05d}",
            "user_id": f"u{chance.randrange(VISITORS):02d}",
            "visited_at": time_text(at),
            "pages": chance.randint(1, 20),
            "bought": chance.random() < 0.15,
        }
        for number, at in enumerate(
            random_times(chance, FIRST_VISITS, DAYS_OF_VISITS, VISITS_A_DAY)
        )
    ]
    again = [row for number, row in enumerate(rows) if number % EVERY_SENT_TWICE == 0]
    return daily_files([*rows, *again], "visited_at")


STREAMS = {  # by the example's name
    "december": december_files,
    "failed-week": failed_week_files,
    "feature-store": feature_store_files,
    "features-v2": features_v2_files,
    "five-days": five_days_files,
    "late-48h": late_48h_files,
    "late-labels": late_labels_files,
    "training-daily": training_daily_files,
}
