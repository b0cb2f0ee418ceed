"""The report's page: nothing fetched, nothing run, every number in its place, whatever the lake
contains. Not here: the command (`test_report`) and the page in a browser (`browser`)."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.cli.drawing import html_of
from backfill_assets.dagster.adapter.history import PastRun
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.account import Account
from backfill_assets.reading.check_history import CheckHistory
from backfill_assets.reading.outcomes import ControlOutcome
from backfill_assets.reports.report import Delivered, LakeReport, report_of_lake
from backfill_assets.reports.report_page import lake_page as sections_of
from backfill_assets.reports.status import DayStatus
from backfill_assets_tests.cli.typed import HOSTILE
from backfill_assets_tests.synthetic import START, synthetic_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)
YEARS_3 = 1096
TABLES = ("raw", "staging", "features", "features_as_known", "labels", "training")


def page(report: LakeReport, *runs: PastRun) -> str:
    return html_of(sections_of(report, runs))


@pytest.fixture(scope="module")
def bare(told: LakeReport) -> LakeReport:
    """The same without what plots are drawn from, because drawing takes most of a page's time."""
    return replace(told, lateness=None, durations=(), checks=())


@pytest.fixture(scope="module")
def html(told: LakeReport) -> str:
    return page(told)


def test_the_page_fetches_nothing_and_runs_nothing(told: LakeReport, html: str) -> None:
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", html)
    assert "<script" not in html
    assert html == page(told), "the same report gives the same bytes"


def test_hostile_text_is_escaped_wherever_it_comes_from(bare: LakeReport) -> None:
    hostile_day = DayStatus(HOSTILE, START, State.STALE, reason=HOSTILE)
    html = page(
        replace(
            bare,
            status=replace(bare.status, lake=HOSTILE, tables={HOSTILE: (hostile_day,)}),
            delivered=Delivered(bare.delivered.account, {HOSTILE: 1}),
            writes=(replace(bare.writes[0], reason=HOSTILE, note=HOSTILE, run_id=HOSTILE),),
            checks=(CheckHistory(HOSTILE, HOSTILE, 1, ()),),
        ),
        PastRun(HOSTILE, HOSTILE, HOSTILE, None, HOSTILE, NOW, 1.0, HOSTILE, (HOSTILE,)),
    )
    assert "<script" not in html
    assert "<img" not in html
    assert "{{ 7 * 7 }}" in html
    assert html.count("&lt;script&gt;") > 15


def test_the_first_line_says_what_is_wrong_before_what_is_right(bare: LakeReport) -> None:
    stale = DayStatus("staging", START, State.STALE, reason="its inputs changed since")
    follows = DayStatus("features", START, State.FRESH, will_change=True)
    tables = {"staging": (stale,), "features": (follows,)}
    wrong = replace(
        bare,
        status=replace(bare.status, tables=tables),
        controls=(ControlOutcome("booked", False, 3),),
    )
    assert (
        sections_of(wrong, ())
        .lines[0]
        .startswith(
            "Days of tables that need a look: 1 stale, 1 will change. 1 control(s) broken. Made "
        )
    )


def test_a_lake_in_which_nothing_landed_has_a_page(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "other", 1)
    html = page(report_of_lake(type(lake)(tmp_path / "empty", lake.settings), pipeline, NOW))
    assert "Nothing has landed or been written yet." in html
    assert "No day is written that a check could judge." in html


def test_three_years_of_days_stay_a_small_page(told: LakeReport) -> None:
    """All right but for the newest, as a lake has them."""
    days = [START + ONE_DAY * n for n in range(YEARS_3)]
    state = dict.fromkeys(days, State.FRESH) | {days[-1]: State.PENDING}
    many = replace(
        told.status,
        tables={t: tuple(DayStatus(t, d, state[d], 3, 1) for d in days) for t in TABLES},
    )
    html = page(LakeReport(NOW, many, Delivered(Account(), {}), None, (), told.writes))
    assert html.count('class="strip"') == 37 * len(TABLES)
    assert html.count("<rect") < 700, "neighbours of one state are one rectangle"
    assert len(html) < 200_000
