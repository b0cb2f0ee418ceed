"""Work: its key as a request, and which of its tables are forced.

Not tested here: which days it is for (`test_requests`), tags of runs (`orchestration/test_work_tags`).
"""

from dataclasses import replace
from datetime import date

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.plans import KEEP_GOOD, MODE_TAG, ON_BAD_DAYS_TAG, PLAN_TAG, Work, WriteMode, forced

DAY = date(2024, 3, 1)
WORK = Work(DayRange(DAY, DAY + ONE_DAY * 2), ("staging", "features"), needed={str(DAY): "as it is"})


def test_a_key_names_table_days_what_was_asked_and_the_attempt_and_no_words_of_people() -> None:
    others = [
        replace(WORK, attempt=1),
        replace(WORK, needed={str(DAY): "other"}),
        replace(WORK, tables=("raw",)),
    ]
    assert len({WORK.key, *(other.key for other in others)}) == 4
    assert replace(WORK, note="again", days=DayRange(DAY, DAY + ONE_DAY)).key == WORK.key
    assert WORK.key.startswith(f"staging {DAY} ")
    assert WORK.needed_days == {DAY}


def test_what_a_plan_has_written_is_not_forced_again() -> None:
    assert forced(WORK.tables, force=True, written={"staging"}) == {"features"}
    assert forced(WORK.tables, force=False) == frozenset()


def test_tags_say_how_days_change_and_receipts_keep_all_but_what_is_done_with_bad_days() -> None:
    tagged = replace(WORK, tags={PLAN_TAG: "p", MODE_TAG: "merge", ON_BAD_DAYS_TAG: KEEP_GOOD})
    assert (tagged.mode, tagged.on_bad_days, WORK.mode) == (WriteMode.MERGE, KEEP_GOOD, WriteMode.OVERWRITE)
    assert tagged.receipt_tags == {PLAN_TAG: "p", MODE_TAG: "merge"}
