"""`controls`, `prove`, `drift` and `check-engine` as a person meets them: lines, JSON and the exit
code. Not here: what is found (`reading.check_history`)."""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize(
    ("words", "told"),
    [(["controls"], "This lake has no controls"), (["drift", "--table", "staging"], "are off")],
)
def test_the_outcome_is_one_line_and_the_exit_code_0(
    tmp_path: Path, words: list[str], told: str
) -> None:
    readable_lake(tmp_path)
    done = run(*words, "--lake", tmp_path)
    assert (done.exit_code, told in done.stdout) == (0, True), done.output


LOST = "files of version 1 of staging are gone"


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (
            ("check-engine", "--days", "2999-01-01"),
            "none of these days was written. Nothing was computed",
            1,
        ),
        (("check-engine", "--tables", "none"), "'none'", 2),
        (("prove", "--days", "2030-01-01"), "none of these days was written", 1),
        (("prove", "--tables", "nix"), "'nix'", 2),
    ],
)
def test_days_that_nobody_wrote_and_tables_that_are_not_there_are_no_success(
    tmp_path: Path, words: tuple[str, ...], told: str, code: int
) -> None:
    done = run(*words, on=Planned(tmp_path / "lake"))
    assert (done.exit_code, told in done.output) == (code, True), done.output
