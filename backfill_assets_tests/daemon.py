"""Dagster's daemon in small, for tests that tick the sensors themselves: ticks until nothing is
asked for any more. Here: executing what a tick asks for, in this process, and forgetting run keys
that were seen, as Dagster does. Not here: the daemon itself (`end_to_end.test_plan_daemon`,
`browser.test_ui`), and what ticks decide."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg

from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext, TablesOf
from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START
from backfill_assets.dagster.adapter.ticks import Tick, landing_tick, late_data_tick
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.pipeline.tables import tables as our_tables

RUN_KEY = "dagster/run_key"
MOST_TICKS = 60  # six levels, a few ranges each: more would mean requests that never end


@dataclass
class Daemon:
    """Ticks the sensors of a lake, whose clock may `jump` before each round of ticks. `executed`
    are the run keys of the runs, in order; `notes` the last tick's lines."""

    root: Lake
    instance: dg.DagsterInstance
    tables_of: TablesOf = our_tables
    now: datetime | None = None
    jump: Callable[[], timedelta] = timedelta
    executed: list[str] = field(default_factory=list)
    swallowed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    off: timedelta = timedelta()

    @property
    def lake_context(self) -> LakeContext:
        return LakeContext(self.root.root, self.tables_of)

    @property
    def clock(self) -> datetime:
        """The time the ticks see: as given, else the day after `as_of`, else the real one."""
        as_of = open_lake(self.root.root).settings.as_of
        return (self.now or (as_of + timedelta(days=1) if as_of else datetime.now(UTC))) + self.off

    def tick(self, which: Callable[[dg.DagsterInstance, LakeContext, datetime], Tick]) -> Tick:
        """One tick; nothing is executed."""
        tick = which(self.instance, self.lake_context, self.clock)
        self.notes = tick.notes
        return tick

    def settle(self) -> list[str]:
        """Tick both sensors and execute what they ask for until neither asks for anything; the run
        keys executed.

        A clock that is behind may ask for less, so that the last round is one by the right clock.
        """
        began = len(self.executed)
        for _ in range(MOST_TICKS):
            self.off = self.jump()
            asked = self._landing() or self._late()
            if not asked and not self.off:
                return self.executed[began:]
        raise AssertionError(f"requests do not end: {self.executed[began:]}")

    def _landing(self) -> bool:
        return self.execute(self.tick(landing_tick)) > 0

    def _late(self) -> bool:
        tick = self.tick(late_data_tick)
        for verdict in tick.verdicts:
            self.instance.report_runless_asset_event(verdict)
        return self.execute(tick) > 0

    def execute(self, tick: Tick) -> int:
        """Run what a tick asked for, unless its key was seen; how many runs there were."""
        done = 0
        for request in tick.requests:
            key = str(request.run_key)
            if key in self.executed:
                self.swallowed.append(key)
                continue
            self.executed.append(key)
            self._run(request)
            done += 1
        return done

    def _run(self, request: dg.RunRequest) -> None:
        job = assemble(self.root.root, self.tables_of).resolve_job_def(str(request.job_name))
        tags = dict(request.tags) | {RUN_KEY: str(request.run_key)}
        if request.partition_key:
            tags |= {RANGE_START: request.partition_key, RANGE_END: request.partition_key}
        job.execute_in_process(
            run_config=request.run_config,
            instance=self.instance,
            tags=tags,
            asset_selection=request.asset_selection,
            raise_on_error=False,
        )
