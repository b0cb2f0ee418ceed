"""`controls`, `prove` and `drift` as a person meets them.

Tested here: `cli.checks`. Not tested here: what is found (`operations`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize(
    ("words", "told"), [(["controls"], "This lake has no controls"), (["drift", "--table", "staging"], "are off")]
)
def test_the_outcome_is_one_line_and_the_exit_code_0(tmp_path: Path, words: list[str], told: str) -> None:
    readable_lake(tmp_path)
    done = run(*words, "--lake", tmp_path)
    assert (done.exit_code, told in done.stdout) == (0, True), done.output


def test_a_broken_control_names_what_was_expected_and_ends_with_exit_code_1(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text("day,value\n2024-03-01,9\n")
    with (tmp_path / "lake.toml").open("a") as toml:
        query = "SELECT event_date AS day, count(*) AS value FROM staging GROUP BY 1"
        toml.write(f'[controls.versions]\nquery = "{query}"\nexpected = "totals.csv"\n')
    done = run("controls", "--lake", tmp_path)
    assert (done.exit_code, "expected 9" in done.output) == (1, True), done.output
    assert "control versions: " in run("status", "--lake", tmp_path).stdout


def test_days_that_were_not_written_are_an_error_and_no_engine_starts(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    done = run("prove", "--days", "2030-01-01", "--lake", tmp_path)
    assert done.exit_code == 1
    assert "none of these days was written" in done.stderr
    assert run("prove", "--tables", "nix", "--lake", tmp_path).exit_code == 2
