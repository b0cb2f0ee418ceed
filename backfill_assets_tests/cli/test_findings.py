"""Findings of checks: what they never hold.

Tested here: `cli.findings`. Not tested here: what is found (`upkeep/test_doctor_tables.py`).
"""

import pytest

from backfill_assets.cli.findings import warning_finding
from backfill_assets_tests.secret_forms import FORMS, SECRET

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_finding_holds_a_secret(form: str) -> None:
    found = warning_finding(f"the source {form}", f"it says {form}", f"Look at {form}")
    assert SECRET not in f"{found}{found.object}{found.what}{found.advice}"
