"""A plan names the greatest key of the days it reads, what it costs, and days whose receipts
counted none.

Tested here: `plans.skew` on tables written by hand. Not tested here: the preflight
(`plans/test_preflight.py`).
"""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.write.model import Pipeline, make_pipeline
from backfill_assets.plans.model import parse_plan, plan_json
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.skew import KeyShare, shuffle_tasks
from backfill_assets_tests.planning import DAYS, bare_staging, good_rows, write_by_hand
from backfill_assets_tests.synthetic import synthetic_lake

TWO = DayRange(DAYS.start, DAYS.start + ONE_DAY * 2)
ASKED = PlanRequest(TWO, ("features",), Policy(force=True, canary=0))


def skewed(day: date) -> list[dict[str, Any]]:
    """Of 30 rows 15 of E0 on the first day, 20 on the second; 5 without an entity."""
    most = 15 if day == TWO.start else 20
    return [
        {**row, "entity": "E0" if n < most else None if n >= 25 else f"E{n}"}
        for n, row in enumerate(good_rows(day))
    ]


def shares(tmp_path: Path, **choice: Any) -> KeyShare:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, TWO, skewed)
    (share,) = make_plan(lake, _reading(pipeline, **choice), ASKED).shares
    return replace(share, tasks=8)


def _reading(pipeline: Pipeline, **choice: Any) -> Pipeline:
    def chosen(contract: Contract) -> Contract:
        return replace(
            contract, inputs=tuple(replace(i, **choice) if i.by else i for i in contract.inputs)
        )

    return make_pipeline(replace(t, contract=chosen(t.contract)) for t in pipeline.tables)


def test_the_day_with_the_greatest_key_is_named_with_what_it_costs(tmp_path: Path) -> None:
    share = shares(tmp_path)
    assert "even share" not in str(replace(share, tasks=2)), "1.3 times says nothing"
    assert str(share) == (
        f"staging by entity (features; NULL apart): 67% of the 30 rows of {TWO.last} have one "
        "key, 17% none; so one of "
        "8 task(s) has up to 5.3 times an even share"
    )


def test_a_salt_divides_the_greatest_group(tmp_path: Path) -> None:
    share = shares(tmp_path, salt=4)
    assert (share.group, share.most, share.choice) == (5, 20, "NULL apart, salt 4")


def test_days_of_before_are_unknown_and_no_plan_without_a_known_day_says_anything(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path, len(DAYS))  # its receipts count no keys
    assert make_plan(lake, pipeline, ASKED).shares == ()
    write_by_hand(lake, pipeline, DayRange(TWO.start, TWO.start + ONE_DAY), skewed)
    plan = make_plan(lake, pipeline, ASKED)
    assert str(plan.shares[0]).endswith("; unknown of 1 day(s), written before this was kept")
    assert parse_plan(plan_json(plan)).shares == plan.shares


def test_tasks_are_those_that_the_engine_spreads_keys_over() -> None:
    assert (
        shuffle_tasks(EngineSettings("local[3]")),
        shuffle_tasks(EngineSettings("sail", cores=4)),
    ) == (3, 4)
    assert shuffle_tasks(EngineSettings("spark://host:7077")) == 200
    assert (
        shuffle_tasks(
            EngineSettings("spark://host:7077", confs={"spark.sql.shuffle.partitions": "64"})
        )
        == 64
    )
