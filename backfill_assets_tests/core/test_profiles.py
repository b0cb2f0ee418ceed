"""Profiles: what an empty day looks like.

Tested here: `core.profiles`. Not tested here: the figures of rows (`lake.audit`).
"""

from backfill_assets.core.profiles import EMPTY_FINGERPRINT, DayProfile


def test_a_day_is_empty_until_something_is_said_of_it() -> None:
    assert DayProfile() == DayProfile(0, EMPTY_FINGERPRINT, {}, 0, {})
