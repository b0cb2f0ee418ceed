"""The preflight finds clocks and chance in the code of transforms, in Python's names and in SQL.

Tested here: `operations.plan_preflight.unsteady`. Not tested here: the other answers (`test_plan.py`).
"""

import pytest

from backfill_assets.operations.plan_preflight import unsteady


@pytest.mark.parametrize("code", ["x = F.current_timestamp()", "x = now()", "q = 'select rand()'", "uuid.uuid4()"])
def test_what_differs_from_call_to_call_is_found(code: str) -> None:
    assert len(list(unsteady(code))) == 1


def test_prose_and_columns_of_such_names_are_not() -> None:
    assert list(unsteady('"""now() is never called."""\nx = F.col("now")\n')) == []
