"""Section `[gates]` of `lake.toml`: the bounds that a day of a table, and a column of it, has to
keep.

Not here: holding a day against them (`kernel.write.gates`). A new bound is a field with a
description, which a new `lake.toml` shows.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from backfill_assets.kernel.core.write_mode import OnBadDays
from backfill_assets.kernel.tables.sections import Section, Text


def _bound_field(example: float, why: str = "", **limits: Any) -> Any:
    return Field(default=None, examples=[example], description=why, **limits)


class ColumnGate(Section):
    """Bounds for one column of a day. None: no bound, and a large drift warns."""

    max_null_share: float | None = _bound_field(0.1, "of the day's rows", ge=0, le=1)
    max_null_jump: float | None = _bound_field(
        0.05, "above the median of the 28 days before", ge=0, le=1
    )
    max_drift: float | None = _bound_field(
        0.25, "population stability index against the 28 days before", gt=0
    )
    broken: Literal["warn", "refuse"] = Field(default="refuse", description="warn | refuse")


class TableGate(Section):
    """Bounds for the rows of a day, and for its `columns`. None: no bound."""

    min_rows: int | None = _bound_field(1, ge=0)
    max_rows: int | None = _bound_field(1_000_000, ge=0)
    max_relative_change: float | None = _bound_field(
        0.5, "of the median of the 28 days before: half to one and a half", gt=0
    )
    max_absolute_change: int | None = _bound_field(1000, ge=0)
    empty: Literal["warn", "allow", "refuse"] = Field(
        default="warn", description="a day without rows: warn | allow | refuse"
    )
    max_key_share: float | None = _bound_field(
        0.5,
        "of the rows may have one key by which tables group or join it (guide: Skew)",
        gt=0,
        le=1,
    )
    skew: Literal["warn", "refuse"] = Field(
        default="refuse",
        description="more on a write: warn | refuse; a plan that reads such a day is refused",
    )
    on_bad_days: OnBadDays = Field(
        default=OnBadDays.REFUSE,
        description="keep_good: days of a run that pass are written though others are refused",
    )
    columns: dict[str, ColumnGate] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _refuse_crossed_bounds(self) -> "TableGate":
        """Raise ValueError for a least number of rows above the greatest."""
        if self.min_rows is None or self.max_rows is None:
            return self
        if self.min_rows > self.max_rows:
            raise ValueError("min_rows may not exceed max_rows")
        return self


class GateSettings(Section):
    """Section `[gates]`: bounds per table (`tables`), the effect of missing required input days on
    a day (`incomplete`), and `reads`: SELECTs of consumers, which must still answer with the rows
    that are to be written."""

    incomplete: Literal["warn", "refuse"] = "warn"
    reads: tuple[Text, ...] = ()
    tables: dict[str, TableGate] = Field(default_factory=dict)

    def bounds(self, table: str) -> TableGate:
        """The bounds of a table: as declared, else the defaults."""
        return self.tables.get(table, TableGate())
