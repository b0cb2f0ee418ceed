"""The tags of a chunk's receipts: its write mode and its code; the key and the tags of work.

Tested here: `kernel.core.plans` with `Plan.tags`. Not tested here: what a plan does to a lake
(`plans/test_plan.py`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import (
    CODE_TAG,
    PLAN_TAG,
    TO_VERSION,
    Work,
    forced_tables,
    restored_version,
    target_tags,
)
from backfill_assets.kernel.core.write_mode import (
    MERGE,
    MERGE_KEEPING,
    MODE_TAG,
    ON_BAD_DAYS_TAG,
    OVERWRITE,
    OnBadDays,
    WriteMode,
)
from backfill_assets.plans.model import Pins, Plan, PlanCode
from backfill_assets.plans.plan import cut_chunks
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.builders import day, receipt


@pytest.mark.parametrize(
    ("policy", "mode"),
    [
        (Policy(), OVERWRITE),
        (Policy(write_mode="merge"), MERGE),
        (Policy(write_mode="merge", keep_removed=True), MERGE_KEEPING),
    ],
)
def test_the_tags_of_a_chunk_say_how_its_days_change_and_by_which_code(
    policy: Policy, mode: WriteMode
) -> None:
    days, made = DayRange(date(2024, 3, 1), date(2024, 3, 3)), datetime(2024, 4, 1, tzinfo=UTC)
    code = PlanCode("v1", "0123456789abcdef", "f.py:tables", "", "fedc", 2)
    chunks = cut_chunks(days, Policy(chunk="1d", canary=0))
    plan = Plan(
        "P", made, "me", days, ("staging",), chunks, policy, Pins({}, {}, {}, {}), code=code
    )
    tags = plan.tags(plan.chunk(1))
    assert (WriteMode.of_tags(tags), tags[CODE_TAG]) == (
        mode,
        "v1 (0123456789ab; 2 file(s), digest fedc)",
    )
    assert ON_BAD_DAYS_TAG not in tags
    kept = replace(plan, policy=policy.model_copy(update={"keep_good_days": True}))
    assert kept.tags(plan.chunk(1)) == {**tags, ON_BAD_DAYS_TAG: "keep_good"}
    with pytest.raises(BackfillError, match="is no way to write"):
        WriteMode.of_tags({MODE_TAG: "append"})


@given(st.dictionaries(st.integers(0, 40).map(day), st.integers(-1, 3), min_size=1))
def test_every_day_of_a_rollback_is_read_back_with_its_version(targets: dict[date, int]) -> None:
    said = receipt(tags=target_tags(targets))
    assert {d: restored_version(said, d) for d in targets} == targets


def test_days_of_one_version_are_one_number() -> None:
    assert target_tags({day(0): 7, day(9): 7}) == {TO_VERSION: "7"}


@pytest.mark.parametrize("text", ["", "x", "3:2024-02-26", "3:x..y"])
def test_a_tag_that_says_nothing_of_a_day_names_no_version(text: str) -> None:
    assert restored_version(receipt(tags={TO_VERSION: text}), day(0)) is None


DAY = date(2024, 3, 1)
WORK = Work(
    DayRange(DAY, DAY + ONE_DAY * 2), ("staging", "features"), needed={str(DAY): "as it is"}
)


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
    assert forced_tables(WORK.tables, force=True, written={"staging"}) == {"features"}
    assert forced_tables(WORK.tables, force=False) == frozenset()


def test_tags_say_how_days_change_and_receipts_keep_all_but_what_is_done_with_bad_days() -> None:
    tagged = replace(WORK, tags={PLAN_TAG: "p", MODE_TAG: "merge", ON_BAD_DAYS_TAG: "keep_good"})
    assert (tagged.mode, WORK.mode) == (
        replace(MERGE, on_bad_days=OnBadDays.KEEP_GOOD),
        OVERWRITE,
    )
    assert tagged.receipt_tags == {PLAN_TAG: "p", MODE_TAG: "merge"}
