"""What a lab showed, for the tests of labs: each form with its outcome.
Here: running a lab in a folder of the test's. Not here: which form has to fail (each lab's test)."""

from pathlib import Path

from backfill_assets.labs.model import LabStep, run_lab


def forms(name: str, folder: Path) -> dict[str, LabStep]:
    """The steps of a lab that tried a form of the work, by that form."""
    return {step.form: step for step in run_lab(name, folder / "lake") if step.form}


def outcomes(found: dict[str, LabStep]) -> dict[str, bool]:
    """Whether each form gave what it has to give."""
    return {form: step.holds for form, step in found.items()}
