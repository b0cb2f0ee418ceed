"""`backfill-assets lab` and `drill` as typed: the lists, a lab drawn, as JSON and a page, a drill
to its end. Not here: what labs show, and how faults are mended (`learn.practice`)."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.learn.lab_lakes import event_rows, first_events, make_lake, replace_by_day
from backfill_assets.learn.practice_command import FIRST, guide_files
from backfill_assets_tests.cli.typed import read, run

pytestmark = pytest.mark.usefixtures("storages")


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


def test_drills_are_listed_without_a_name() -> None:
    assert set(read(run("drill", "--json"))) >= {"kill-mid-commit", "late-burst", "skew"}
    assert run("drill", "nonsense").exit_code == 2


def test_a_fault_is_planted_in_a_copy_for_a_team(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", date(2024, 3, 1))
    replace_by_day(
        lake, first_events(lake), event_rows([(datetime(2024, 3, 1, 12, tzinfo=UTC), 1)])
    )
    told = read(run("drill", "kill-mid-commit", "--plant-only", "--lake", lake.root))
    copy = Path(told["copy"])
    try:
        assert "power failure" in told["symptom"]
        assert "set aside" in run("mend", "staging", "--lake", copy).stdout
        assert "set aside" not in run("mend", "staging", "--lake", lake.root).stdout
    finally:
        shutil.rmtree(copy.parent)


def test_the_list_has_one_line_for_each_guide_in_the_order_in_which_to_read_them() -> None:
    lines = run("guide").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == list(guide_files())
    assert tuple(guide_files())[: len(FIRST)] == FIRST, "every guide of the first reading exists"
    assert list(read(run("guide", "--json"))) == list(guide_files())


def test_a_guide_is_printed_as_it_stands() -> None:
    text = guide_files()["trust"].read_text(encoding="utf-8")
    assert run("guide", "trust").stdout == text
    assert read(run("guide", "trust", "--json")) == {"guide": "trust", "text": text}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    result = run("guide", "nothing")
    assert result.exit_code == 2
    assert "Choose one of first-lake, own-files" in result.stderr


def test_labs_are_listed_without_a_name() -> None:
    assert "late-fact" in run("lab").stdout
    assert set(read(run("lab", "--json"))) >= {"load", "skew"}
