"""Section `[gates]` of `lake.toml`: the bounds by which the gates judge a day, per table and per column.

Not here: the gates that read the bounds (`gates`), and the bounds of plans (`plans.policy`).
"""

from typing import Literal

from pydantic import Field, model_validator

from backfill_assets.lake.sections import Section, Text


class ColumnGate(Section):
    """Bounds for one column of a day: share of NULLs (0..1), its distance above the median of 28 trailing days, drift
    from them (population stability index; without `max_drift` a large one warns). `broken`: effect of a day beyond."""

    max_null_share: float | None = Field(default=None, ge=0, le=1)
    max_null_jump: float | None = Field(default=None, ge=0, le=1)
    max_drift: float | None = Field(default=None, gt=0)
    broken: Literal["warn", "refuse"] = "refuse"


NO_BOUNDS = ColumnGate(broken="warn")


class TableGate(Section):
    """Bounds for the rows of a day, absolute and relative to the median of 28 trailing days (0.5 = half .. 1.5), and
    for its `columns`. `max_key_share`: the largest share of rows that may have one key by which other tables group or
    join; `skew`: the effect of more on the write (a plan that reads such a day is refused). None: no bound."""

    min_rows: int | None = Field(default=None, ge=0)
    max_rows: int | None = Field(default=None, ge=0)
    max_relative_change: float | None = Field(default=None, gt=0)
    max_absolute_change: int | None = Field(default=None, ge=0)
    empty: Literal["warn", "allow", "refuse"] = "warn"
    max_key_share: float | None = Field(default=None, gt=0, le=1)
    skew: Literal["warn", "refuse"] = "refuse"
    columns: dict[str, ColumnGate] = Field(default_factory=dict)
    on_bad_days: Literal["refuse", "keep_good"] = "refuse"  # keep_good: the other days of the run are written

    @model_validator(mode="after")
    def _least_before_most(self) -> "TableGate":
        if self.min_rows is not None and self.max_rows is not None and self.min_rows > self.max_rows:
            raise ValueError("min_rows may not exceed max_rows")
        return self


class GateSettings(Section):
    """Bounds per table (`tables`), the effect of missing required input days on a day (`incomplete`), and `reads`:
    SELECTs of consumers, which must still answer with the rows that are to be written."""

    incomplete: Literal["warn", "refuse"] = "warn"
    reads: tuple[Text, ...] = ()
    tables: dict[str, TableGate] = Field(default_factory=dict)
