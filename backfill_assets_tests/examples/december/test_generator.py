"""The files of the example `december` cover its 31 days, with corrections, repetitions and rows that are unusable.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json

from backfill_assets.examples.december.generator import files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_payments_are_corrected_repeated_and_unusable() -> None:
    found: dict[str, list[object]] = {}
    for row in (json.loads(line) for text in files().values() for line in text.splitlines()):
        found.setdefault(row["event_key"], []).append(row["value"])
    assert len(files()) == 31
    twice = [values for values in found.values() if len(values) == 2]
    assert {values[0] == values[1] for values in twice} == {True, False}
    assert ["twelve"] in found.values()
