"""Section `[proof]` of `lake.toml`: how many days the standing proof computes again.

Not here: the choice of days and their computation (`compare.prove`).
"""

from pydantic import Field

from backfill_assets.kernel.tables.sections import Section
from backfill_assets.kernel.tables.settings import LakeSettings


class ProofSettings(Section):
    """The standing proof: at `hour` (UTC), up to `days_per_day` days of tables are computed again
    (0: never), as often as `max_share` of the seconds of all writes pays for it."""

    days_per_day: int = Field(default=0, ge=0, le=1000)
    hour: int = Field(default=4, ge=0, le=23)
    max_share: float = Field(default=0.01, gt=0, le=1)


class CompareSettings(Section):
    """The section that `compare` adds to the settings of a lake."""

    proof: ProofSettings = ProofSettings()


def proof_of(settings: LakeSettings) -> ProofSettings:
    """Return the settings of a lake's standing proof."""
    return settings.of_room(CompareSettings).proof
