"""`report` as a person meets it: the page, its grid, JSON, and what it refuses. No JVM.

Tested here: `cli.report`, `cli.report_page`, `cli.report_grid`, `cli.report_plots`. The page in a browser, with an
automatic look at its accessibility: `browser/test_pages.py`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.cli.app import app
from backfill_assets.cli.report_grid import grid, needing, strip
from backfill_assets.cli.report_page import page
from backfill_assets.cli.report_plots import LEAST_SECONDS, steps
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.states import State
from backfill_assets.operations.account import Account
from backfill_assets.operations.report import Delivered, LakeReport, report
from backfill_assets.operations.status import DayStatus, status
from backfill_assets.operations.writes import durations, writes
from backfill_assets.orchestration.history import CheckTold, FindingTold, History, RunTold
from backfill_assets_tests.cli.test_lateness import HOSTILE
from backfill_assets_tests.operations.late_lake import late_lake
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NOTHING = History((), (), ())
YEARS_3 = 1096


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "lake"
    late_lake(folder)
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> LakeReport:
    found = report(*late_lake(tmp_path_factory.mktemp("told")), NOW)
    measured = tuple(replace(w, seconds=1.0 + n) for n, w in enumerate(found.writes))
    return replace(found, writes=measured, durations=durations(measured, list(found.status.tables)))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Dagster home of this test's own."""
    folder = tmp_path / "dagster_home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    yield folder
    dg.DagsterInstance.get().dispose()


def run(root: Path, *args: object) -> Result:
    return CliRunner().invoke(app, ["report", "--lake", str(root), *map(str, args)])


