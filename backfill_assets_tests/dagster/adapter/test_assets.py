"""The Dagster face of a table and of its ledgers: what a run shows of itself, and what is told of
rows set aside.

Tested here: `dagster.adapter.assets` on settled days, so that no engine is needed. Not tested here:
definitions (`test_assemble`), and runs that make rows (`test_runs`).
"""

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import Opened
from backfill_assets.dagster.adapter.dagster_private import newest_target
from backfill_assets.dagster.adapter.io_manager import report_ledgers
from backfill_assets.dagster.adapter.metadata import markdown_table
from backfill_assets.dagster.adapter.runs import DAYS_TAG, TABLES_TAG
from backfill_assets.intake.ledger import QUARANTINE
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import CHECKS, write_rows
from backfill_assets_tests.dagster.adapter.ticking import Made
from backfill_assets_tests.lakes import run_rebuild
from backfill_assets_tests.synthetic import START, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
NEXT = START + ONE_DAY


def tags_of(instance: dg.DagsterInstance, result: Any) -> dict[str, str]:
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return dict(run.tags)


def test_a_run_of_one_day_shows_its_data_version(lake: Made, instance: dg.DagsterInstance) -> None:
    one = run_rebuild(lake[0], START, START, instance, ["staging"])
    assert {DAYS_TAG, TABLES_TAG}.isdisjoint(tags_of(instance, one))
    (record,) = instance.fetch_materializations(dg.AssetKey("staging"), limit=1).records
    assert record.asset_materialization is not None
    assert (record.asset_materialization.tags or {})["dagster/data_version"].startswith("3.F")


def events_of_days(instance: dg.DagsterInstance, result: Any) -> Counter[str]:
    """How many events of each kind the run recorded."""
    events = (
        e
        for r in instance.get_records_for_run(result.run_id).records
        if (e := r.event_log_entry.dagster_event)
    )
    return Counter(e.event_type_value for e in events)


@pytest.mark.parametrize("before", [0, 1])
def test_every_run_records_its_days_and_checks_once(
    lake: Made, instance: dg.DagsterInstance, before: int
) -> None:
    for _ in range(before + 1):
        done = run_rebuild(lake[0], START, NEXT, instance, ["staging"])
    counted = events_of_days(instance, done)
    assert counted["ASSET_MATERIALIZATION"] == counted["ASSET_MATERIALIZATION_PLANNED"] == 2
    assert counted["ASSET_CHECK_EVALUATION"] == len(CHECKS)
    assert counted["ASSET_CHECK_EVALUATION_PLANNED"] == 0
    target = newest_target(instance, dg.AssetKey("staging"))
    for check in CHECKS:
        record = instance.get_latest_asset_check_evaluation_record(
            dg.AssetCheckKey(dg.AssetKey("staging"), check)
        )
        assert record is not None
        assert isinstance(record.evaluation, dg.AssetCheckEvaluation)
        assert (record.run_id, record.partition, record.evaluation.passed) == (
            done.run_id,
            None,
            True,
        )
        assert record.evaluation.target_materialization_data == target


BESIDE = ("quarantine", "too_late", "arrivals")


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(*synthetic_lake(tmp_path / "lake", 3))


def refuse(opened: Opened, day: date, *reasons: str) -> None:
    """Rows in quarantine, as a load leaves them."""
    rows = [
        {"arrival_date": day, "source_file": "f" * 64, "row_number": n, "text": "x", "reason": r}
        for n, r in enumerate(reasons, 1)
    ]
    said = Receipt(f"w-{day}", "quarantine", "manual", {day: DayEntry(len(rows), "F", "d")})
    write_rows(opened.lake.table_place(QUARANTINE.name).local(), QUARANTINE, rows, said)


def told(instance: dg.DagsterInstance, name: str) -> list[dict[str, Any]]:
    records = instance.fetch_materializations(dg.AssetKey(name), limit=9).records
    return [
        {k: v.value for k, v in r.asset_materialization.metadata.items()}
        for r in records
        if r.asset_materialization
    ]


def test_they_are_external_assets_beside_raw_that_nobody_can_materialize(opened: Opened) -> None:
    definitions = assemble(opened.lake.root, tables)
    specs = {s.key.path[-1]: s for s in definitions.resolve_all_asset_specs()}
    for name in BESIDE:
        assert [d.asset_key.path[-1] for d in specs[name].deps] == ["raw"]
        assert specs[name].group_name == specs["raw"].group_name
        assert specs[name].metadata["dagster/uri"] == opened.lake.table_place(name).local().as_uri()
    job = definitions.resolve_job_def("rebuild")
    assert not {k.path[-1] for k in job.asset_layer.executable_asset_keys} & set(BESIDE)


def test_a_load_tells_rows_and_reasons_where_something_moved(
    opened: Opened, instance: dg.DagsterInstance
) -> None:
    refuse(opened, START, "not JSON", "not JSON", "the event date lies before the lake's first day")
    refuse(opened, START + ONE_DAY, "no key")
    report_ledgers(instance, opened, opened.pipeline.tables[0].contract, "run-7")
    report_ledgers(instance, opened, opened.pipeline.tables[0].contract, "run-8")
    (said,) = told(instance, "quarantine")
    assert said["dagster/row_count"] == 4
    assert said["newest arrival day"] == str(START + ONE_DAY)
    lines = str(said["newest reasons"]).splitlines()
    assert lines[2:4] == [f"| {START + ONE_DAY} | 1 | `no key` |", f"| {START} | 2 | `not JSON` |"]
    assert said["loaded by"] == "run-7"
    (arrivals,) = told(instance, "arrivals")
    assert (arrivals["dagster/row_count"], arrivals["newest arrival day"]) == (
        3,
        str(START + ONE_DAY * 2),
    )
    assert told(instance, "too_late") == [], "it was never written"
    refuse(opened, START + ONE_DAY * 2, "no key")
    report_ledgers(instance, opened, opened.pipeline.tables[0].contract, "run-9")
    assert [s["dagster/row_count"] for s in told(instance, "quarantine")] == [5, 4]


def test_what_a_file_says_of_itself_is_no_markdown() -> None:
    line = markdown_table(
        ["day", "rows", "reason"], [(str(START), "1", "a|b <img> [x](y) `c`\nd http://e.f")]
    ).value
    assert (line or "").splitlines()[-1] == f"| {START} | 1 | `a¦b <img> [x](y) 'c' d http://e.f` |"
