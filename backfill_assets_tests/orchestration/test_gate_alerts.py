"""A gate that refuses is told once, with the command that comes next, by a run in the browser and by the command line.

Tested here: `orchestration.alerts` with a local webhook; the failed step's metadata. Not tested here: the gate
(`operations/test_plan_gate.py`), keeping and sending (`test_outbox.py`).
"""

import pickle
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.cli.run import alert
from backfill_assets.core.errors import GateRefused
from backfill_assets.operations.plan_gate import GateFinding, refusal
from backfill_assets.orchestration.alerts import GATE_TAG, alert_sensors, outbox, report_gate, reporting_gates
from backfill_assets.orchestration.io_manager import as_failure
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.operations.synthetic import START, synthetic_lake
from backfill_assets_tests.orchestration.sinks import Hook

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def refused(tmp_path: Path) -> GateRefused:
    """The gate of the second chunk of a plan."""
    plan = planned(*synthetic_lake(tmp_path, 10))
    return refusal(plan, plan.chunk(2), [GateFinding("staging", START, "rows", "3 rows before, 9 now")], False)


def job(root: Path, refused: GateRefused) -> dg.JobDefinition:
    """Stopped by the gate."""

    @dg.op
    def run_chunks(context: dg.OpExecutionContext) -> None:
        """Raises it."""
        with reporting_gates(root, context.instance, context.run_id):
            raise refused

    @dg.job(executor_def=dg.in_process_executor)
    def backfill_range() -> None:
        """One op."""
        run_chunks()

    return backfill_range


def test_a_run_that_a_gate_stopped_is_told_once_with_the_command_to_put_it_back(
    tmp_path: Path, hook: Hook, refused: GateRefused
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = job(tmp_path, refused).execute_in_process(instance=instance, raise_on_error=False)
        (told,) = hook.kept
        assert told["subject"] == f"Gate refused: chunk 2 of plan {refused.facts['plan']}"
        assert "3 rows before, 9 now" in told["text"]
        assert told["rollback"] == f"backfill-assets rollback --plan {refused.facts['plan']} --chunk 2 --yes"
        assert told["run_id"] == result.run_id
        run = instance.get_run_by_id(result.run_id)
        assert run
        assert run.tags[GATE_TAG] == "chunk 2 refused"
        failed = next(e for e in result.all_events if e.event_type == dg.DagsterEventType.RUN_FAILURE)
        context = dg.build_run_status_sensor_context(
            sensor_name="alert", dagster_event=failed, dagster_instance=instance, dagster_run=run
        )
        alert_sensors(tmp_path)[0](context.for_run_failure())
        assert not outbox(tmp_path, instance).waiting(), "the failed run says no more than the gate did"


def test_the_command_line_tells_the_same_without_a_daemon_and_once(
    tmp_path: Path, hook: Hook, refused: GateRefused, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 2)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    for _ in range(2):
        alert(lake, refused)
    assert [told["subject"] for told in hook.kept] == [f"Gate refused: chunk 2 of plan {refused.facts['plan']}"]


def test_without_an_address_nothing_is_kept(tmp_path: Path, refused: GateRefused) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        report_gate(tmp_path, instance, refused)
        assert not outbox(tmp_path, instance).folder.exists()


def test_the_failed_step_carries_the_command_and_so_does_the_error_in_another_process(refused: GateRefused) -> None:
    command = f"backfill-assets rollback --plan {refused.facts['plan']} --chunk 2 --yes"
    assert as_failure(refused).metadata["rollback"].value == command
    assert pickle.loads(pickle.dumps(refused)).facts["rollback"] == command  # noqa: S301  # our own
