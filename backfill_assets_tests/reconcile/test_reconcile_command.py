"""`reconcile` as a person meets it: drawn, as JSON, as a page, kept with its SQL; exit code 1 where
anything differs. Not here: what differs (`reconcile.test_reconcile`), layers
(`reconcile.test_reconcile_layers`)."""

import json
from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`staging` has two versions: of its second day, an event changed and one came."""
    readable_lake(tmp_path)
    return tmp_path


def test_a_difference_is_drawn_with_its_day_column_and_rows_and_ends_with_1(lake: Path) -> None:
    shown = run("reconcile", "staging", "--with", "staging@1", "--key", "event_key", "--lake", lake)
    assert shown.exit_code == 1
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert "2 mismatch(es); 4 row(s) left, 3 right" in shown.stdout
    assert ["2024-03-02", "2", "1", "1", "1"] in lines
    assert ["value", "BIGINT", "BIGINT", "1", "0"] in [line[:5] for line in lines]
    assert any(line[:2] == ["differs", "event_key=c"] for line in lines)
    assert "entity=NULL" in shown.stdout


def test_equal_sides_end_with_0_and_every_run_is_kept_with_its_sql(lake: Path) -> None:
    done = run(
        "reconcile",
        "staging",
        "--with",
        "staging",
        "--sample",
        "2",
        "--sha256",
        "--json",
        "--lake",
        lake,
    )
    assert done.exit_code == 0
    report = read(done)
    assert (report["mismatches"], report["rows_left"], len(report["spot_check"])) == (0, 4, 2)
    assert len(set(report["digests"])) == 1
    (kept,) = (lake / ".reconciled").glob("*.sql")
    assert report["sql"] in kept.read_text()
    record = json.loads(kept.with_suffix(".json").read_text())
    assert record["digests"] == report["digests"]
    assert record["by"]


def test_rows_and_digests_of_each_day_before_and_after_stand_in_one_report(lake: Path) -> None:
    asked = (
        "reconcile",
        "staging",
        "--with",
        "staging@1",
        "--columns",
        "event_key,value",
        "--by-day",
        "--lake",
        lake,
    )
    shown = run(*asked)
    (first, second) = [
        line.split() for line in shown.stdout.splitlines() if line.startswith("2024-03-0")
    ][:2]
    assert (first[:3], first[4:], len(first[3])) == (["2024-03-01", "2", "2"], ["the", "same"], 64)
    assert (second[:3], len({second[3], second[4]})) == (["2024-03-02", "2", "1"], 2)
    page = lake / "page.html"
    run(*asked, "--html", page)
    assert second[3] in page.read_text()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("staging",),
        ("staging", "--layers"),
        ("staging", "--with", "staging", "--tolerance", "value"),
    ],
)
def test_a_call_without_two_sides_is_wrong_usage(lake: Path, words: tuple[str, ...]) -> None:
    assert run("reconcile", *words, "--lake", lake).exit_code == 2
