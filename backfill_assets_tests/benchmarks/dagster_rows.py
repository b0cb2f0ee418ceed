"""Runs and events that Dagster would hold of a lake in use, and the rule by which `maintain`
deletes them.

Lives here: the rows alone, through Dagster's API and in memory. Does not live here: runs that
compute anything.
"""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.history import superseded_runs
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets_tests.planned import Planned


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["never"]))
def template() -> None:
    """An asset whose materialization the others are made from."""


@dataclass
class DagsterRows:
    """The runs and events that Dagster would hold of a lake's commits, written through its API in
    memory: `events` of the runs that are there; so many runs were ever `written`."""

    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    told: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    written: int = 0

    @cached_property
    def _event(self) -> Any:
        with dg.DagsterInstance.ephemeral() as elsewhere:
            made = dg.materialize([template], instance=elsewhere, partition_key="never").all_events
        return next(e for e in made if e.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION)

    def follow(self, made: Planned) -> None:
        """Tell of the commits that came since the last time."""
        for table in made.pipeline.tables:
            for commit in made.lake.store.commits(table.name, self.told.get(table.name, -1)):
                self.told[table.name] = commit.version
                if commit.receipt is not None and commit.receipt.days:
                    self._record(table.name, [*map(str, commit.receipt.days)])

    def _record(self, table: str, days: list[str]) -> None:
        run = dg.DagsterRun(
            "job", str(uuid.uuid4()), tags={LAKE_TAG: "it"}, status=dg.DagsterRunStatus.SUCCESS
        )
        self.instance.add_run(run)
        self.events[run.run_id] = len(days)
        self.written += 1
        for partition in days:
            done = dg.AssetMaterialization(table, partition=partition)
            said = self._event.event_specific_data._replace(materialization=done)
            self.instance.report_dagster_event(
                self._event._replace(event_specific_data=said), run.run_id
            )

    def prune(self, before: float) -> None:
        """Delete the runs that the job `maintain` would delete by `[retention] run_days`."""
        for run_id in superseded_runs(self.instance, "it", datetime.fromtimestamp(before, UTC)):
            self.instance.delete_run(run_id)
            del self.events[run_id]
