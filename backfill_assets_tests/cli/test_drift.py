"""`drift` as a person meets it.

Tested here: `cli.checks`. Not tested here: what is found (`operations.test_drift`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.checks import drift_section, drift_sections
from backfill_assets.core.days import ONE_DAY
from backfill_assets.operations.drift import ColumnDrift, DriftReport
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_the_outcome_is_one_line_and_the_exit_code_0(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    done = run(*("drift", "--table", "staging"), "--lake", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "are off" in done.stdout


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
