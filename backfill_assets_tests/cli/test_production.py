"""`production`: what it prints and writes. Not here: the text of units and compose files
(`test_site_files`), and what Dagster makes of its `dagster.yaml` (`test_dagster_home`)."""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.files import bare_lake

FILES = {
    "--units": {
        "lake-code.service",
        "lake-web.service",
        "lake-daemon.service",
        "workspace.yaml",
        "dagster.yaml",
    },
    "--compose": {"Dockerfile", "compose.yaml", "workspace.yaml", "dagster.yaml"},
}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    return bare_lake(tmp_path / "lake").root


@pytest.mark.parametrize("kind", FILES)
def test_the_files_are_printed_below_their_names_and_written_as_they_are_printed(
    lake: Path, tmp_path: Path, kind: str
) -> None:
    printed = run("production", kind, "--lake", lake).stdout
    parts = printed.split("# ---- ")[1:]
    texts = dict(part.split("\n", 1) for part in parts)
    assert texts.keys() == FILES[kind]
    told = run("production", kind, "--to", tmp_path / "site", "--lake", lake).stderr
    assert told.split()[1::2] == [str(tmp_path / "site" / name) for name in texts]
    for name, text in texts.items():
        assert (tmp_path / "site" / name).read_text().strip() == text.strip()


def test_a_file_that_a_person_changed_is_not_written_over(lake: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert run("production", "--units", "--to", site, "--lake", lake).exit_code == 0
    assert run("production", "--units", "--to", site, "--lake", lake).exit_code == 0, "no change"
    (site / "lake-web.service").write_text("mine")
    (site / "lake-code.service").unlink()
    refused = run("production", "--units", "--to", site, "--lake", lake)
    assert refused.exit_code == 2
    assert "lake-web.service" in refused.stderr
    assert "No file was written" in refused.stderr
    assert not (site / "lake-code.service").exists()


def test_a_folder_that_cannot_be_made_is_named_in_one_line(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")
    refused = run("production", "--units", "--to", tmp_path / "site" / "units", "--lake", lake)
    assert refused.exit_code == 1
    assert "It was not written" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("--units", "--compose"), ("--to", "site")])
def test_options_that_do_not_go_together_are_refused(lake: Path, words: tuple[str, ...]) -> None:
    assert run("production", *words, "--lake", lake).exit_code == 2
