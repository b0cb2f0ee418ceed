"""The lake behind Dagster's definitions: opened at every tick, and once by a run, when it loads the definitions.

Not here: work on the lake (`load`) and the definitions themselves (`assemble`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backfill_assets.core.addresses import address_of
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.home import Lake, look_at, open_lake
from backfill_assets.lake.model import Pipeline, Table, pipeline_of
from backfill_assets.lake.settings import FILE_NAME, LakeSettings, is_lake
from backfill_assets.lake.view import Known
from backfill_assets.orchestration.naming import ALONE, Appearance, Naming

TablesOf = Callable[[LakeSettings], Sequence[Table]]


@dataclass(frozen=True)
class LakeContext:
    """The lake's folder, the function from its settings to its tables, and how it shows itself in the project."""

    root: Path
    tables_of: TablesOf
    appearance: Appearance = ALONE
    _ticks: list[Known] = field(default_factory=list, compare=False, repr=False)  # what the last one knew: at most one

    @property
    def naming(self) -> Naming:
        """The names of the lake's definitions."""
        return self.appearance.naming

    def open(self) -> tuple[Lake, Pipeline]:
        """Open the lake with today's settings, in a run of a job of its own. Raises SettingsError."""
        lake = open_lake(self.root)
        return lake, pipeline_of(lake, self.tables_of(lake.settings))

    def look(self) -> tuple[Lake, Pipeline]:
        """As `open`, for a process that serves a whole project: the process keeps its umask where there are other
        definitions."""
        lake = look_at(self.root) if self.appearance.is_guest else open_lake(self.root)
        return lake, pipeline_of(lake, self.tables_of(lake.settings))

    def known(self) -> Known:
        """The lake of `look`, whose states the caller reads: while no log, setting or code moves, `read` gives the same
        object at each tick of a process, so that a tick with nothing to do judges no day again."""
        lake, pipeline = self.look()
        before = self._ticks[0] if self._ticks else Known(lake, pipeline)
        is_same = before.lake == lake and before.pipeline.contracts == pipeline.contracts
        found = before.found if is_same and before.pipeline.codes == pipeline.codes else None
        self._ticks[:] = [Known(lake, pipeline, found)]
        return self._ticks[0]

    def load(self, by: str = "") -> "Opened":
        """The lake for definitions that are loaded now: neither the process nor a folder is changed, `look` and the
        steps see to that. Raises SettingsError."""
        lake = look_at(self.root)
        pipeline = pipeline_of(lake, self.tables_of(lake.settings))
        return Opened(lake, pipeline, by=by, appearance=self.appearance)

    @property
    def missing(self) -> SettingsError | None:
        """The error of a folder without a lake, with both ways to make one; None where there is a lake."""
        if is_lake(self.root):
            return None
        fix = "`backfill-assets demo` makes a sample with made-up orders, `backfill-assets init` one for your files"
        return SettingsError(f"the lake {address_of(self.root)}", f"it has no {FILE_NAME}", "Nothing was done", fix)


@dataclass(frozen=True)
class Opened:
    """A lake and its pipeline as the definitions were loaded, for all steps of a run."""

    lake: Lake
    pipeline: Pipeline
    missing: SettingsError | None = None  # the error of a folder without a lake, shown with the settings of a sample
    by: str = ""  # the user whose command runs in this process (`core.ownership.whoami`); "": Dagster's own processes
    appearance: Appearance = ALONE  # how the lake shows itself in the project
    known_by: dict[str, Known] = field(default_factory=dict, compare=False, repr=False)  # what runs know, by their ids
    _runs: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def naming(self) -> Naming:
        """The names of the lake's definitions."""
        return self.appearance.naming

    def is_first_step(self, run_id: str) -> bool:
        """Whether this call is the first for the run in this process."""
        new = run_id not in self._runs
        self._runs.add(run_id)
        return new

    def known(self, run_id: str) -> Known:
        """What a run knows of the lake, for all its steps in this process; of the newest run it is kept. Where assets
        of a project write beside the steps, each looks again."""
        if run_id not in self.known_by:
            self.known_by.clear()
            self.known_by[run_id] = Known(self.lake, self.pipeline)
        elif any(c.made_by for c in self.pipeline.contracts):
            self.known_by[run_id].read()
        return self.known_by[run_id]

    def require(self) -> tuple[Lake, Pipeline]:
        """The lake and its pipeline; raises SettingsError where there is no lake yet."""
        if self.missing is not None:
            raise self.missing
        return self.lake, self.pipeline

    def described(self, description: str) -> str:
        """`description`, after the error where there is no lake."""
        return description if self.missing is None else f"**No lake yet.** {self.missing}.\n\n{description}"
