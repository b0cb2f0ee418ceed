"""Versions and tables as of a moment.

Tested here: `reading.moments`. Not tested here: what differs between two (`compare/test_compare.py`).
"""

from datetime import UTC, datetime

import pytest

from backfill_assets.compare.compare import CompareRequest, compare_days
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.moments import Moment
from backfill_assets_tests.compare.test_compare import PIPELINE, SPAN, asked, lake

__all__ = ["lake"]  # a fixture
pytestmark = pytest.mark.usefixtures("storages")


def test_versions_and_tables_that_are_none_are_told(lake: Lake) -> None:
    with pytest.raises(BackfillError, match="it has no version 9"):
        compare_days(PIPELINE, asked(), Moment(lake, 9), Moment(lake))
    with pytest.raises(BackfillError, match="it has no commit by 1970"):
        compare_days(
            PIPELINE, asked(), Moment(lake, at=datetime(1970, 1, 2, tzinfo=UTC)), Moment(lake)
        )
    with pytest.raises(BackfillError, match="it has no lake version 999"):
        Moment(lake, at=999).of("files")
    with pytest.raises(BackfillError, match="no such table"):
        compare_days(PIPELINE, CompareRequest("x", SPAN), Moment(lake), Moment(lake))
