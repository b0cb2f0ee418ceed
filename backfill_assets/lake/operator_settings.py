"""Sections of `lake.toml` for those who operate a lake: known totals (`[controls]`), and when plans run (`[plan]`).

Not here: reading the file and the other sections (`settings`), judging totals (`operations.controls`).
"""

from typing import Literal

from pydantic import Field

from backfill_assets.lake.source_settings import Section, Text

TIME = r"([01]\d|2[0-3]):[0-5]\d"


class ControlSettings(Section):
    """A known total: `query` (one SELECT of DuckDB over the lake's tables) gives `value`, per `day` or `month` where
    `grain` says so; `expected` is a number, a Parquet or CSV file beside lake.toml, or another side as `reconcile`
    takes it, with the same columns. `tolerance`: a number, or a share such as 1%."""

    query: Text
    expected: Text = Field(coerce_numbers_to_str=True)
    grain: Literal["day", "month", "all"] = "day"
    tolerance: str = Field(default="", coerce_numbers_to_str=True)


class PlanSettings(Section):
    """When chunks of plans may start: in a daily `window` (UTC), and `runs_per_hour` at most."""

    window: str | None = Field(default=None, pattern=rf"^{TIME}-{TIME}$")
    runs_per_hour: int | None = Field(default=None, ge=1, le=1000)


class ProofSettings(Section):
    """The standing proof: at `hour` (UTC), up to `days_per_day` days of tables are computed again (0: never), as often
    as `max_share` of the seconds of all writes pays for it."""

    days_per_day: int = Field(default=0, ge=0, le=1000)
    hour: int = Field(default=4, ge=0, le=23)
    max_share: float = Field(default=0.01, gt=0, le=1)
