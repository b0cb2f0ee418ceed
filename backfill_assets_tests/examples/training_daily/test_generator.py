"""The files of the example `training-daily` reach six days before its 90 days and one beyond them.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

from backfill_assets.examples.training_daily.generator import files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_windows_and_labels_of_ninety_days_have_their_rows() -> None:
    days = [name[-16:-6] for name in files()]
    assert (days[0], days[-1], len(days)) == ("2024-01-01", "2024-04-06", 6 + 90 + 1)
