"""The lake behind Dagster's definitions, and how it shows itself there: asset keys, names of jobs
and steps, looks.

It is opened at every tick, and once by a run, when it loads the definitions. Not here: work on the
lake (`kernel.write`), and the definitions themselves (`assemble`, `lake_definitions`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import dagster as dg

from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake, open_lake, read_lake
from backfill_assets.kernel.tables.settings import FILE_NAME, LakeSettings, is_lake
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.pipeline.lake_pipeline import pipeline_of

MAKE = "make_"  # how the step of a table is called, followed by its name
SEPARATOR = "__"
# Tells commands what the project says to `build_lake_defs`; parts by /.
KEY_PREFIX = "BACKFILL_ASSETS_KEY_PREFIX"
GROUP = "lake"  # one group: with two or more the lineage page opens with all of them collapsed
STEP = re.compile(rf"(?:.*?{SEPARATOR})??{MAKE}(.+)")
NO_NAME = re.compile(r"[^a-z0-9_]+")  # what no table's name has
KEY_PART = re.compile(rf"(?!{MAKE})[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Naming:
    """The names of a lake in Dagster: `prefix` leads the asset keys of its tables, `label` all
    other names.

    Without both, names are plain (`raw`, `rebuild`): the lake has the project for itself.
    """

    prefix: tuple[str, ...] = ()
    label: str = ""

    @classmethod
    def below(cls, prefix: str | Sequence[str], label: str = GROUP) -> "Naming":
        """Names for a project with other definitions: led by the parts of `prefix`, or by `label`
        where there is none.

        Raises ValueError for a part that Dagster takes in no name, or that begins with `make_`.
        """
        parts = (prefix,) if isinstance(prefix, str) else tuple(prefix)
        if wrong := [part for part in parts if not KEY_PART.fullmatch(part)]:
            raise ValueError(
                f"key_prefix: {wrong[0]!r} is no part of a name: letters, digits and _ are, not "
                f"beginning with {MAKE}"
            )
        return cls(parts, SEPARATOR.join(parts) or label)

    @classmethod
    def named_by(cls, environ: Mapping[str, str]) -> "Naming":
        """Names as the environment variable says; plain without it. Raises SettingsError for one
        that is no prefix."""
        named = environ.get(KEY_PREFIX, "")
        try:
            return cls.below([part for part in named.split("/") if part]) if named else cls()
        except ValueError as error:
            raise SettingsError(
                f"the environment variable {KEY_PREFIX}",
                str(error),
                "Nothing was done",
                "Set it to the key_prefix of the lake in the project, its parts joined by /, or "
                "unset it",
            ) from None

    @property
    def environ(self) -> dict[str, str]:
        """The environment by which a command of this package finds these names."""
        return {KEY_PREFIX: "/".join(self.prefix) or "/"} if self.label else {}

    def key(self, table: str) -> dg.AssetKey:
        """The asset key of a table (or of a ledger)."""
        return dg.AssetKey([*self.prefix, table])

    def of(self, contract: Contract) -> dg.AssetKey:
        """The asset key of a table; one whose rows an asset of the project returns has that
        asset's."""
        return (
            dg.AssetKey(contract.made_by.split("/"))
            if contract.made_by
            else self.key(contract.name)
        )

    def table_of(self, key: dg.AssetKey) -> str | None:
        """The table that a key names; None for an asset of another lake or of the project."""
        *prefix, table = key.path
        return table if tuple(prefix) == self.prefix else None

    def name(self, plain: str) -> str:
        """The name of a job, sensor, schedule, resource or step that is called `plain` where the
        lake is alone."""
        return f"{self.label}{SEPARATOR}{plain}" if self.label else plain

    def step(self, table: str) -> str:
        """The name of the step that makes a table, and of its configuration."""
        return self.name(MAKE + table)

    def output(self, table: str) -> str:
        """The name of the output of that step."""
        return SEPARATOR.join([*self.prefix, table])

    def page(self, table: str) -> str:
        """The address of the table's page, seen from any page of Dagster. It also holds below the
        secret of `ui`."""
        return f"../assets/{'/'.join([*self.prefix, table])}"


