"""What lands in the example `late-truth`: payments day by day, and weeks later the verdicts on some of them.

Lives here: the rows, the same on every machine. Does not live here: writing them to a folder
(`operations.example_lakes`). A verdict names the payment and its time, so that it counts for the day of the payment,
and the time at which it was given, from which on it is known.
"""

from collections import defaultdict
from datetime import date, datetime, timedelta
from random import Random

from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.examples.texts import chance_of, csv_text, jsonl_text, moment

FIRST = date(2024, 9, 1)
DAYS = 24
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

Row = dict[str, object]


def files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    chance, verdicts, landed = chance_of("late-truth"), defaultdict[date, list[Row]](list), dict[str, str]()
    for number in range(DAYS):
        day = FIRST + ONE_DAY * number
        paid = [_payment(chance, f"p{day:%m%d}-{n}", day) for n in range(chance.randint(*PAYMENTS_A_DAY))]
        landed[f"landing/payments/{day}.csv"] = csv_text(PAYMENT, paid)
        judged = next((on for on, through in JUDGED_THROUGH.items() if day <= through), None)
        if judged:
            doubted = [p for p in paid if p["card"] in STOLEN]
            verdicts[judged] += [_verdict(p, judged, fraud=chance.random() < 0.6) for p in doubted]
    first, *_, last = JUDGED_THROUGH
    wrong = [v for v in verdicts[first] if v["fraud"] and v["card"] == OVERTURNED]
    verdicts[last] += [{**v, "given_at": moment(_given(last)), "fraud": False} for v in wrong]
    return landed | {f"later/verdicts/{day}.jsonl": jsonl_text(rows) for day, rows in verdicts.items()}


def _payment(chance: Random, name: str, day: date) -> Row:
    at = midnight(day) + timedelta(seconds=chance.randrange(86_000))
    return {
        "payment_id": name, "card": chance.choice(CARDS), "paid_at": moment(at),
        "received_at": moment(at + timedelta(minutes=3)), "amount": f"{chance.randrange(100, 40_000) / 100:.2f}",
    }  # fmt: skip


def _verdict(payment: Row, judged: date, fraud: bool) -> Row:
    return {
        "payment_id": payment["payment_id"], "card": payment["card"], "paid_at": payment["paid_at"],
        "given_at": moment(_given(judged)), "fraud": fraud,
    }  # fmt: skip


def _given(day: date) -> datetime:
    return midnight(day) + timedelta(hours=9)
