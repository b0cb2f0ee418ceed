"""Files of the examples with a story: late verdicts, corrections, retries, broken sensors, days by
other clocks. Not here: the steps, and what comes of the rows (`end_to_end`)."""

import csv
import json

from backfill_assets.learn.examples import stories


def test_offsets_of_retried_events_are_a_total_order_of_all_copies() -> None:
    rows = [
        json.loads(line)
        for text in stories.retried_events_files().values()
        for line in text.splitlines()
    ]
    by_offset = sorted(rows, key=lambda row: int(row["offset"]))
    assert [row["offset"] for row in by_offset] == list(range(1, len(by_offset) + 1))
    moments = [row["ingested_at"] for row in by_offset]
    assert moments == sorted(moments)


def test_machines_of_two_plants_share_names_and_some_sensors_break() -> None:
    rows = [
        row
        for text in stories.sensor_readings_files().values()
        for row in csv.DictReader(text.splitlines())
    ]
    plants = stories.PLANTS
    assert {(r["plant"], r["machine"]) for r in rows} == {
        (p, m) for p, names in plants.items() for m in names
    }
    assert {"NaN", ""} <= {row["celsius"] for row in rows}
