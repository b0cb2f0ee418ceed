"""What a step tells Dagster of its days: every day, or only those that are news.

Lives here: which days are news, plans, and materializations of those days. Does not live here: metadata (`metadata`),
evaluations (`checks`), storage in bulk (`event_storage`).

A run that was launched in the UI was planned by Dagster for every day, and a plan wants an answer: it tells every day.
A run of the command line, a sensor or a schedule leaves its events to us: of a day that Dagster shows as its receipt
says, with all verdicts as they are, nothing is told. A day is planned before it is computed, so that a failed attempt
is seen.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

import dagster as dg

from backfill_assets.lake.gates import Finding, checks_of
from backfill_assets.load.derived import settled_days
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.dagster_private import (
    materializations,
    newest_of,
    newest_verdicts,
    plan,
)
from backfill_assets.orchestration.io_manager import Handover
from backfill_assets.orchestration.metadata import day_metadata
from backfill_assets.orchestration.runs import OWN_EVENTS_TAG


class Telling:
    """How one step tells of its days."""

    def __init__(self, context: dg.AssetExecutionContext, opened: Opened, rebuild: Rebuild) -> None:
        self._context, self._opened, self._rebuild = context, opened, rebuild
        self._planned: set[date] = set()
        self.news_only = context.run.tags.get(OWN_EVENTS_TAG) == "true"

    def plan(self, days: Iterable[date]) -> None:
        """Say which days will be made, if Dagster was not told when the run was made."""
        if not self.news_only:
            return
        new = [d for d in days if d not in self._planned]
        self._planned.update(new)
        name = self._rebuild.table.name
        plan(self._context, name, map(str, new))

    def plan_unsettled(self) -> None:
        """Say that the days will be made which are not known to be right."""
        if self.news_only:
            request = self._rebuild.request
            settled = settled_days(request, self._opened.states()) if not request.force else ()
            self.plan(d for d in request.days if d not in settled)

    def news(self, findings: Sequence[Finding]) -> Sequence[date]:
        """The days to be told of, ascending: those that Dagster does not show as these findings and the days' entries
        say; all where Dagster planned all."""
        candidate, name, instance = self._rebuild.ready, self._rebuild.table.name, self._context.instance
        settled = [str(d) for d in candidate.settled] if self.news_only else []
        shown = newest_of(instance, name, settled)
        checks = checks_of(self._rebuild.table.contract)
        given = newest_verdicts(instance, name, checks) if shown else {}
        passed = {(f.day, f.check): f.passed for f in findings}

        def is_shown(day: date) -> bool:
            """Whether Dagster shows the day as its receipt and the findings say."""
            newest, entry = shown.get(str(day)), candidate.entries[day]
            return (
                newest is not None
                and f'"{entry.fingerprint}"' in newest.text
                and f'"{entry.input_digest}"' in newest.text
                and all(given.get((c, str(day))) == (passed.get((day, c)), newest.storage_id) for c in checks)
            )

        return [d for d in self._rebuild.days if not is_shown(d)]

    def tell(self, events: Iterable[dg.AssetCheckEvaluation]) -> Iterator[dg.AssetCheckEvaluation]:
        """Tell of evaluations: what comes out is to be yielded."""
        if not self.news_only:
            yield from events
            return
        self._store(events)

    def materialize(self, output: dg.Output[Handover], days: Sequence[date]) -> None:
        """Tell of these days, where Dagster does not do so by itself."""
        published = output.value.published
        if not self.news_only or published is None or not days:
            return
        key = dg.AssetKey(self._rebuild.table.name)
        for partition, metadata in day_metadata(self._rebuild, published, days).items():
            self._context.add_asset_metadata(metadata, key, partition)
        self._store(materializations(self._context, key, output, [str(d) for d in days]))

    def _store(self, events: Iterable[dg.AssetMaterialization | dg.AssetCheckEvaluation]) -> None:
        """Record events of the step. `context.log_event` would also keep each in memory until the run ends: 8 kB."""
        step = self._context.get_step_execution_context()
        for event in events:
            if isinstance(event, dg.AssetMaterialization):
                dg.DagsterEvent.asset_materialization(step, event)
            else:
                dg.DagsterEvent.asset_check_evaluation(step, event)
