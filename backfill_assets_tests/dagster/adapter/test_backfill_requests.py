"""Attempts: what failed is tried so many times and then given up, loudly, and neither keeps nor
hides anything else.

Tested here: `dagster.adapter.backfill_requests` through ticks. Not tested here: first requests
(`test_ticks`), and a long life of them (`test_simulation`).
"""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.ticks import LANDING, SCAN, late_data_tick
from backfill_assets.kernel.core.contracts import Rule
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Table
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.daemon import RUN_KEY
from backfill_assets_tests.dagster.adapter.ticking import (
    DAYS,
    NOW,
    Made,
    all_fail,
    asked,
    day,
    drop,
    gates,
    landing,
    late,
    pile_up,
    ran,
    stale,
)
from backfill_assets_tests.synthetic import build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_a_day_whose_runs_end_in_vain_is_given_up_and_shown(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2, 3)
    keys = set()
    for attempt in range(3):
        tick = late(lake, instance)
        assert len(tick.requests) == (1 if attempt == 0 else 2), (
            "after the first failure each day is alone"
        )
        keys |= {r.run_key for r in tick.requests}
        for request in tick.requests:
            ran(instance, request, dg.DagsterRunStatus.FAILURE)
    assert len(keys) == 1 + 2 + 2
    tick = late(lake, instance)
    assert tick.requests == []
    assert any("will not be requested again" in note and str(day(2)) in note for note in tick.notes)


def test_runs_that_never_began_use_up_no_attempt(lake: Made, instance: dg.DagsterInstance) -> None:
    stale(lake, 2, 3)
    for _ in range(4):  # the code server is away
        for request in late(lake, instance).requests:
            ran(instance, request, dg.DagsterRunStatus.FAILURE, began=False)
    keys = [r.run_key for r in late(lake, instance).requests]
    assert len(keys) == 2
    all_fail(lake, instance)
    tick = late(lake, instance)
    assert tick.requests == []
    assert any("will not be requested again" in note for note in tick.notes)


def corrected(settings: LakeSettings) -> tuple[Table, ...]:
    """The tables, each made by other code."""
    return tuple(replace(t, sources=(*t.sources, __name__)) for t in tables(settings))


def ruled(settings: LakeSettings) -> tuple[Table, ...]:
    """The tables, each with a rule that says nothing new."""
    rule = Rule("is_so", "1 = 1", "")
    return tuple(replace(t, contract=replace(t.contract, rules=(rule,))) for t in tables(settings))


@pytest.mark.parametrize("what", ["gates", "code", "rule"])
def test_a_given_up_day_is_asked_for_again_by_other_code(
    lake: Made, instance: dg.DagsterInstance, what: str
) -> None:
    stale(lake, 2)
    gates(lake, "max_rows = 2")
    all_fail(lake, instance)
    assert late(lake, instance).requests == []
    made_of = tables
    if what == "gates":
        path = lake[0].root / "lake.toml"
        path.write_text(path.read_text().replace("max_rows = 2", "max_rows = 3"))
    else:
        made_of = corrected if what == "code" else ruled
    assert asked(late_data_tick(instance, LakeContext(lake[0].root, made_of), NOW)) == [
        f"staging {day(2)}"
    ]


def test_runs_on_another_lake_of_the_same_instance_are_no_attempts_and_keep_no_day_busy(
    lake: Made, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    other = synthetic_lake(tmp_path / "other", DAYS)
    stale(lake, 2)
    stale(other, 2)
    all_fail(other, instance)
    (request,) = late(lake, instance).requests
    assert request.run_key not in {r.tags[RUN_KEY] for r in instance.get_runs()}
    ran(instance, request, dg.DagsterRunStatus.STARTED)
    stale(other, 5)
    assert asked(late(other, instance)) == [f"staging {day(5)}"]


def test_a_given_up_day_is_an_alarm_and_fails_its_check(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    all_fail(lake, instance)
    tick = late(lake, instance)
    assert str(day(2)) in tick.alarms["given up staging"]
    (verdict,) = (v for v in tick.verdicts if v.asset_key == dg.AssetKey("staging"))
    assert (verdict.passed, str(day(2)) in str(verdict.metadata["given up"].value)) == (False, True)
    instance.report_runless_asset_event(verdict)
    assert "staging" not in {v.asset_key.path[-1] for v in late(lake, instance).verdicts}, (
        "told once"
    )
    gates(lake, "max_rows = 3")
    tick = late(lake, instance)
    (verdict,) = (v for v in tick.verdicts if v.asset_key == dg.AssetKey("staging"))
    assert (tick.alarms, "given up" in verdict.metadata) == ({}, False)


def test_an_arrival_day_that_was_given_up_hides_no_new_file(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    build(*lake, "raw", {day(2): 3}, digests={day(2): "older"})
    for _ in range(3):
        for request in landing(lake, instance).requests:
            ran(instance, request, dg.DagsterRunStatus.FAILURE)
    pile_up(instance, LANDING)
    drop(lake, "new.jsonl", age_seconds=60)
    tick = landing(lake, instance)
    assert [r.job_name for r in tick.requests] == [SCAN]
    assert str(day(2)) in tick.alarms["given up raw"]


def test_a_load_that_is_tried_again_hides_no_new_file(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    build(*lake, "raw", {day(2): 3}, digests={day(2): "older"})
    (load,) = landing(lake, instance).requests
    drop(lake, "new.jsonl", age_seconds=60)
    assert [r.job_name for r in landing(lake, instance).requests] == [runs.REBUILD], (
        "a load scans first, by itself"
    )
    ran(instance, load, dg.DagsterRunStatus.FAILURE)
    assert [r.job_name for r in landing(lake, instance).requests] == [SCAN, runs.REBUILD]


def test_files_that_a_scan_cannot_take_are_not_scanned_for_ever(
    empty: Made, instance: dg.DagsterInstance
) -> None:
    drop(empty, "new.jsonl", age_seconds=60)
    for _ in range(3):
        (request,) = landing(empty, instance).requests
        ran(instance, request, dg.DagsterRunStatus.SUCCESS)
    tick = landing(empty, instance)
    assert tick.requests == []
    assert "in vain" in tick.alarms["scan"]
