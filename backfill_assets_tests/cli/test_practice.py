"""`backfill-assets lab` as typed: the list, a lab on the screen, as JSON and as one page.

Tested here: what is printed and written. Not tested here: what labs show (`labs`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run

pytestmark = pytest.mark.usefixtures("storages")


def test_labs_are_listed_without_a_name() -> None:
    assert "late-fact" in run("lab").stdout
    assert set(read(run("lab", "--json"))) >= {"load", "skew"}


def test_a_lab_is_drawn_and_its_page_needs_no_server(tmp_path: Path) -> None:
    page = tmp_path / "lab.html"
    printed = run("lab", "load", "--html", page)
    assert printed.exit_code == 0, printed.output
    assert "WRONG: append: expected 750, found 1710" in printed.stdout
    text = page.read_text()
    assert "WRONG: append: expected 750, found 1710" in text
    assert "<script" not in text
    assert "<h2></h2>" not in text


def test_a_lab_as_json_says_which_forms_hold() -> None:
    steps = read(run("lab", "load", "--json"))["steps"]
    assert [s["holds"] for s in steps if s["form"]] == [False, True]


def test_an_unknown_lab_is_wrong_usage() -> None:
    assert run("lab", "nonsense").exit_code == 2
