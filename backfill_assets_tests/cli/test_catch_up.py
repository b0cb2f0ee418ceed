"""Catching up ends, whatever days do, makes all that can be made, and says what is left and why. No
engine. Not here: real runs and rows that count again (`end_to_end.test_late_data`)."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import click
import pytest

from backfill_assets.cli.catch_up import rebuild_until_settled, report_catch_up
from backfill_assets.cli.common import JSON_KEY, Overrides
from backfill_assets.cli.landing_command import finding_lines
from backfill_assets.cli.progress import RunOutcome, TableOutcome
from backfill_assets.dagster.catching_up import CatchUpResult
from backfill_assets.intake.landed_changes import ScanReport
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.process import LAKE_VARIABLE
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.plans.files import keep_plan, only_runner, set_mark
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.planned import lines_held_back
from backfill_assets_tests.synthetic import START, Made, build, synthetic_lake

DAYS = 16
Run = Callable[[Work], bool]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    found = synthetic_lake(tmp_path / "lake", DAYS)
    monkeypatch.setenv(LAKE_VARIABLE, str(found[0].root))
    return found


def day(number: int) -> date:
    return START + ONE_DAY * number


def stale(lake: Made, *numbers: int) -> None:
    build(
        *lake,
        "training",
        dict.fromkeys(map(day, numbers), 3),
        digests=dict.fromkeys(map(day, numbers), "older"),
    )


def caught_up(lake: Made, run: Run) -> CatchUpResult[RunOutcome]:
    """A catch-up whose runs end as `run` says."""

    def work(_known: KnownStates, asked: Work) -> RunOutcome:
        success = run(asked)
        return RunOutcome("run", success, (), "" if success else "it broke", 0.0)

    with click.Context(click.Command("catch-up"), obj=Overrides(work=work)):
        return rebuild_until_settled(lake[0], "", "catch-up")


def test_one_day_that_fails_is_found_by_halves_and_all_others_are_made(lake: Made) -> None:
    stale(lake, *range(DAYS))

    def all_but_the_fifth(asked: Work) -> bool:
        if day(5) in asked.days:
            return False
        build(*lake, "training", dict.fromkeys(asked.days, 3))
        return True

    done = caught_up(lake, all_but_the_fifth)
    assert done.left == {"training": [str(day(5))]}
    assert done.why == {"training": f"1 tried in vain, the first {day(5)}"}
    assert len(done.runs) == 5 + 4, "sixteen, eight, four, two, one; and the other halves"
    assert not done.success


def test_the_settings_that_make_rows_are_those_that_sign_them_where_they_change_while_it_runs(
    lake: Made,
) -> None:
    stale(lake, 3)
    settings, known = lake[0].root / FILE_NAME, list[KnownStates]()

    def work(looked: KnownStates, asked: Work) -> RunOutcome:
        known.append(looked)
        build(*lake, "training", dict.fromkeys(asked.days, 3))
        return RunOutcome("run", True, (), "", 0.0)

    settings.write_text(
        settings.read_text().replace("windows_days = [2, 3]", "windows_days = [2, 4]")
    )
    with click.Context(click.Command("catch-up"), obj=Overrides(work=work)):
        rebuild_until_settled(lake[0], "", "catch-up")
    assert known
    assert [chosen_pipeline(k.lake).codes == k.pipeline.codes for k in known] == [True] * len(known)


def test_a_day_whose_runs_succeed_and_leave_it_stale_is_not_made_for_ever(lake: Made) -> None:
    stale(lake, 3)

    def in_vain(asked: Work) -> bool:
        stale(lake, *((d - START).days for d in asked.days))
        return True

    done = caught_up(lake, in_vain)
    assert len(done.runs) == lake[0].settings.lateness.attempts
    assert done.left == {"training": [str(day(3))]}


def test_what_waits_for_a_day_that_failed_says_so(lake: Made) -> None:
    build(*lake, "staging", {day(3): 3}, digests={day(3): "older"})
    stale(lake, 3)
    done = caught_up(lake, lambda _: False)
    assert [asked.tables[0] for asked, _ in done.runs] == ["staging"]
    assert "tried in vain" in done.why["staging"]
    assert "wait for their inputs" in done.why["training"]


def test_where_nothing_needs_making_the_lake_is_looked_at_once(lake: Made) -> None:
    looks: list[str] = []

    def opened() -> Made:
        looks.append("a look")
        return lake

    with click.Context(click.Command("catch-up"), obj=Overrides(opened=opened)):
        assert rebuild_until_settled(lake[0], "", "catch-up").success
    assert looks == ["a look"]


def test_days_held_back_by_files_and_unread_files_are_named_and_the_former_are_no_success() -> None:
    found = ScanReport(refused={"b.csv": "a link"}, altered=("a.csv",), blocked=frozenset({day(0)}))
    unread, file, days = finding_lines(found)
    assert (unread, file) == ("refused    b.csv: a link", "altered    a.csv")
    assert days.startswith(
        f"1 day(s) from {day(0)} are not rebuilt until the files are back, or you say"
    )
    assert list(finding_lines(ScanReport(new={"c.csv": (1, 0)}))) == []
    assert list(finding_lines(ScanReport(ahead={"1/part": "its commit says 2099"}))) == [
        "clock      1/part: its commit says 2099"
    ]
    assert CatchUpResult().success
    assert not CatchUpResult(blocked=found.blocked).success
    assert not CatchUpResult(fruitless=["[source]"]).success


def test_days_that_a_plan_nobody_runs_keeps_are_told_with_exit_code_1(
    lake: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    span = DayRange(day(2), day(5))
    plan = make_plan(*lake, PlanRequest(span, ("training",), Policy(force=True)))
    keep_plan(lake[0], plan)
    set_mark(lake[0], plan.id, "started")

    def wrong(_: Work) -> bool:
        raise AssertionError("nothing else is to be made")

    assert caught_up(lake, wrong).success, "its days are right: it keeps nothing from others"
    stale(lake, 3)
    with only_runner(lake[0], plan):
        assert caught_up(lake, wrong).success, "somebody makes them"
    (killed,) = caught_up(lake, wrong).held_back
    assert killed.startswith(
        f"the plan {plan.id} is active and no process runs it; nothing else makes {span}"
    )
    set_mark(lake[0], plan.id, "stopped", "its gate refused")
    done = caught_up(lake, wrong)
    assert (done.success, done.held_back) == (False, [lines_held_back(lake[0])[plan.id]])
    for as_json in (False, True):
        capsys.readouterr()
        context = click.Context(click.Command("catch-up"))
        context.meta.update({JSON_KEY: True} if as_json else {})
        with context, pytest.raises(click.exceptions.Exit):
            report_catch_up(done)
        out, err = capsys.readouterr()
        assert f"Error: {done.held_back[0]}" in " ".join(err.split())
        assert "Nothing to do" not in out
    assert json.loads(out)["held_back"] == done.held_back


@pytest.mark.parametrize(
    ("waits", "left", "code"),
    [(True, {}, 3), (False, {}, 1), (True, {"training": ["2024-03-01"]}, 1)],
)
def test_the_exit_code_tells_plans_that_only_wait_from_days_that_are_left(
    waits: bool, left: dict[str, list[str]], code: int
) -> None:
    kept = CatchUpResult[RunOutcome](held_back=("the plan waits",), waits=waits, left=left)
    with (
        click.Context(click.Command("catch-up")),
        pytest.raises(click.exceptions.Exit) as ended,
    ):
        report_catch_up(kept)
    assert ended.value.exit_code == code


def test_days_that_a_run_kept_back_are_not_tried_again_and_all_others_were_made(lake: Made) -> None:
    stale(lake, *range(DAYS))
    asked: list[Work] = []

    def work(_known: KnownStates, request: Work) -> RunOutcome:
        asked.append(request)
        made = [d for d in request.days if d != day(5)]
        build(*lake, "training", dict.fromkeys(made, 3))
        tables = (TableOutcome("training", len(made), len(made), 3, 0.0, kept_back=(day(5),)),)
        return RunOutcome("run", False, tables, f"{day(5)} is refused", 0.0)

    with click.Context(click.Command("catch-up"), obj=Overrides(work=work)):
        done = rebuild_until_settled(lake[0], "", "catch-up", tags={"on_bad_days": "keep_good"})
    assert [dict(request.tags) for request in asked] == [{"on_bad_days": "keep_good"}], "one run"
    assert done.left == {"training": [str(day(5))]}
    assert done.why == {"training": f"1 tried in vain, the first {day(5)}"}
    assert not done.success


SPAN = ("--from", str(START), "--to", str(START))


def test_a_release_wants_a_reason(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    done = run("replay-late", *SPAN, "--note", "  ", "--lake", tmp_path)
    assert done.exit_code == 2
    assert "say why, in a few words" in done.stderr
