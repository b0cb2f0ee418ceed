"""Days whose inputs were made without a column that is read, as after a column of the payload was renamed.

Tested here: `core.states` by the columns in receipts. Not tested here: the other states (`test_states.py`), and
what is written (`end_to_end/test_changed_payload.py`).
"""

from backfill_assets.core.states import State
from backfill_assets_tests.builders import day, loaded

ALL_DAYS = tuple(map(day, range(10)))
DAYS = {"entity": "STRING", "arrival_date": "DATE", "event_date": "DATE"}
OTHER, VALUE = {**DAYS, "other": "BIGINT"}, {**DAYS, "value": "BIGINT"}  # of files before and after a rename


def test_a_day_is_incomplete_until_its_input_is_made_with_every_column_that_it_reads() -> None:
    story = loaded(10).build_all(*ALL_DAYS)
    story.rewrite("staging", day(4), columns=dict.fromkeys(OTHER, ""))  # as a receipt of before, which names none
    assert story.states().lacking("features", day(5)) == [("staging", day(4))]
    assert story.state("features", day(5)) is State.FRESH, "it was made before"
    assert story.build("features", day(5)).state("features", day(5)) is State.INCOMPLETE
    story.rewrite("staging", day(4), columns=VALUE)  # a new name gives the same fingerprint
    assert story.state("features", day(5)) is State.STALE
    assert story.build("features", day(5)).state("features", day(5)) is State.FRESH


def test_another_name_or_type_in_an_input_s_files_makes_its_readers_stale_and_a_wider_type_does_not() -> None:
    story = loaded(10).build_all(*ALL_DAYS).rewrite("staging", day(4), columns=VALUE)
    story.build("features", *ALL_DAYS)
    assert story.rewrite("staging", day(4), columns=VALUE).state("features", day(5)) is State.FRESH
    for columns, state in (
        ({**VALUE, "value": "INT"}, State.FRESH),
        ({**VALUE, "value": "DATE"}, State.STALE),
        (OTHER, State.STALE),
    ):
        assert story.rewrite("staging", day(4), columns=columns).state("features", day(5)) is state, columns


def test_rows_that_were_loaded_without_a_column_are_made_again_once_they_are_loaded_with_it() -> None:
    story = loaded(10).build_all(*ALL_DAYS).rewrite("raw", day(4), columns=OTHER).finish()
    story.build("staging", day(4)).rewrite("staging", day(4), columns=DAYS)
    assert story.states().undelivered("staging", day(4)) == {"value"}
    assert story.state("staging", day(4)) is State.FRESH
    assert story.states().lacks("staging", day(4)) == ["value"]
    story.rewrite("raw", day(4), columns=VALUE).finish()
    assert story.state("staging", day(4)) is State.STALE
    assert story.build("staging", day(4)).state("staging", day(4)) is State.FRESH
