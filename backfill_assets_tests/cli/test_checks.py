"""`controls`, `prove` and `drift` as a person meets them.

Tested here: `cli.checks`. Not tested here: what is found (`operations`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.checks import drift_section, drift_sections
from backfill_assets.core.days import ONE_DAY
from backfill_assets.operations.check_history import ColumnDrift, DriftReport
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


def week_in_cents() -> DriftReport:
    """Seven days of one column and one of another; the index falls from 12.75 to 6.75."""
    first = date(2024, 3, 4)
    week = [
        ColumnDrift("raw", "amount", first + ONE_DAY * n, 60, 12.75 - n, 3.0, None, 9.0 - n, "32 to 63 went to 0.0%")
        for n in range(7)
    ]
    return DriftReport((*week, ColumnDrift("raw", "who", first, 60, None, 1.5, None, 1.0, "ada came")))


def test_a_page_shows_plots_first_and_neighbouring_days_of_a_column_in_one_row() -> None:
    plots, off = drift_sections(week_in_cents())
    assert [figure.title for figure in plots.figures] == ["Drift of amount in raw", "Drift of who in raw"]
    assert plots.about == ["8 of 8 column(s) of days are off"]
    (grouped,), (every,) = off.tables, off.folded
    assert grouped.cells == [
        ["6.75..12.75", "raw.amount", "2024-03-04..2024-03-10 (7)", "32 to 63 went to 0.0%"],
        ["1.50", "raw.who", "2024-03-04 (1)", "ada came"],
    ]
    assert len(every.rows) == 8
    assert len(drift_sections(DriftReport(()))) == 1


def test_the_screen_says_how_many_of_all_it_shows() -> None:
    assert "are off; the 3 that are off most are shown" in drift_section(week_in_cents(), 3).lines[0]
    assert "are shown" not in drift_section(week_in_cents(), 8).lines[0]