def test_the_page_and_the_document_are_written_by_one_call(root: Path, home: Path, tmp_path: Path) -> None:
    result = run(root, "--html", tmp_path / "report.html", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["dagster"] == {"runs": [], "checks": [], "findings": []}
    assert said["delivered"]["files"] == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_a_home_of_dagster_that_is_not_there_is_one_line(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "none"))
    result = run(root, "--json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "Set DAGSTER_HOME to a folder that you may write" in result.stderr


def test_without_a_place_to_write_to_it_is_wrong_usage(root: Path) -> None:
    result = run(root)
    assert result.exit_code == 2
    assert "--html FILE, --json" in result.stderr


def test_the_page_fetches_nothing_and_runs_nothing(told: LakeReport) -> None:
    html = page(told, NOTHING)
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", html)
    assert "<script" not in html
    assert html == page(told, NOTHING), "the same report gives the same bytes"


def test_every_reference_of_the_page_is_inside_it_and_no_id_is_there_twice(told: LakeReport) -> None:
    html = page(told, NOTHING)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    referred = re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', html)
    assert set(referred) <= set(ids)
    assert html.count("<figure") == 3


def test_hostile_text_is_escaped_wherever_it_comes_from(told: LakeReport) -> None:
    late = told.lateness
    assert late
    bare = replace(late, ages=(), by_arrival=(), completeness=())
    hostile_day = DayStatus(HOSTILE, START, State.STALE, reason=HOSTILE)
    html = page(
        replace(
            told,
            lateness=bare,
            durations=(),
            status=replace(told.status, lake=HOSTILE, tables={HOSTILE: (hostile_day,)}),
            delivered=Delivered(told.delivered.account, {HOSTILE: 1}),
            writes=(replace(told.writes[0], reason=HOSTILE, note=HOSTILE, run_id=HOSTILE),),
        ),
        History(
            (RunTold(HOSTILE, HOSTILE, HOSTILE, None, HOSTILE, NOW, 1.0, HOSTILE, (HOSTILE,)),),
            (CheckTold(HOSTILE, HOSTILE, 1, 1),),
            (FindingTold(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        ),
    )
    assert "<script" not in html
    assert "<img" not in html
    assert "{{ 7 * 7 }}" in html
    assert html.count("&lt;script&gt;") > 15


def test_a_month_is_a_strip_per_table_and_says_in_words_what_it_shows(told: LakeReport) -> None:
    months = grid(told.status)
    assert [m.month for m in months] == ["2024-02", "2024-03"]
    assert len(months[0].strips) == len(told.status.tables)
    days = [DayStatus("raw", START + ONE_DAY * n, State.FRESH, 5, 1) for n in range(3)]
    days.append(DayStatus("raw", START + ONE_DAY * 3, State.STALE, 7, 1))
    drawn = strip("raw", days)
    assert 'aria-label="raw 2024-02: 3 fresh, 1 stale"' in drawn
    assert drawn.count('class="fresh"') == drawn.count('class="stale"') == 1, "equal neighbours are one rectangle"
    assert "<title>2024-02-26..2024-02-28: fresh, 15 rows</title>" in drawn
    assert "<title>2024-02-29: stale, 7 rows</title>" in drawn


def test_what_needs_a_look_is_joined_to_ranges_and_no_table_hides_another(told: LakeReport) -> None:
    stale = [DayStatus("raw", START + ONE_DAY * n, State.STALE, reason=f"because {n}") for n in range(2)]
    held = [DayStatus("raw", START + ONE_DAY * n, State.HELD) for n in range(2, 4)]
    days = (*stale, *held, DayStatus("raw", START + ONE_DAY * 4, State.PENDING))
    status = replace(told.status, tables={"raw": days, "staging": days})
    found, left_out = needing(status, 2)
    assert found == [(table, "2024-02-26..2024-02-27", "stale", "because 0") for table in ("raw", "staging")]
    assert left_out == 2


def test_while_rows_wait_the_page_does_not_say_that_all_is_loaded(told: LakeReport) -> None:
    whole = Delivered(Account(2, 7, 7), {})
    assert "All that landed is loaded." in page(replace(told, delivered=whole), NOTHING)
    behind = Account(2, 10, 7, 0, 0, 0, waiting={START: 3})
    html = page(replace(told, delivered=Delivered(behind, {})), NOTHING)
    assert "All that landed is loaded." not in html
    assert "<strong>Not all that landed is loaded:</strong> 3 rows wait on 1 arrival day." in html
    assert "10 rows in 2 files: 7 in raw, 0 in quarantine, 0 duplicates, 3 not loaded yet." in " ".join(html.split())


def test_an_account_that_does_not_add_up_is_told_with_its_days_and_difference(told: LakeReport) -> None:
    html = page(replace(told, delivered=Delivered(Account(1, 10, 7, wrong={START: 3}), {})), NOTHING)
    assert "<strong>The account does not add up</strong> on 1 loaded days: 2024-02-26 -3 rows." in " ".join(
        html.split()
    )
    uncounted = page(replace(told, delivered=Delivered(Account(1, 10, 7, uncounted={START: 3}), {})), NOTHING)
    assert "–<small>not counted on 1 days</small>" in uncounted


def test_quantiles_are_told_of_all_upserts_and_not_of_the_late_ones(told: LakeReport) -> None:
    html = page(told, NOTHING)
    assert "4.00 % of 25 upserts arrived on a later day" in html
    assert "Of all upserts, half arrived within 1.0 h of their event" in html


def test_days_that_will_change_look_otherwise_and_say_so(told: LakeReport) -> None:
    fresh = DayStatus("raw", START, State.FRESH, 5, 1)
    days = (fresh, *(replace(fresh, day=START + ONE_DAY * n, will_change=True) for n in (1, 2)))
    drawn = strip("raw", days)
    assert 'aria-label="raw 2024-02: 1 fresh, 2 will change"' in drawn
    assert '<rect class="follows"' in drawn
    assert "<title>2024-02-27..2024-02-28: fresh, will change, 10 rows</title>" in drawn
    status = replace(told.status, tables={"raw": days})
    assert needing(status, 9)[0] == [
        ("raw", "2024-02-27..2024-02-28", "will change", "made from days that need making")
    ]
    assert "of 3; 2 will change" in page(replace(told, status=status), NOTHING)


def test_a_run_names_its_tables(told: LakeReport) -> None:
    def cell(*tables: str) -> str:
        ran = RunTold("0123456789", "rebuild", "success", None, "manual", NOW, 1.0, "", tables)
        return page(told, History((ran,), (), ()))

    assert "<td>all<td>manual" in cell(*told.status.tables)
    assert "<td>staging<td>manual" in cell("staging")
    assert '<td class="prose">staging, labels<td>manual' in cell("staging", "labels")


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=9))
def test_every_write_of_the_plot_has_a_number_on_both_sides_and_numbers_do_not_touch(seconds: list[float]) -> None:
    ticks = steps(seconds)
    assert ticks[0] <= max(min(seconds), LEAST_SECONDS)
    assert ticks[-1] >= max(seconds)
    assert 2 <= len(ticks) <= 9
    assert all(b / a >= 1.99 for a, b in pairwise(ticks))


def test_a_check_without_a_verdict_leaves_its_place_empty(told: LakeReport) -> None:
    stale = replace(told.status.tables["raw"][0], state=State.STALE)
    days = {name: (day,) for name, (day, *_) in told.status.tables.items()} | {"raw": (stale,)}
    seen = History((), (CheckTold("raw", "profile", 1, 0), CheckTold("staging", "row_count", 30, 0)), ())
    html = page(replace(told, status=replace(told.status, tables=days)), seen)
    rows = re.findall(r'<tr><th scope="row">(raw|staging)((?:<td>[^<]*)+)</tr>', html)
    assert ("raw", "<td>1 good<td>–<td>1") in rows, "the last is how many days are stale now, by the receipts"
    assert ("staging", "<td>–<td>30 good<td>0") in rows


def test_a_lake_in_which_nothing_landed_has_a_page(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "other", 1)
    html = page(report(type(lake)(tmp_path / "empty", lake.settings), pipeline, NOW), NOTHING)
    assert "Nothing has landed or been written yet." in html
    assert "<figure>" not in html


def test_three_years_of_days_stay_a_small_page(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, YEARS_3)
    days = status(lake, pipeline)
    written = writes(lake, pipeline)
    html = page(LakeReport(NOW, days, Delivered(Account(), {}), None, (), written), NOTHING)
    assert html.count('class="strip"') == 37 * len(pipeline.tables)
    assert html.count("<rect") < 700, "neighbours of one state are one rectangle"
    assert len(html) < 200_000
