"""What upkeep adds to `[retention]` in `lake.toml`: what `maintain` deletes and joins.

Not here: `rollback_days`, which the kernel reads, too (`kernel.tables.sections`).
"""

from pydantic import Field

from backfill_assets.kernel.tables.sections import PositiveDays, RetentionSettings, Section
from backfill_assets.kernel.tables.settings import LakeSettings


class UpkeepRetention(RetentionSettings):
    """How long (days) Dagster's superseded runs stay, and copies of files that the landing folder
    still has; None: for ever. `maintain` deletes the others, and writes days again in files of
    about `file_mib` MiB that lie in others."""

    run_days: PositiveDays | None = None
    copy_days: PositiveDays | None = None
    file_mib: int = Field(default=256, ge=16, le=4096)


class UpkeepSettings(Section):
    """The section of a lake's settings to which upkeep adds keys."""

    retention: UpkeepRetention = UpkeepRetention()


def retention_of(settings: LakeSettings) -> UpkeepRetention:
    """Return what a lake keeps, and for how long."""
    return settings.retention.of_room(UpkeepRetention)
