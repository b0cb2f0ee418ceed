"""The sections of `lake.toml` that say what is delivered and what is made of it: `[source]` and `[features]`.

Lives here: their keys, bounds and defaults, and the base of all sections. Does not live here: reading the file and the
other sections (`settings`), the meaning of a payload's words (`core.payload`), and of `select` (`landing.select`).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from backfill_assets.core.payload import DEFAULT_PAYLOAD, NAME, TAKEN, PayloadColumn, read_payload

WINDOW_DAYS_MAX = 3650  # ten years: longer windows are a typing error
Days = Annotated[int, Field(strict=True, ge=0, le=WINDOW_DAYS_MAX)]
PositiveDays = Annotated[int, Field(strict=True, ge=1, le=WINDOW_DAYS_MAX)]


class Section(BaseModel):
    """A section: a value, in which every key must be a known one."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceSettings(Section):
    """Where deliveries land, their format, the Spark SQL that maps a file's columns onto a delivery's, and its payload.

    `payload`: column -> type in Spark's words, perhaps with NOT NULL; None: entity, value and flag.
    """

    files: str = Field(min_length=1)
    format: Literal["parquet", "csv", "jsonl"]
    select: str = Field(min_length=1)
    payload: dict[str, str] | None = None

    @field_validator("payload")
    @classmethod
    def _readable(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        if value is not None:
            read_payload(value)
        return value

    @property
    def payload_columns(self) -> tuple[PayloadColumn, ...]:
        """The payload's columns in their order, whether declared or not."""
        return DEFAULT_PAYLOAD if self.payload is None else read_payload(self.payload)


class FeatureColumnSettings(Section):
    """A declared feature: `agg` of `of` (Spark SQL over one event) over the `days` up to and including the day.

    Only the events for which `where` is true count, and of them those whose `of` is not NULL. Of a DOUBLE so many
    decimals as `scale` are summed.
    """

    name: str
    agg: Literal["count", "sum", "avg", "min", "max", "first", "last", "distinct", "days_since_last"]
    of: str | None = Field(default=None, min_length=1)
    where: str | None = Field(default=None, min_length=1)
    days: PositiveDays
    scale: Annotated[int, Field(strict=True, ge=0, le=18)] = 9

    @field_validator("name")
    @classmethod
    def _a_free_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError("a name has letters, digits and _, a letter first")
        if value.lower() in TAKEN:
            raise ValueError("this is a name of the tables themselves; give it another one")
        return value

    @model_validator(mode="after")
    def _of_something(self) -> "FeatureColumnSettings":
        if self.of is None and self.agg not in ("count", "days_since_last"):
            raise ValueError(f"{self.name}: {self.agg} needs `of`: a column of the payload, or Spark SQL over them")
        return self


class FeatureSettings(Section):
    """The two trailing windows (days, the day itself included), the grace (hours) after midnight of the cut, the
    payload's columns that together name an entity, and the columns that are declared (none: the five built-in ones)."""

    entity: tuple[str, ...] = Field(default=("entity",), min_length=1)
    columns: tuple[FeatureColumnSettings, ...] = ()
    windows_days: tuple[PositiveDays, PositiveDays] = (7, 28)
    cutoff_grace_hours: int = Field(default=0, ge=0, le=24 * 365)

    @model_validator(mode="after")
    def _short_before_long(self) -> "FeatureSettings":
        if self.windows_days[0] > self.windows_days[1]:
            raise ValueError("windows_days: the short window comes first and may not exceed the long one")
        return self

    @model_validator(mode="after")
    def _names_once(self) -> "FeatureSettings":
        names = [name.lower() for name in (*self.entity, *(c.name for c in self.columns))]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} names more than one column of features; give each a name of its own")
        if self.columns and "windows_days" in self.model_fields_set:
            raise ValueError(
                "windows_days belongs to the built-in columns; each of [[features.columns]] has its `days`"
            )
        return self
