"""Days whose inputs were made without a column that is read, as after a column of the payload was renamed.

Tested here: `core.states` by the NULL counts of receipts. Not tested here: the other states (`test_states.py`), and
what is written (`end_to_end/test_changed_payload.py`).
"""

from backfill_assets.core.states import State
from backfill_assets_tests.builders import day, loaded

ALL_DAYS = tuple(map(day, range(10)))
WITHOUT_VALUE, WITH_VALUE = {"null other": 0}, {"null other": 0, "null value": 0}  # counts of a receipt


def test_a_day_is_incomplete_until_its_input_is_made_with_every_column_that_it_reads() -> None:
    story = loaded(10).build_all(*ALL_DAYS).rewrite("staging", day(4), counts=WITHOUT_VALUE)
    assert story.states().lacking("features", day(5)) == [("staging", day(4))]
    assert story.state("features", day(5)) is State.FRESH, "it was made before"
    assert story.build("features", day(5)).state("features", day(5)) is State.INCOMPLETE
    story.rewrite("staging", day(4), counts=WITH_VALUE)  # a new name gives the same fingerprint
    assert story.state("features", day(5)) is State.STALE
    assert story.build("features", day(5)).state("features", day(5)) is State.FRESH


def test_rows_that_were_loaded_without_a_column_are_made_again_once_they_are_loaded_with_it() -> None:
    story = loaded(10).build_all(*ALL_DAYS).rewrite("raw", day(4), counts=WITHOUT_VALUE).finish()
    story.rewrite("staging", day(4), counts=WITHOUT_VALUE)
    assert story.states().undelivered("staging", day(4)) == {"value"}
    assert story.state("staging", day(4)) is State.FRESH
    story.rewrite("raw", day(4), counts=WITH_VALUE).finish()
    assert story.state("staging", day(4)) is State.STALE
    assert story.rewrite("staging", day(4), counts=WITH_VALUE).state("staging", day(4)) is State.FRESH
