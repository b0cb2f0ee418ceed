"""`LakeResource`: a lake as assets, jobs and sensors of a project read it, without writing.

Here: one look for all reads of a step, states and plans as plain values. Not here: reading itself
(`reading.reader`), inputs by parameter (`io_manager`), and any write.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from backfill_assets.kernel.core.days import day_range
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.reading.opening import open_lake
from backfill_assets.reading.reader import LakeReader, TableReader


class LakeResource(dg.ConfigurableResource[Any]):
    """A lake to read from: `lake.table("orders").days("2024-03-01", "2024-03-07").duckdb()`.

    All tables are read at one lake version for as long as the resource lives: for a run in one
    process, and for a step where each has a process of its own. A run leaves a new lake version
    when it ends, so that a step that reads what an earlier step of the same run wrote says `newest:
    true`, or gets it as a parameter from its IO manager. No receipt can name what is read here:
    days that the same step returns to a `LakeIOManager` are `unpinned`. Starts no engine unless a
    Spark frame is asked for; `spark`, as of `LakeIOManager`, is the session that gives it, in place
    of an engine of ours.
    """

    lake: str = Field(
        description="The folder of the lake; a relative one lies in the working folder."
    )
    newest: bool = Field(
        default=False, description="Each table at its own newest version, at every call."
    )
    spark: dg.ResourceDependency[Any] = None  # type: ignore[assignment]  # Dagster makes a field of it
    _reader: LakeReader | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Forget an earlier look; opens nothing."""
        self._reader = None

    def table(self, name: str) -> TableReader:
        """A table with all its days; `.days(first, last)` chooses some, both included, and
        `.arrow()`, `.pandas()`, `.polars()`, `.duckdb()` or `.spark()` reads them. Raises
        SettingsError where there is no lake, BackfillError for an unknown table, and when reading
        UnfitDays for days that are missing or stale."""
        return self._opened_reader().table(name)

    def states(self) -> dict[str, dict[date, State]]:
        """The state of each day that is written or needs a rebuild, by table (upstream first) and
        day, ascending, at the head of every table. A `State` is a text: `"fresh"`, `"stale"`,
        `"missing"` …"""
        opened = open_lake(self.lake)
        states = opened.pipeline.states(read_view(opened.lake, opened.pipeline.contracts))
        needed = needed_days(states)
        return {
            name: {
                day: states.of(name, day)
                for day in sorted({*states.view.table(name).latest, *needed[name]})
            }
            for name in opened.tables
        }

    def plan(
        self,
        first: str | date,
        last: str | date | None = None,
        *,
        tables: Collection[str] = (),
        chunk: str = "7d",
        force: bool = False,
    ) -> Any:
        """The `Plan` that `backfill-assets plan` would show of the days `first` through `last`
        (both included; None: that one day): impacts per table, chunks, prices, preflight;
        `nothing_to_do` says why, where it is so. Keeps and runs nothing.

        tables: their names; empty: all. chunk: days of one run, as `--chunk`. force: also what is
        known to be right. Raises UnknownName for an unknown table, BackfillError for days that are
        none.
        """
        make_plan = offered_function("make_plan")
        if make_plan is None:
            raise SettingsError(
                "the resource",
                "this installation makes no plans",
                "Nothing was planned",
                "Install all rooms of backfill_assets",
            )
        opened = open_lake(self.lake)
        days = day_range(first, last)
        return make_plan(
            opened.lake, opened.pipeline, opened.tables, days, tables, chunk=chunk, force=force
        )

    def _opened_reader(self) -> LakeReader:
        if self._reader is None:
            self._reader = replace(
                open_lake(self.lake, newest=self.newest), project_session=self.spark
            )
        return self._reader
