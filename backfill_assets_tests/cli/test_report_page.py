"""The report's page: nothing fetched, nothing run, every number in its place, whatever the lake contains.

Tested here: `cli.report_page`. Not tested here: the command (`test_report`) and the page in a browser (`browser`).
"""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.cli.drawing import html_of
from backfill_assets.cli.report_page import page as sections_of
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.states import State
from backfill_assets.lake.gates import Finding
from backfill_assets.operations.account import Account
from backfill_assets.operations.check_history import CheckHistory
from backfill_assets.operations.report import Delivered, LakeReport, report
from backfill_assets.operations.standing import ControlOutcome, Proof
from backfill_assets.operations.status import DayStatus
from backfill_assets.orchestration.history import PastRun
from backfill_assets_tests.cli.typed import HOSTILE
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

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


def test_every_reference_of_the_page_is_inside_it_and_no_id_is_there_twice(html: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    referred = re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', html)
    assert set(referred) <= set(ids)
    assert html.count("<figure") == 1


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


def test_while_rows_wait_the_page_does_not_say_that_all_is_loaded(bare: LakeReport) -> None:
    whole = Delivered(Account(2, 7, 7), {})
    assert "All that landed is loaded." in page(replace(bare, delivered=whole))
    behind = Account(2, 10, 7, 0, 0, 0, waiting={START: 3})
    html = page(replace(bare, delivered=Delivered(behind, {})))
    assert "All that landed is loaded." not in html
    assert "10 rows in 2 files: 7 in raw, 0 in quarantine, 0 duplicates, 3 not loaded yet." in " ".join(html.split())


def test_the_first_line_says_what_is_wrong_before_what_is_right(bare: LakeReport) -> None:
    stale = DayStatus("staging", START, State.STALE, reason="its inputs changed since")
    follows = DayStatus("features", START, State.FRESH, will_change=True)
    tables = {"staging": (stale,), "features": (follows,)}
    wrong = replace(bare, status=replace(bare.status, tables=tables), controls=(ControlOutcome("booked", False, 3),))
    assert (
        sections_of(wrong, ())
        .lines[0]
        .startswith("Days of tables that need a look: 1 stale, 1 will change. 1 control(s) broken. Made ")
    )


def test_what_each_source_delivered_is_told_apart(bare: LakeReport) -> None:
    each = {"events": Delivered(Account(1, 7, 7), {}), HOSTILE: Delivered(Account(2, 3, 1, 2), {"bad": 2})}
    html = " ".join(page(replace(bare, delivered=Delivered(Account(3, 10, 8, 2), {"bad": 2}, each))).split())
    assert ">What landed from events</h2>" in html
    assert "<p>7 rows in 1 files: 7 in raw, 0 in quarantine, 0 duplicates." in html
    assert "3 rows in 2 files: 1 in raw, 2 in quarantine, 0 duplicates." in html
    assert html.count("<td>bad") == 1
    assert "<script" not in html


def test_an_account_that_does_not_add_up_is_told_with_its_days_and_difference(bare: LakeReport) -> None:
    html = page(replace(bare, delivered=Delivered(Account(1, 10, 7, wrong={START: 3}), {})))
    assert "The account does not add up on 1 loaded days, first 2024-02-26 -3 rows." in " ".join(html.split())
    uncounted = page(replace(bare, delivered=Delivered(Account(1, 10, 7, uncounted={START: 3}), {})))
    assert "3 on 1 day(s) loaded before duplicates were counted" in uncounted


def test_late_rows_are_a_share_of_all_upserts(html: str) -> None:
    assert "4.00 % of 25 upserts arrived on a later day" in html


def test_a_run_names_its_tables(bare: LakeReport) -> None:
    def cell(*tables: str) -> str:
        ran = PastRun("0123456789", "rebuild", "success", None, "manual", NOW, 1.0, "", tables)
        return page(bare, ran)

    assert "<td>all<td>manual" in cell(*bare.status.tables)
    assert "<td>staging<td>manual" in cell("staging")
    assert "<td>staging, labels<td>manual" in cell("staging", "labels")


def test_a_lake_in_which_nothing_landed_has_a_page(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "other", 1)
    html = page(report(type(lake)(tmp_path / "empty", lake.settings), pipeline, NOW))
    assert "Nothing has landed or been written yet." in html
    assert "No day is written that a check could judge." in html


def test_known_totals_are_told_with_their_outcome_and_when_they_were_judged(bare: LakeReport) -> None:
    assert "Known totals" not in page(bare)
    outcome = ControlOutcome("revenue", False, 2, "2024-03-01: 6, expected 3", at="2026-11-24T12:00:00+00:00")
    told = page(replace(bare, controls=(outcome,)))
    for text in ("Known totals", "revenue", "broken", "2026-11-24T12:00", "2 value(s) differ: 2024-03-01: 6"):
        assert text in told


def test_checks_are_counted_with_the_days_that_do_not_pass_and_proofs_are_told_newest_first(
    bare: LakeReport,
) -> None:
    found = tuple(Finding("row_count", START + ONE_DAY * n, False, n == 9, f"{n} rows") for n in (3, 9))
    history = CheckHistory("raw", "row_count", 30, found), CheckHistory("raw", "profile", 30, ())
    proofs = [Proof("raw", f"2024-03-0{n}", f"2026-01-0{n}T04:00:00", o) for n, o in ((1, "equal"), (2, "differs"))]
    html = page(replace(bare, checks=history, proofs=tuple(proofs)))
    assert '>raw<td>row_count<td class="n">28<td class="n">1<td class="n">1<td>2024-02-29, 2024-03-06<' in html
    assert "Days on which a check does not pass" in html
    assert '>raw<td>profile<td class="n">30<td class="n">0<td class="n">0<td><' in html
    assert html.index("2024-03-02<td>differs") < html.index("2024-03-01<td>equal")


def test_three_years_of_days_stay_a_small_page(told: LakeReport) -> None:
    """All right but for the newest, as a lake has them."""
    days = [START + ONE_DAY * n for n in range(YEARS_3)]
    state = dict.fromkeys(days, State.FRESH) | {days[-1]: State.PENDING}
    many = replace(told.status, tables={t: tuple(DayStatus(t, d, state[d], 3, 1) for d in days) for t in TABLES})
    html = page(LakeReport(NOW, many, Delivered(Account(), {}), None, (), told.writes))
    assert html.count('class="strip"') == 37 * len(TABLES)
    assert html.count("<rect") < 700, "neighbours of one state are one rectangle"
    assert len(html) < 200_000
