"""Section `[audit]` of `lake.toml`: who counts the rows that a run is to publish.

Not here: the choice by it (`engines.auditor`), and `[spark]`, which the kernel reads, too
(`kernel.tables.sections`).
"""

from typing import Literal

from pydantic import Field

from backfill_assets.kernel.tables.sections import Section
from backfill_assets.kernel.tables.settings import LakeSettings


class AuditSettings(Section):
    """Who counts the rows that a run is to publish: `duckdb`, in the run's process; `engine`, the
    lake's; `auto`: the lake's engine where it computes on other machines and a table's files have
    at least `engine_from_mib` MiB, in a bucket a 64th of that."""

    engine: Literal["auto", "duckdb", "engine"] = "auto"
    engine_from_mib: int = Field(default=1024, ge=0)


class EnginesSettings(Section):
    """The section that `engines` adds to the settings of a lake."""

    audit: AuditSettings = AuditSettings()


def audit_of(settings: LakeSettings) -> AuditSettings:
    """Return who counts the rows of a lake."""
    return settings.of_room(EnginesSettings).audit
