"""What a plan costs besides its writes, by receipts: the engine's start, and the time that no write took.

Tested here: `operations.plan_besides` on receipts by hand. Not tested here: a lake's own (`end_to_end/test_plan.py`).
"""

from datetime import date

from backfill_assets.core.days import DayRange
from backfill_assets.core.plans import BETWEEN, PLAN_TAG, START, cut
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.store import Commit
from backfill_assets.operations.plan_besides import besides, between, runs_of, took
from backfill_assets_tests.builders import day

CHUNKS = cut(DayRange(day(0), day(9)), "3d", 1)
ENTRIES = {date(2024, 3, 1): DayEntry(10, "F", "d")}


def wrote(run: str, ended: float, seconds: float, start: float | None = 0.0, plan: str = "p1") -> Commit:
    """The commit of a write that ended so many seconds after midnight of 1970."""
    tags = {PLAN_TAG: plan} if plan else {}
    said = Receipt(f"{run} {ended}", "t", "plan", ENTRIES, run, seconds=seconds, start_seconds=start, tags=tags)
    return Commit(0, said, round(ended * 1000), "WRITE")


RAW = [wrote("a", 100, 60, 50.0), wrote("b", 120, 4), wrote("c", 140, 4)]
STAGING = [wrote("a", 105, 3), wrote("b", 126, 5), wrote("c", 146, 5)]


def test_what_no_write_took_is_told_per_run_and_the_start_by_what_receipts_name() -> None:
    runs = runs_of([RAW, STAGING])
    assert [(r.id, r.began, r.ended, r.worked, r.started) for r in runs] == [
        ("a", 40, 105, 63, 50.0), ("b", 116, 126, 9, 0.0), ("c", 136, 146, 9, 0.0),
    ]  # fmt: skip
    assert between(runs) == [2 + 11, 1 + 10]
    assert took(runs, "p1") == {START: 50.0, BETWEEN: 24.0}
    assert took(runs, "another") == {}


def test_a_pause_runs_at_once_and_two_plans_teach_nothing_of_the_time_between() -> None:
    paused = runs_of([[wrote("a", 100, 10), wrote("b", 5000, 10)]])
    at_once = runs_of([[wrote("a", 100, 10), wrote("b", 101, 10)]])
    others = runs_of([[wrote("a", 100, 10), wrote("b", 120, 10, plan="p2"), wrote("c", 140, 10, plan="")]])
    assert between(paused) == between(at_once) == between(others) == []


def test_what_was_seen_is_promised_with_an_interval_that_holds_it_and_else_a_guess() -> None:
    guess = besides([], CHUNKS, 1, up=False)
    assert guess[START].is_guess
    assert guess[BETWEEN].is_guess
    assert guess[START].least < 10 < 60 < guess[START].most
    told = besides(runs_of([RAW, STAGING]), CHUNKS, 1, up=False)
    assert (told[START].seconds, told[START].is_guess) == (50.0, False)
    assert told[START].most > 110, "one start teaches little of a busier machine"
    assert told[START].least < 2, "it may be up by then"
    assert told[BETWEEN].seconds == 12.0 * len(CHUNKS)
    six = besides(runs_of([RAW, STAGING]), CHUNKS, 1, up=False, tables=6)[BETWEEN]
    assert six.seconds == 12.0 * (len(CHUNKS) + 5), "the seams are a run per table"
    assert besides(runs_of([RAW]), CHUNKS, 1, up=True)[START].seconds < 5
    assert besides(runs_of([RAW]), CHUNKS, 1, up=True)[START].most == told[START].most, "or it may be gone"


def test_chunks_at_once_each_find_the_engine_and_share_the_time_between() -> None:
    one, three = (besides(runs_of([RAW, STAGING]), CHUNKS, k, up=True) for k in (1, 3))
    assert three[START].seconds == one[START].seconds * len(CHUNKS)
    assert three[BETWEEN].seconds < one[BETWEEN].seconds


def test_receipts_of_before_that_name_no_wait_tell_nothing_of_the_start() -> None:
    runs = runs_of([[wrote("a", 100, 60, None), wrote("b", 120, 4, None)]])
    assert took(runs, "p1").keys() == {BETWEEN}
    assert besides(runs, CHUNKS, 1, up=False)[START].is_guess
