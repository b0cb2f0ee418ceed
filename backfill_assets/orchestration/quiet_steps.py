"""A step of Dagster whose events go to its storage, not through Python's logging first.

Lives here: what stands in for a step where many events are told of it, and telling them. Does not live here: which
events (`telling`).

Dagster hands every event to a logger, whose handlers make a record, an identity and a message of it that nobody reads,
and then the event that is stored: half of the time that telling took. Where a person has named handlers of
their own in `dagster.yaml`, events take Dagster's way.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dagster as dg


def tell(
    context: dg.AssetExecutionContext, events: Iterable[dg.AssetMaterialization | dg.AssetCheckEvaluation]
) -> None:
    """Store events of the step. One that is yielded is also kept in memory until the run ends: 8 kB each."""
    instance: Any = context.instance
    step: Any = context.get_step_execution_context()
    quiet: Any = step if len(instance.get_handlers()) > 1 else QuietStep(step, instance)
    for event in events:
        if isinstance(event, dg.AssetMaterialization):
            dg.DagsterEvent.asset_materialization(quiet, event)
        else:
            dg.DagsterEvent.asset_check_evaluation(quiet, event)


@dataclass(frozen=True)
class QuietStep:
    """What `DagsterEvent` asks of a step, with a log that only stores."""

    real: Any
    instance: Any

    @property
    def log(self) -> "QuietStep":
        """Where the step's events go."""
        return self

    @cached_property
    def job_name(self) -> str:
        """As the step's."""
        return str(self.real.job_name)

    @cached_property
    def step(self) -> Any:
        """As the step's."""
        return self.real.step

    @cached_property
    def event_tags(self) -> Mapping[str, str]:
        """As the step's, which makes them anew for every event."""
        tags: Mapping[str, str] = self.real.event_tags
        return tags

    @cached_property
    def _about(self) -> Mapping[str, Any]:
        about: Mapping[str, Any] = self.real.log.metadata
        return about

    def log_dagster_event(self, level: int, msg: str, dagster_event: dg.DagsterEvent, batch_metadata: Any) -> None:
        """Store the event, and tell who listens to the run."""
        make: Any = dg.EventLogEntry
        entry = make(
            error_info=None, level=level, user_message=msg, run_id=self._about["run_id"], timestamp=time.time(),
            step_key=self._about["step_key"] or dagster_event.step_key, job_name=self._about["job_name"],
            dagster_event=dagster_event,
        )  # fmt: skip
        self.instance.handle_new_event(entry, batch_metadata=batch_metadata)
