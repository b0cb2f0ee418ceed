"""What lands in the example `sensor-readings`: a CSV per plant and day, a plant that was cut off, and a calibration.

Lives here: the rows, the same on every machine. Does not live here: writing them to a folder
(`operations.example_lakes`). A sensor that is broken reports NaN; one that says nothing at all leaves the field empty.
"""

from datetime import date, datetime, timedelta
from random import Random

from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.examples.texts import chance_of, csv_text, moment

FIRST = date(2024, 7, 1)
DAYS = 8
PLANTS = {"east": ("m1", "m2"), "west": ("m1", "m2", "m3")}  # m1 of east and m1 of west are two machines
HOURS = (0, 6, 12, 18)
COLUMNS = ("plant", "machine", "measured_at", "sent_at", "celsius")
CUT_OFF, CONNECTED_AGAIN = ("west", date(2024, 7, 6)), date(2024, 7, 8)
CALIBRATED = datetime.fromisoformat("2024-07-09T08:00:00Z")  # m2 of east measured 1.5 degrees too much, from the 3rd on
TOO_MUCH, FROM = 1.5, date(2024, 7, 3)

Row = dict[str, object]


def files() -> dict[str, str]:
    """Path in the lake -> text. What lies below `later` has not landed yet: the steps move it."""
    chance, landed, wrong = chance_of("sensor-readings"), dict[str, str](), list[Row]()
    for number in range(DAYS):
        day = FIRST + ONE_DAY * number
        for plant, machines in PLANTS.items():
            rows = [_reading(chance, plant, machine, day, hour) for machine in machines for hour in HOURS]
            wrong += [r for r in rows if (plant, r["machine"]) == ("east", "m2") and day >= FROM]
            landed[f"landing/{plant}/{day}.csv"] = csv_text(COLUMNS, rows)
    # Read again, rather than measured again: the same machine and time, sent later, so that it replaces what was sent.
    better = [{**r, "sent_at": moment(CALIBRATED), "celsius": _less(r["celsius"])} for r in wrong]
    return {**landed, f"later/east/{CALIBRATED:%Y-%m-%d}-calibrated.csv": csv_text(COLUMNS, better)}


def _reading(chance: Random, plant: str, machine: str, day: date, hour: int) -> Row:
    at = midnight(day) + timedelta(hours=hour, minutes=chance.randrange(50))
    cut_off = (plant, day) == CUT_OFF
    sent = midnight(CONNECTED_AGAIN) + timedelta(hours=1) if cut_off else at + timedelta(minutes=2)
    celsius: object = round(20 + 5 * int(machine[1]) + chance.gauss(0, 3), 2)
    if chance.random() < 0.06:
        celsius = chance.choice(("NaN", None))
    return {
        "plant": plant, "machine": machine, "measured_at": moment(at), "sent_at": moment(sent), "celsius": celsius,
    }  # fmt: skip


def _less(celsius: object) -> object:
    return round(celsius - TOO_MUCH, 2) if isinstance(celsius, float) else celsius
