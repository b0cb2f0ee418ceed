"""The files of the example `sensor-readings` hold what its steps show: NaN, a plant cut off, a calibration.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import csv

from backfill_assets.examples.sensor_readings.generator import CUT_OFF, PLANTS, files


def rows() -> list[dict[str, str]]:
    return [
        {**row, "later": str(name.startswith("later/"))}
        for name, text in files().items()
        for row in csv.DictReader(text.splitlines())
    ]


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_machines_of_two_plants_share_names_and_some_sensors_break() -> None:
    assert {(r["plant"], r["machine"]) for r in rows()} == {(p, m) for p, names in PLANTS.items() for m in names}
    assert {"NaN", ""} <= {r["celsius"] for r in rows()}


def test_a_plant_that_is_cut_off_sends_later_and_a_calibration_replaces_readings() -> None:
    plant, day = CUT_OFF
    cut_off = [r for r in rows() if r["plant"] == plant and r["measured_at"].startswith(str(day))]
    assert cut_off
    assert all(r["sent_at"][:10] > str(day) for r in cut_off)
    before = {(r["machine"], r["measured_at"]): r["celsius"] for r in rows() if r["later"] == "False"}
    better = [r for r in rows() if r["later"] == "True"]
    assert better
    assert {before[r["machine"], r["measured_at"]] == r["celsius"] for r in better if r["celsius"] > "0"} >= {False}
