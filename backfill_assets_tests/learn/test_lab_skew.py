"""The lab `skew`: the plain work is uneven by Spark's own figures, each remedy is not, and all rows
are the same. Not here: the choices themselves (`pipeline.transforms`)."""

from pathlib import Path

import pytest

from backfill_assets.learn.lab import LabStep, run_lab

pytestmark = [
    pytest.mark.long,
    pytest.mark.on_spark("the lab reads Spark's own metrics of its tasks"),
]


@pytest.fixture
def spark_server(tmp_path: Path) -> list[LabStep]:
    """The steps of the lab, which starts a server and stops it."""
    return [*run_lab("skew", tmp_path / "lake")]


@pytest.mark.slow
def test_each_remedy_evens_what_the_plain_work_does_not_and_changes_no_row(
    spark_server: list[LabStep],
) -> None:
    shares, *works = spark_server
    assert [step.holds for step in works] == [False, True] * 3
    assert {step.text for step in works} == {"The same rows as the plain way, by a hash of all."}
    assert [row[4] for row in shares.rows if row[1] == "plain"] == [8] * 3
