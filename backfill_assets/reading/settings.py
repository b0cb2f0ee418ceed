"""Section `[controls.NAME]` of `lake.toml`: known totals, which `status` and gates ask about.

Not here: judging them (`reconcile.reconcile`), and the outcomes (`reading.outcomes`).
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from backfill_assets.kernel.tables.sections import Section, Text
from backfill_assets.kernel.tables.settings import LakeSettings


class ControlSettings(Section):
    """A known total: `query` (one SELECT of DuckDB over the lake's tables) gives `value`, per `day`
    or `month` where `grain` says so; `expected` is a number, a Parquet or CSV file beside
    lake.toml, or another side as `reconcile` takes it, with the same columns. `tolerance`: a
    number, or a share such as 1%."""

    query: Text
    expected: Text = Field(coerce_numbers_to_str=True)
    grain: Literal["day", "month", "all"] = "day"
    tolerance: str = Field(default="", coerce_numbers_to_str=True)


class ReadingSettings(Section):
    """The sections that `reading` adds to the settings of a lake."""

    controls: Mapping[str, ControlSettings] = Field(default_factory=dict)


def controls_of(settings: LakeSettings) -> Mapping[str, ControlSettings]:
    """Return the known totals of a lake by their names."""
    return settings.of_room(ReadingSettings).controls
