"""Events of a step told the short way are those that Dagster would tell; where somebody listens, they take its way.

Tested here: `orchestration.quiet_steps`. Not tested here: which events are told (`telling`).
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import pytest

from backfill_assets.orchestration.quiet_steps import tell

pytestmark = pytest.mark.usefixtures("processes", "storages")
RUN = "5f1b2f0e-0c3e-4f0e-9f5e-000000000001"
DAYS = ["2024-03-01", "2024-03-02"]


def evaluation(day: str) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey("a"), check_name="good", passed=True, partition=day, description="of a day"
    )


def told(home: Path, short: bool, heard: list[Any], handlers: str = "") -> list[str]:
    """The events of two days as stored, without their times."""

    @dg.asset(partitions_def=dg.DailyPartitionsDefinition("2024-03-01"))
    def a(context: dg.AssetExecutionContext) -> None:
        """Tells of two days."""
        events: list[Any] = [*(dg.AssetMaterialization("a", partition=d, metadata={"n": 1}) for d in DAYS)]
        events += map(evaluation, DAYS)
        if short:
            tell(context, events)
            return
        step: Any = context.get_step_execution_context()
        for event in events:
            if isinstance(event, dg.AssetMaterialization):
                dg.DagsterEvent.asset_materialization(step, event)
            else:
                dg.DagsterEvent.asset_check_evaluation(step, event)

    home.mkdir()
    (home / "dagster.yaml").write_text(handlers)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        job = dg.Definitions(assets=[a], jobs=[dg.define_asset_job("job", [a])]).resolve_job_def("job")
        instance.add_event_listener(RUN, heard.append)
        result = job.execute_in_process(instance=instance, run_id=RUN, partition_key=DAYS[0])
        assert result.success
        records = instance.get_records_for_run(RUN).records
        texts = [dg.serialize_value(r.event_log_entry._replace(timestamp=0.0)) for r in records]
    of_days = [t for t in texts if '"ASSET_MATERIALIZATION"' in t or '"ASSET_CHECK_EVALUATION"' in t]
    return of_days[: 2 * len(DAYS)]  # the last is Dagster's own, of the step's output


def test_the_short_way_stores_the_events_that_the_long_way_stores(tmp_path: Path) -> None:
    heard: list[Any] = []
    short, long = told(tmp_path / "short", True, heard), told(tmp_path / "long", False, [])
    assert len(short) == 4
    assert short == long
    assert sum(e.dagster_event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION for e in heard) == 2


class Kept(logging.Handler):
    """Keeps what it is handed."""

    lines: ClassVar[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    Kept.lines.clear()
    yield Kept.lines
    Kept.lines.clear()


HANDLER = f"""
python_logs:
  dagster_handler_config:
    handlers:
      kept:
        class: {__name__}.Kept
        level: DEBUG
"""


def test_where_a_person_named_a_handler_it_is_handed_every_event(tmp_path: Path, lines: list[str]) -> None:
    assert len(told(tmp_path / "home", True, [], HANDLER)) == 4
    assert (
        len([line for line in lines if re.search("ASSET_MATERIALIZATION|ASSET_CHECK_EVALUATION", line)]) == 5
    )  # with the step's own
