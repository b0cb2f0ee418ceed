"""Names of a package that are imported when they are first asked for.

Tested here: `core.process`. Not tested here: which names the public packages have (`test_public_surface.py`).
"""

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.process import imported_when_used


def test_a_name_comes_from_the_module_that_has_it_and_another_one_is_no_attribute() -> None:
    find = imported_when_used("backfill_assets", {"core.days": ("DayRange",)})
    assert find("DayRange") is DayRange
    with pytest.raises(AttributeError, match="module 'backfill_assets' has no attribute 'some_days'"):
        find("some_days")
