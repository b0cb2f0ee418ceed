"""A `dagster.yaml` written by version 0.2 opens, with Dagster's own launcher and queue.

Tested here: `orchestration.run_launcher`. Not tested here: launching runs (`browser.test_dev`).
"""

from pathlib import Path

import dagster as dg
import pytest

OLD = """
run_coordinator:
  module: backfill_assets.orchestration.run_launcher
  class: WarmQueue
  config: {dequeue_interval_seconds: 1, dequeue_use_threads: true, dequeue_num_workers: 2}
run_launcher: {module: backfill_assets.orchestration.run_launcher, class: WarmRunLauncher}
telemetry: {enabled: false}
"""


@pytest.mark.usefixtures("storages")
def test_settings_that_name_the_classes_of_version_0_2_open_with_dagsters_own(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(OLD)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert type(instance.run_launcher) is dg.DefaultRunLauncher
        assert type(instance.run_coordinator) is dg.QueuedRunCoordinator
