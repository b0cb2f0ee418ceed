"""The lab `mistakes`: each of four mistakes fails by its own totals, and the form beside it holds.

Tested here: every form's outcome. Not tested here: the preflight and the cap of a chunk (`operations`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.labs.seen import forms, outcomes

pytestmark = pytest.mark.usefixtures("storages")


def test_each_of_the_four_mistakes_fails_and_the_form_beside_it_holds(tmp_path: Path) -> None:
    found = forms("mistakes", tmp_path)
    assert list(outcomes(found).values()) == [False, True] * 4
    assert found["wrong days of one run"].found == 90
    assert "more than 31" in found["wrong days of a plan"].text
    assert "the write mode append" in found["the sum after a replace"].text
    assert found["wrong days by the total"].found == 0
