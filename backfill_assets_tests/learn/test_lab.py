"""Labs by name, and the outcome of a step in words.
Not here: the labs."""

from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.learn.lab import LabStep, run_lab


def test_an_unknown_lab_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Choose one of load, late-fact"):
        next(run_lab("nonsense", tmp_path))


def test_a_form_that_gave_another_value_is_called_wrong() -> None:
    assert (
        LabStep("t", form="append", expected=1, found=2).verdict
        == "WRONG: append: expected 1, found 2"
    )
    assert (
        LabStep("t", form="replace", expected=1, found=1).verdict
        == "ok: replace: expected 1, found 1"
    )
    assert not LabStep("t").verdict
