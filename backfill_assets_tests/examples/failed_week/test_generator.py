"""The files of the example `failed-week` hold trips before, in and after the week that failed.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

from backfill_assets.examples.failed_week.generator import files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_trips_begin_before_the_week_and_end_behind_it() -> None:
    days = [name[-16:-6] for name in files()]
    assert (days[0], days[-1], len(days)) == ("2025-02-27", "2025-03-08", 10)
