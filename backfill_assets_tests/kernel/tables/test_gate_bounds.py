"""Bounds of a day and of a column: which contradict themselves. Not here: days that break them
(`kernel.write.test_gates`)."""

import pytest
from pydantic import ValidationError

from backfill_assets.kernel.tables.gate_bounds import ColumnGate, TableGate


def test_the_fewest_rows_may_not_exceed_the_most() -> None:
    assert TableGate(min_rows=9, max_rows=9).max_rows == 9
    with pytest.raises(ValidationError, match="min_rows may not exceed max_rows"):
        TableGate(min_rows=10, max_rows=9)


@pytest.mark.parametrize("bound", ["max_null_share", "max_null_jump"])
def test_a_share_of_nulls_lies_between_none_and_all(bound: str) -> None:
    assert ColumnGate.model_validate({bound: 1.0}).broken == "refuse"
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        ColumnGate.model_validate({bound: 1.5})
