"""Files of the example `late-labels`: loans of 180 days, and month by month what became of them.

Not here: writing them to a folder (`operations.example_lakes`). What lies below `later` has not landed yet: what became
of the loans of March, which a second sender tells in April.
"""

from collections import defaultdict
from datetime import date, timedelta

from backfill_assets.examples.texts import Row, chance_of, jsonl_text, moment, times

FIRST = date(2023, 10, 4)
DAYS = 180  # to 2024-03-31
LOANS_A_DAY = 5
LATE_MONTH = "2024-03"


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, loans, outcomes = (
        chance_of("late-labels"),
        defaultdict[str, list[Row]](list),
        defaultdict[str, list[Row]](list),
    )
    for number, at in enumerate(times(chance, FIRST, DAYS, LOANS_A_DAY)):
        loan: Row = {"loan_id": f"l{number:04d}", "taken_at": moment(at), "customer": f"c{number % 40:02d}"}
        month = f"{at:%Y-%m}"
        loans[month].append({**loan, "euros": chance.randrange(100, 5_000)})
        known_at = at.replace(day=1, hour=6) + timedelta(days=40)
        outcomes[month].append({**loan, "told_at": moment(known_at), "repaid": chance.random() < 0.8})
    landed = {f"landing/loans/{month}.jsonl": jsonl_text(rows) for month, rows in loans.items()}
    return landed | {
        f"{'later' if month == LATE_MONTH else 'landing'}/outcomes/{month}.jsonl": jsonl_text(rows)
        for month, rows in outcomes.items()
    }
