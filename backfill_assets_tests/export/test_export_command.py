"""`export` as typed: what it says and how it ends.

Tested here: `export.export_command`. Not tested here: what is brought (`test_export.py`), and the sinks.
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.planned import DAYS, Planned

pytestmark = pytest.mark.usefixtures("storages")


def test_a_table_goes_to_a_place_and_the_outcome_is_one_line(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    told = run("export", "staging", "--to", tmp_path / "out", on=made).stdout
    assert "written (8 rows), 0 day(s) as they were" in " ".join(told.split())
    [again] = read(run("export", "staging", "--to", tmp_path / "out", "--json", on=made))
    assert (again["replaced"], again["same"]) == ([], DAYS)


def test_a_lake_without_exports_says_so_and_words_that_do_not_fit_are_usage(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    assert "no exports" in run("export", on=made).stdout
    assert run("export", "--to", "out", on=made).exit_code == 2
    assert run("export", "staging", "--days", "2024-03-01..2024-03-02", on=made).exit_code == 2
    unknown = run("export", "nobody", on=made)
    assert unknown.exit_code == 1
    assert "lake.toml has no such export" in unknown.stderr