PLAIN = Naming()


def table_of_step(step: str) -> str | None:
    """The table that a step makes, under whatever label; None for other steps (a standing check, a
    scan)."""
    made = STEP.fullmatch(step)
    return made[1] if made else None


def window_mapping(before: int, after: int) -> dg.TimeWindowPartitionMapping:
    """The mapping of a day to the days `before` it through the days `after` it of an input. Days
    before the input's first one, or after its newest, do not exist: the window is cut there."""
    return dg.TimeWindowPartitionMapping(
        start_offset=-before, end_offset=after, allow_nonexistent_upstream_partitions=True
    )


@dataclass(frozen=True)
class Appearance:
    """How a lake shows itself in a Dagster project."""

    naming: Naming = PLAIN  # the names of all its definitions
    # The project has other definitions, so that the lake claims nothing common to all of them.
    is_guest: bool = False
    # Plain names of sensors and schedules that run unless turned off in the browser; None: all that
    # are meant to.
    running: Collection[str] | None = None
    # Of inputs, as they are shown; see `build_lake_defs`.
    mappings: Literal["identity", "windows"] = "identity"
    # further parameters of each asset's `dg.AssetSpec`
    spec: Mapping[str, Any] = field(default_factory=lambda: {"group_name": GROUP})
    # The same for assets that are made from other tables only.
    built: Mapping[str, Any] = field(default_factory=dict)
    # further parameters of each asset's `dg.multi_asset` (`pool`, `op_tags` …)
    step: Mapping[str, Any] = field(default_factory=dict)

    def of(self, is_landed: bool) -> Mapping[str, Any]:
        """Further parameters for the `dg.AssetSpec` of a table's asset."""
        return {"kinds": {"spark", "deltalake"}, **self.spec, **({} if is_landed else self.built)}

    def runs(self, name: str) -> bool:
        """Whether a sensor or schedule that is meant to run does so by itself."""
        return self.running is None or name in self.running


ALONE = Appearance()


TablesOf = Callable[[LakeSettings], Sequence[Table]]


@dataclass(frozen=True)
class LakeContext:
    """The lake's folder, the function from its settings to its tables, and how it shows itself in
    the project."""

    root: Path
    tables_of: TablesOf
    appearance: Appearance = ALONE
    # What the last one knew: at most one.
    _ticks: list[KnownStates] = field(default_factory=list, compare=False, repr=False)

    @property
    def naming(self) -> Naming:
        """The names of the lake's definitions."""
        return self.appearance.naming

    def pipeline(self, lake: Lake) -> Pipeline:
        """The tables that the lake's settings choose, as a pipeline. Raises SettingsError."""
        return pipeline_of(lake, self.tables_of(lake.settings))

    def open(self) -> tuple[Lake, Pipeline]:
        """Open the lake with today's settings, in a run of a job of its own. Raises
        SettingsError."""
        lake = open_lake(self.root)
        return lake, self.pipeline(lake)

    def look(self) -> tuple[Lake, Pipeline]:
        """Open the lake with today's settings, in a process that serves a whole project: where the
        lake is a guest among other definitions, the process keeps its umask. Raises
        SettingsError."""
        lake = read_lake(self.root) if self.appearance.is_guest else open_lake(self.root)
        return lake, self.pipeline(lake)

    def known(self) -> KnownStates:
        """The lake of `look`, whose states the caller reads: while no log, setting or code moves,
        `read` gives the same object at each tick of a process, so that a tick with nothing to do
        judges no day again."""
        lake, pipeline = self.look()
        before = self._ticks[0] if self._ticks else KnownStates(lake, pipeline)
        is_same = before.lake == lake and before.pipeline.contracts == pipeline.contracts
        found = before.found if is_same and before.pipeline.codes == pipeline.codes else None
        self._ticks[:] = [KnownStates(lake, pipeline, found)]
        return self._ticks[0]

    def load(self, by: str = "") -> "Opened":
        """The lake for definitions that are loaded now: neither the process nor a folder is
        changed, `look` and the steps see to that. Raises SettingsError."""
        lake = read_lake(self.root)
        return Opened(lake, self.pipeline(lake), by=by, appearance=self.appearance)

    @property
    def missing(self) -> SettingsError | None:
        """The error of a folder without a lake, with both ways to make one; None where there is a
        lake."""
        if is_lake(self.root):
            return None
        fix = (
            "`backfill-assets demo` makes a sample with made-up orders, `backfill-assets init` "
            "one for your files"
        )
        return SettingsError(
            f"the lake {address_of(self.root)}", f"it has no {FILE_NAME}", "Nothing was done", fix
        )


