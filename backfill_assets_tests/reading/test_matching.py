"""Columns of two sides: tolerances that fit their column. Not here: matching rows
(`compare.test_differences`, `reconcile.test_reconcile`)."""

import pytest

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.reading.matching import ComparedColumn, parse_tolerances

pytestmark = pytest.mark.quick
COLUMNS = (
    ComparedColumn("k", "VARCHAR", "VARCHAR", "VARCHAR"),
    ComparedColumn("n", "INTEGER", "DECIMAL(18,2)", "DECIMAL(18,2)"),
)


def test_a_tolerance_is_a_number_a_share_or_seconds_and_fits_its_column() -> None:
    found = parse_tolerances(COLUMNS, {"n": "1.5%"})
    assert [(c.tolerance, c.unit) for c in found] == [("", ""), ("1.5", "%")]
    for bad in ({"n": "5s"}, {"k": "1"}, {"n": "-1"}, {"n": "much"}):
        with pytest.raises(BackfillError, match="does not fit a column of type"):
            parse_tolerances(COLUMNS, bad)
