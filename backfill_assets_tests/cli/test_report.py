"""`report` as a person meets it: the page, its grid, JSON, and what it refuses. No JVM.

Tested here: `cli.report`. The page in a browser, with an automatic look at its accessibility: `browser/test_pages.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.late_lake import late_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "lake"
    late_lake(folder)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Dagster home of this test's own."""
    folder = tmp_path / "dagster_home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    yield folder
    dg.DagsterInstance.get().dispose()


def test_the_page_and_the_document_are_written_by_one_call(root: Path, home: Path, tmp_path: Path) -> None:
    said = read(run("report", "--lake", root, "--html", tmp_path / "report.html", "--json"))
    assert said["dagster"] == {"runs": []}
    assert said["delivered"]["files"] == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_a_home_of_dagster_that_is_not_there_is_one_line(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "none"))
    result = run("report", "--lake", root, "--json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "Set DAGSTER_HOME to a folder that you may write" in result.stderr


def test_without_a_place_to_write_to_it_draws_the_metrics(root: Path, home: Path, tmp_path: Path) -> None:
    drawn = run("report", "--lake", root).stdout
    assert "watermark_lag_seconds" in drawn
    assert "look_back_missed_ratio" not in drawn
    file = tmp_path / "lake.prom"
    assert run("report", "--lake", root, "--prometheus", file).stderr == f"wrote {file}\n"
    assert "# TYPE backfill_assets_look_back_missed_ratio gauge" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o644, "a scraper is another user"
