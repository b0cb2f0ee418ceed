"""Which lake, with which tables: as it is now, and as it was when Dagster's definitions were made.

Lives here: opening a lake with its pipeline. Does not live here: any work on it (`load`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.model import Pipeline, Table, pipeline_of
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view

TablesOf = Callable[[LakeSettings], Sequence[Table]]


@dataclass(frozen=True)
class LakeContext:
    """The lake's folder and the function from its settings to its tables.

    Sensors and schedules open it at every tick; a run opens it once, when its process loads the definitions, so that a
    changed `lake.toml` counts from the next run on.
    """

    root: Path
    tables_of: TablesOf

    @classmethod
    def of(cls, lake: Lake, tables_of: TablesOf) -> Self:
        """The context of a lake that is open."""
        return cls(lake.root, tables_of)

    def open(self) -> tuple[Lake, Pipeline]:
        """Open the lake with the settings of now. Raises SettingsError."""
        lake = open_lake(self.root)
        return lake, pipeline_of(lake, self.tables_of(lake.settings))


@dataclass(frozen=True)
class Opened:
    """A lake and its pipeline when the definitions were made; all steps of a run work with it.

    `missing` is the error of a folder without a lake: its tables are shown with the settings of a sample. `by` is the
    user whose command runs in this process (`who.whoami`); empty in Dagster's own processes.
    """

    lake: Lake
    pipeline: Pipeline
    missing: SettingsError | None = None
    by: str = ""
    _runs: set[str] = field(default_factory=set, compare=False, repr=False)
    _last: list[States] = field(default_factory=list, compare=False, repr=False)  # at most one, the last ones read

    def is_first_step(self, run_id: str) -> bool:
        """Whether this call is the first for the run in this process."""
        new = run_id not in self._runs
        self._runs.add(run_id)
        return new

    def states(self) -> States:
        """The states of the lake now: the same object until a log moves; then only days that moved are judged again."""
        view = read_view(self.lake, self.pipeline.contracts)
        before = self._last[-1] if self._last else None
        if before is None or before.view != view:
            self._last[:] = [self.pipeline.states(view, before)]
        return self._last[-1]

    def require(self) -> tuple[Lake, Pipeline]:
        """The lake and its pipeline; raises SettingsError where there is no lake yet."""
        if self.missing is not None:
            raise self.missing
        return self.lake, self.pipeline

    def described(self, description: str) -> str:
        """`description`, after the error where there is no lake."""
        return description if self.missing is None else f"**No lake yet.** {self.missing}.\n\n{description}"