@dataclass(frozen=True)
class Opened:
    """A lake and its pipeline as the definitions were loaded, for all steps of a run."""

    lake: Lake
    pipeline: Pipeline
    # The error of a folder without a lake, shown with the settings of a sample.
    missing: SettingsError | None = None
    # The user whose command runs in this process (`kernel.core.ownership.whoami`); "": Dagster's
    # own processes.
    by: str = ""
    appearance: Appearance = ALONE  # how the lake shows itself in the project
    # What runs know, by their ids.
    known_by: dict[str, KnownStates] = field(default_factory=dict, compare=False, repr=False)
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

    def known(self, run_id: str) -> KnownStates:
        """What a run knows of the lake, for all its steps in this process; of the newest run it is
        kept. Where assets of a project write beside the steps, each looks again."""
        if run_id not in self.known_by:
            self.known_by.clear()
            self.known_by[run_id] = KnownStates(self.lake, self.pipeline)
        elif any(c.made_by for c in self.pipeline.contracts):
            self.known_by[run_id].read()
        return self.known_by[run_id]

    def require(self) -> tuple[Lake, Pipeline]:
        """The lake and its pipeline; raises SettingsError where there is no lake yet."""
        if self.missing is not None:
            raise self.missing
        return self.lake, self.pipeline

    @property
    def step(self) -> Mapping[str, Any]:
        """Further parameters for the `dg.multi_asset` of each table: the pool that the lake's
        settings name, unless the project names one."""
        pool = step_pool(self.lake.settings)
        return {**({} if pool is None else {"pool": pool}), **self.appearance.step}

    def described(self, description: str) -> str:
        """`description`, after the error where there is no lake."""
        return (
            description
            if self.missing is None
            else f"**No lake yet.** {self.missing}.\n\n{description}"
        )


@dataclass(frozen=True)
class ShownLake:
    """A lake whose definitions are assembled, for what rooms add to them; `rebuild_of` gives the
    job `rebuild` of some tables."""

    lake_context: LakeContext
    opened: Opened
    rebuild_of: Callable[[Collection[str]], dg.JobDefinition]

    @property
    def has_schedules(self) -> bool:
        """Whether it has schedules. A candidate has none: the lake that it lies in loads, proves
        and exports."""
        return self.opened.lake.shared is None


def step_pool(settings: LakeSettings) -> str | None:
    """The pool of Dagster in which the lake's own project makes tables, by the lake's settings;
    None without one."""
    find: Callable[[LakeSettings], str | None] | None = offered_function("step_pool")
    return None if find is None else find(settings)


def declared_table_name(key: dg.AssetKey, contracts: Iterable[Contract]) -> str | None:
    """The table among these that the asset makes, or stands for; None without one."""
    return next((c.name for c in contracts if c.made_by == key.to_user_string()), None)


def key_table_name(key: dg.AssetKey) -> str:
    """The table of an asset by its key: its parts in small letters, `_` for what no name has,
    joined by `__`. Of a key that is no lake's a name that no table has may come."""
    return "__".join(NO_NAME.sub("_", part.lower()) for part in key.path)
