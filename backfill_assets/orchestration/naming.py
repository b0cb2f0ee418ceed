"""How a lake's tables are called in Dagster: their asset keys, and the names of jobs, sensors, schedules, steps.

Here: from a table to its key and back, and which looks (group, owners, tags, pool …) the assets have. Not here: the
definitions that bear these names (`assemble`, `lake_definitions`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import SettingsError

MAKE = "make_"  # how the step of a table is called, followed by its name
SEPARATOR = "__"
KEY_PREFIX = "BACKFILL_ASSETS_KEY_PREFIX"  # tells commands what the project says to `build_lake_defs`; parts by /
GROUP = "lake"  # one group: with two or more the lineage page opens with all of them collapsed
STEP = re.compile(rf"(?:.*?{SEPARATOR})??{MAKE}(.+)")
PART = re.compile(rf"(?!{MAKE})[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Naming:
    """The names of a lake in Dagster: `prefix` leads the asset keys of its tables, `label` all other names.

    Without both, names are plain (`raw`, `rebuild`): the lake has the project for itself.
    """

    prefix: tuple[str, ...] = ()
    label: str = ""

    @classmethod
    def below(cls, prefix: str | Sequence[str], label: str = GROUP) -> "Naming":
        """Names for a project with other definitions: led by the parts of `prefix`, or by `label` where there is none.

        Raises ValueError for a part that Dagster takes in no name, or that begins with `make_`.
        """
        parts = (prefix,) if isinstance(prefix, str) else tuple(prefix)
        if wrong := [part for part in parts if not PART.fullmatch(part)]:
            raise ValueError(
                f"key_prefix: {wrong[0]!r} is no part of a name: letters, digits and _ are, not beginning with {MAKE}"
            )
        return cls(parts, SEPARATOR.join(parts) or label)

    @classmethod
    def named_by(cls, environ: Mapping[str, str]) -> "Naming":
        """Names as the environment variable says; plain without it. Raises SettingsError for one that is no prefix."""
        named = environ.get(KEY_PREFIX, "")
        try:
            return cls.below([part for part in named.split("/") if part]) if named else cls()
        except ValueError as error:
            raise SettingsError(
                f"the environment variable {KEY_PREFIX}", str(error), "Nothing was done",
                "Set it to the key_prefix of the lake in the project, its parts joined by /, or unset it",
            ) from None  # fmt: skip

    @property
    def environ(self) -> dict[str, str]:
        """The environment by which a command of this package finds these names."""
        return {KEY_PREFIX: "/".join(self.prefix) or "/"} if self.label else {}

    def key(self, table: str) -> dg.AssetKey:
        """The asset key of a table (or of a ledger)."""
        return dg.AssetKey([*self.prefix, table])

    def of(self, contract: Contract) -> dg.AssetKey:
        """The asset key of a table; one whose rows an asset of the project returns has that asset's."""
        return dg.AssetKey(contract.made_by.split("/")) if contract.made_by else self.key(contract.name)

    def table_of(self, key: dg.AssetKey) -> str | None:
        """The table that a key names; None for an asset of another lake or of the project."""
        *prefix, table = key.path
        return table if tuple(prefix) == self.prefix else None

    def name(self, plain: str) -> str:
        """The name of a job, sensor, schedule, resource or step that is called `plain` where the lake is alone."""
        return f"{self.label}{SEPARATOR}{plain}" if self.label else plain

    def step(self, table: str) -> str:
        """The name of the step that makes a table, and of its configuration."""
        return self.name(MAKE + table)

    def output(self, table: str) -> str:
        """The name of the output of that step."""
        return SEPARATOR.join([*self.prefix, table])

    def page(self, table: str) -> str:
        """The address of the table's page, seen from any page of Dagster. It also holds below the secret of `ui`."""
        return f"../assets/{'/'.join([*self.prefix, table])}"


PLAIN = Naming()


def table_made_by(step: str) -> str | None:
    """The table that a step makes, under whatever label; None for other steps (a standing check, a scan)."""
    made = STEP.fullmatch(step)
    return made[1] if made else None


@dataclass(frozen=True)
class Appearance:
    """How a lake shows itself in a Dagster project."""

    naming: Naming = PLAIN  # the names of all its definitions
    is_guest: bool = False  # the project has other definitions, so that the lake claims nothing common to all of them
    # Plain names of sensors and schedules that run unless turned off in the browser; None: all that are meant to.
    running: Collection[str] | None = None
    mappings: Literal["identity", "windows"] = "identity"  # of inputs, as they are shown; see `build_lake_defs`
    # further parameters of each asset's `dg.AssetSpec`
    spec: Mapping[str, Any] = field(default_factory=lambda: {"group_name": GROUP})
    built: Mapping[str, Any] = field(default_factory=dict)  # the same for assets that are made from other tables only
    # further parameters of each asset's `dg.multi_asset` (`pool`, `op_tags` …)
    step: Mapping[str, Any] = field(default_factory=dict)

    def of(self, is_landed: bool) -> Mapping[str, Any]:
        """Further parameters for the `dg.AssetSpec` of a table's asset."""
        return {"kinds": {"spark", "deltalake"}, **self.spec, **({} if is_landed else self.built)}

    def runs(self, name: str) -> bool:
        """Whether a sensor or schedule that is meant to run does so by itself."""
        return self.running is None or name in self.running


ALONE = Appearance()
