"""`lateness` as a person meets it: tables, the page, the metrics file, and what it refuses. No JVM."""

import re
from pathlib import Path

import pytest
from click.testing import Result

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.late_lake import DAYS, FRONTIER, late_lake


def measured(root: Path, *args: object) -> Result:
    return run("lateness", "--lake", root, *args)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lateness") / "lake"
    late_lake(folder)
    return folder


def test_the_tables_say_what_is_late_and_what_a_look_back_would_miss(root: Path) -> None:
    result = measured(root)
    assert result.exit_code == 0, result.output
    assert f"{3 * DAYS + 1} upserts; 1 deletes apart\nfrontier: {FRONTIER:%Y-%m-%d}" in result.stdout
    assert "late (a later day than the event's): 1, 4.00 %" in result.stdout
    assert "The smallest that sees 99 % of the rows: 4 day(s)." in result.stdout
    assert re.search(r"features_as_known +\S+ +\S+ +1.0 d", result.stdout)


def test_json_is_one_document(root: Path) -> None:
    said = read(measured(root, "--json", "--share", 0.9))
    assert (said["wanted_share"], said["look_back_days"]) == (0.9, 1)


def test_the_two_files_are_written_whole_and_for_everybody_to_read(root: Path, tmp_path: Path) -> None:
    html, metrics = tmp_path / "new" / "late.html", tmp_path / "late.prom"
    read(measured(root, "--json", "--html", html, "--prometheus", metrics))
    assert html.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert 'backfill_assets_lateness_rows{kind="late"} 1.0' in metrics.read_text(encoding="utf-8")
    assert metrics.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in html.parent.iterdir()] == ["late.html"]


def test_a_file_that_cannot_be_written_is_told_without_a_traceback(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = measured(root, "--prometheus", tmp_path / "file" / "below.prom")
    assert result.exit_code == 1
    assert "It was not written" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--to", "2024-03-01"), "the first one is missing"),
        (("--share", "0"), "--share"),
        (("--from", "2024-03-02", "--to", "2024-03-01"), "before it starts"),
    ],
)
def test_wrong_usage_is_exit_code_two(root: Path, args: tuple[str, ...], told: str) -> None:
    result = measured(root, *args)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_lake_without_deliveries_names_the_command_that_loads_some(root: Path, tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text((root / "lake.toml").read_text(encoding="utf-8"), encoding="utf-8")
    result = measured(tmp_path)
    assert result.exit_code == 1
    assert "`backfill-assets scan`" in result.stderr
    assert "Traceback" not in result.output


def test_days_without_an_arrival_have_nothing_to_measure(root: Path, tmp_path: Path) -> None:
    result = measured(root, "--from", "2030-01-01", "--to", "2030-01-02", "--html", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No upsert, so there is nothing to measure." in page
    assert "<figure>" not in page
