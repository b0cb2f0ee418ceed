"""Files of the example `failed-week`: trips of eight cars over ten days, one file a day.

Not here: writing them to a folder (`operations.example_lakes`), and the two versions of the table, which are SQL.
"""

from datetime import date

from backfill_assets.examples.texts import Row, chance_of, daily_files, moment, times

FIRST = date(2025, 2, 27)
DAYS = 10
TRIPS_A_DAY = 40
CARS = 8


def files() -> dict[str, str]:
    """Return text by path in the lake."""
    chance = chance_of("failed-week")
    rows: list[Row] = [
        {
            "event_key": f"t{number:04d}", "event_ts": moment(at), "entity": f"car{chance.randrange(CARS)}",
            "value": chance.randint(1, 80), "flag": int(chance.random() < 0.2),
        }
        for number, at in enumerate(times(chance, FIRST, DAYS, TRIPS_A_DAY))
    ]  # fmt: skip
    return daily_files(rows, "event_ts")
