"""Files of the example `december`: payments of a month, some corrected days later, some sent twice, some unusable.

Not here: writing them to a folder (`operations.example_lakes`).
"""

from datetime import date, timedelta

from backfill_assets.examples.texts import Row, chance_of, daily_files, moment, times

FIRST = date(2024, 12, 1)
DAYS = 31
PAYMENTS_A_DAY = 30
CORRECTED, SENT_TWICE, UNUSABLE = 0.06, 0.03, 0.01  # shares


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance, rows = chance_of("december"), list[Row]()
    for number, at in enumerate(times(chance, FIRST, DAYS, PAYMENTS_A_DAY)):
        drawn, after = chance.random(), at + timedelta(days=chance.randint(1, 3))
        row: Row = {
            "event_key": f"p{number:04d}", "event_ts": moment(at), "arrival_ts": moment(at),
            "entity": f"user{chance.randrange(9)}", "value": chance.randint(1, 500), "flag": int(chance.random() < 0.1),
        }  # fmt: skip
        rows.append({**row, "value": "twelve"} if drawn < UNUSABLE else row)
        if drawn > 1 - CORRECTED and after.month == FIRST.month:
            rows.append({**row, "arrival_ts": moment(after), "value": chance.randint(1, 500)})
        elif drawn > 1 - CORRECTED - SENT_TWICE and after.month == FIRST.month:
            rows.append({**row, "arrival_ts": moment(after)})
    return daily_files(rows, "arrival_ts")
