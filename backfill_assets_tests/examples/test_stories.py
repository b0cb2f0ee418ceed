"""Files of the examples with a story: late verdicts, corrections, retries, broken sensors, days by other clocks.
Not here: the steps, and what comes of the rows (`end_to_end`)."""

from backfill_assets.examples import stories
from backfill_assets_tests.examples.generated import lines, records


def test_offsets_of_retried_events_are_a_total_order_of_all_copies() -> None:
    by_offset = sorted(lines(stories.retried_events()), key=lambda row: int(row["offset"]))
    assert [row["offset"] for row in by_offset] == list(range(1, len(by_offset) + 1))
    moments = [row["ingested_at"] for row in by_offset]
    assert moments == sorted(moments)


def test_machines_of_two_plants_share_names_and_some_sensors_break() -> None:
    rows, plants = records(stories.sensor_readings()), stories.PLANTS
    assert {(r["plant"], r["machine"]) for r in rows} == {(p, m) for p, names in plants.items() for m in names}
    assert {"NaN", ""} <= {row["celsius"] for row in rows}
