"""Files of the example `training-daily`: visits of a dozen users to a shop, some of which end with a purchase.

Not here: writing them to a folder (`operations.example_lakes`), and the tables, which are SQL beside `lake.toml`.
"""

from datetime import date

from backfill_assets.examples.texts import Row, chance_of, daily_files, moment, times

FIRST = date(2024, 1, 1)
DAYS = 97  # six before the 90 of the training table, for its windows, and one behind them, for its labels
VISITS_A_DAY = 30
USERS = 12
SENT_TWICE = 10  # every so many visits one is sent again


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance = chance_of("training-daily")
    rows: list[Row] = [
        {
            "visit_id": f"v{number:05d}", "user_id": f"u{chance.randrange(USERS):02d}", "visited_at": moment(at),
            "pages": chance.randint(1, 20), "bought": chance.random() < 0.15,
        }
        for number, at in enumerate(times(chance, FIRST, DAYS, VISITS_A_DAY))
    ]  # fmt: skip
    again = [row for number, row in enumerate(rows) if number % SENT_TWICE == 0]
    return daily_files([*rows, *again], "visited_at")
