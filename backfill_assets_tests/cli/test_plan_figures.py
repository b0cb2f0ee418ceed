"""The figures of a plan: what was said and what came, in one line each; an interval always, a guess by its name.

Tested here: `cli.plan_figures`. Not tested here: the page around them (`test_plan_page.py`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.cli.plan_figures import besides, cost, priced, so_far, whole_cost
from backfill_assets.core.plans import BETWEEN, START, Price
from backfill_assets.operations.plan_progress import Took, progress, seconds_left
from backfill_assets.operations.plan_run import run_plan
from backfill_assets_tests.operations.planning import HandWorker, bare_staging, planned

pytestmark = pytest.mark.usefixtures("storages")


def test_a_price_names_its_interval_and_a_guess() -> None:
    told = Price(27.3, 9.6, 75.2, 1026, 81_400, 3, 40.0)
    assert priced(told) == "27 s (10..75), 40 s CPU, 1,026 rows, 81 kB"
    assert priced(Price(2.0, 0.4, 8.0)) == "2 s (0..8, a guess), 0 rows"
    assert priced(Price(0.0, 0.0, 38.0, writes=4)) == "0 s (0..38), 0 rows", "what may be nothing may be more"
    assert priced(None) == "nothing"


def test_what_was_spent_is_told_as_far_as_receipts_tell_it() -> None:
    assert whole_cost(Took(12.31, 20.0, 1026, 81_400)) == "12.3 s (20.0 s CPU), 1,026 rows, 81 kB"
    assert whole_cost(Took(12.31, None, 1026, None)) == "12.3 s, 1,026 rows"
    assert (whole_cost(None), cost(None, None)) == ("-", "-")


def test_all_of_it_together_holds_what_no_chunk_is_charged_with(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    plan = replace(plan, besides={START: Price(20.0, 5.0, 80.0, writes=2), BETWEEN: Price(10.0, 5.0, 20.0, writes=9)})
    new = progress(lake, pipeline, plan)
    assert so_far(new) == ""
    assert list(besides(new))[:2] == ["opening the engine: 20 s (5..80)", "between runs: 10 s (5..20)"]
    priced_at = sum(p.seconds for p in plan.prices.values())
    assert seconds_left(new, plan.chunks[0]) == priced_at + 30.0
    done = replace(run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline)), besides={BETWEEN: 12.0})
    whole = list(besides(done))[-1]
    assert whole.startswith(f"in all: {priced_at + 30.0:.0f} s")
    assert "; took 12." in whole
    assert seconds_left(done, plan.chunks[-1]) == 20.0, "of a plan that has never opened an engine"
