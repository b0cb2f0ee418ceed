"""Rollbacks as receipts tell of them: versions of days as text and back.

Tested here: `core.plans`. Not tested here: which days a rollback makes stale (`operations.test_rollback`).
"""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.plans import TO_VERSION, target_of, targets_text
from backfill_assets_tests.builders import day, receipt


@given(st.dictionaries(st.integers(0, 40).map(day), st.integers(-1, 3), min_size=1))
def test_every_day_of_a_rollback_is_read_back_with_its_version(targets: dict[date, int]) -> None:
    said = receipt(tags={TO_VERSION: targets_text(targets)})
    assert {d: target_of(said, d) for d in targets} == targets


def test_days_of_one_version_are_one_number() -> None:
    assert targets_text({day(0): 7, day(9): 7}) == "7"


@pytest.mark.parametrize("text", ["", "x", "3:2024-02-26", "3:x..y"])
def test_a_tag_that_says_nothing_of_a_day_names_no_version(text: str) -> None:
    assert target_of(receipt(tags={TO_VERSION: text}), day(0)) is None
