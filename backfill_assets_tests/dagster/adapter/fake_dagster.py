"""Dagster's runs in memory, as far as ticks look at them: statuses, tags, run keys that are dropped
for ever. Here: storage of runs and what a daemon does with a request. Not here: what a run makes
(`test_simulation`). Fast enough for ten thousand ticks; that it answers like Dagster is tested
beside it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter import runs
from backfill_assets_tests.daemon import RUN_KEY


@dataclass
class FakeDagster:
    """Runs by number of launch. `dropped` are the keys of requests that Dagster would have dropped
    without a word."""

    kept: dict[str, dg.DagsterRun] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    _tagged: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    _values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _in: dict[dg.DagsterRunStatus, dict[str, None]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def launch(self, request: dg.RunRequest, sensor: str) -> dg.DagsterRun | None:
        """The run of a request, queued; None where its key was used."""
        key = str(request.run_key)
        if self._tagged[RUN_KEY, key]:
            self.dropped.append(key)
            return None
        tags = {**request.tags, RUN_KEY: key, "dagster/sensor_name": sensor}
        tags |= {runs.PARTITION: request.partition_key} if request.partition_key else {}
        chosen = frozenset(request.asset_selection or ()) or None
        return self.add_run(
            dg.DagsterRun(
                str(request.job_name),
                tags=tags,
                status=dg.DagsterRunStatus.NOT_STARTED,
                asset_selection=chosen,
                run_config=dict(request.run_config),
            )
        )

    def add_run(self, run: dg.DagsterRun) -> dg.DagsterRun:
        """Keep a run."""
        self.kept[run.run_id] = run
        self._in[run.status][run.run_id] = None
        for key, value in run.tags.items():
            self._tagged[key, value].add(run.run_id)
            self._values[key].add(value)
        return run

    def end(self, run: dg.DagsterRun, status: dg.DagsterRunStatus) -> None:
        """The run gets another status."""
        self.delete_run(run.run_id)
        self.add_run(run.with_status(status))

    def delete_run(self, run_id: str) -> None:
        """Forget a run and its tags."""
        run = self.kept.pop(run_id)
        self._in[run.status].pop(run_id)
        for key, value in run.tags.items():
            self._tagged[key, value].discard(run_id)
            if not self._tagged[key, value]:
                self._values[key].discard(value)

    def get_runs(self, filters: dg.RunsFilter, limit: int | None = None) -> list[dg.DagsterRun]:
        """The runs that the filter lets through, newest first."""
        kept = self.kept
        if filters.tags:
            few, *others = sorted((self._with(k, v) for k, v in filters.tags.items()), key=len)
            found: Iterable[str] = few.intersection(*others) if others else few
        else:
            found = [i for status in filters.statuses or self._in for i in self._in[status]]
        fits = [
            kept[i]
            for i in found
            if (not filters.statuses or kept[i].status in filters.statuses)
            and (not filters.job_name or kept[i].job_name == filters.job_name)
        ]
        return fits[:limit]

    def get_run_records(self, filters: dg.RunsFilter) -> list[Any]:
        """The same as records; all of them began."""
        return [SimpleNamespace(dagster_run=run, start_time=1.0) for run in self.get_runs(filters)]

    def get_runs_count(self, filters: dg.RunsFilter) -> int:
        """How many; all of them were made just now."""
        if filters.tags and not filters.statuses and not filters.job_name:
            return len(
                set[str].intersection(
                    *(self._with(key, value) for key, value in filters.tags.items())
                )
            )
        return len(self.get_runs(filters))

    def get_run_tags(self, keys: Sequence[str]) -> list[tuple[str, set[str]]]:
        """The values of tags."""
        return [(key, set(self._values[key])) for key in keys if self._values.get(key)]

    def get_latest_asset_check_evaluation_record(self, _key: Any) -> None:
        """No check was ever evaluated."""

    def fetch_materializations(self, _key: Any, **_more: Any) -> Any:
        """Nothing was ever materialized."""
        return SimpleNamespace(records=[])

    def _with(self, key: str, value: str | Sequence[str]) -> set[str]:
        if isinstance(value, str):
            return self._tagged.get((key, value), set())
        return {i for v in value for i in self._tagged.get((key, v), ())}
