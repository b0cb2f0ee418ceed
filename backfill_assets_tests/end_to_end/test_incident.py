"""The incident of an append: a job doubles three years of a table, succeeds, and nobody is told; here everybody is.

Tested here: the control of a lake from the job's commit to the webhook, the check, `status` and the command,
and that our own way of writing does not double. Not tested here: judging (`operations.test_controls`). No engine.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.settings import FILE_NAME
from backfill_assets.orchestration.alert_channels import WEBHOOK
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.proofs import controls_sensor
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.operations.readable_lake import TABLE
from backfill_assets_tests.orchestration.sinks import Hook

pytestmark = pytest.mark.usefixtures("storages")
DAYS_APART, WRITTEN = 30, 37  # days: three years, thin enough for a test
CONTROL = """
[controls.events]
query = "SELECT date_trunc('year', event_date) AS month, count(*) AS value FROM staging GROUP BY 1"
expected = "known.csv"
grain = "month"
"""


def event(number: int) -> dict[str, Any]:
    """The current version of an event, each on a day of its own."""
    then = datetime(2024, 3, 1, 12, tzinfo=UTC) + timedelta(days=number * DAYS_APART)
    return {
        "event_key": f"e{number}", "event_ts": then, "entity": "A", "value": 1, "flag": 0, "version_ts": then,
        "seq": number, "known_from": then, "known_until": None, "event_date": then.date(),
    }  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Lake, Contract]:
    """Three years of a table, written by the product, and their totals by year as the provider knows them."""
    root = bare_lake(tmp_path).root
    with (root / FILE_NAME).open("a") as toml:
        toml.write(CONTROL)
    (root / "known.csv").write_text("month,value\n2024-01,11\n2025-01,12\n2026-01,12\n2027-01,2\n")
    made = open_lake(root)
    contract = chosen_pipeline(made).table(TABLE).contract
    publish_by_hand(made, contract, [event(n) for n in range(WRITTEN)])
    return made, contract


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    found = Hook()
    monkeypatch.setenv(WEBHOOK, found.url)
    yield found
    found.close()


def tick(lake: Lake, instance: dg.DagsterInstance) -> list[bool]:
    """One tick of the sensor; whether each control's check passed."""
    result = controls_sensor(LakeContext(lake.root, tables))(dg.build_sensor_context(instance=instance))
    assert isinstance(result, dg.SensorResult)
    return [e.passed for e in result.asset_events if isinstance(e, dg.AssetCheckEvaluation)]


def test_three_years_doubled_by_a_green_job_are_told_within_one_tick(lake: tuple[Lake, Contract], hook: Hook) -> None:
    made, contract = lake
    with dg.DagsterInstance.ephemeral() as instance:
        assert tick(made, instance) == [True]
        publish_by_hand(made, contract, [event(n) for n in range(WRITTEN)], digest="again")
        assert tick(made, instance) == [True], "the product replaces days, a second time as well"

        @dg.op
        def append_again() -> None:
            """Backfill three years as the job of the incident did."""
            path = str(made.table_path(TABLE))
            write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")

        @dg.job(executor_def=dg.in_process_executor)
        def backfill() -> None:
            """One step."""
            append_again()

        assert not hook.kept
        assert backfill.execute_in_process(instance=instance).success
        assert tick(made, instance) == [False]
        assert tick(made, instance) == [False]
        (told,) = hook.kept
    assert "control events: 4 value(s) differ: 2024-01-01: 22, expected 11" in told["text"]
    assert "control events: 4 value(s) differ" in run("status", "--lake", made.root).stdout
    assert run("controls", "--lake", made.root).exit_code == 1
