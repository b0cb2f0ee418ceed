"""The lab `load`: appending the same days again counts them again, replacing them does not.

Tested here: the totals of both. Not tested here: how a lab is drawn (`cli.test_practice`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.labs.seen import forms, outcomes

pytestmark = pytest.mark.usefixtures("storages")


def test_an_append_run_twice_and_a_bit_counts_rows_again_and_a_replace_does_not(tmp_path: Path) -> None:
    found = forms("load", tmp_path)
    assert outcomes(found) == {"append": False, "replace each day": True}
    assert found["append"].expected == 750
    assert found["append"].found == 750 * 2 + 210, "three runs: two whole ones, and one that died after a day"
