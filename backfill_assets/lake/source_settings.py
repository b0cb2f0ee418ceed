"""The sections of `lake.toml` that say what is delivered and what is made of it: `[source]` and `[features]`.

Lives here: their keys, bounds and defaults, and the base of all sections. Does not live here: reading the file and the
other sections (`settings`), the meaning of a payload's words (`core.payload`), and of `select` (`landing.select`).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from backfill_assets.core.payload import DEFAULT_PAYLOAD, PayloadColumn, read_payload

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


class FeatureSettings(Section):
    """The two trailing windows (days, the day itself included), the grace (hours) after midnight of the cut, and the
    payload's columns that together name an entity."""

    entity: tuple[str, ...] = Field(default=("entity",), min_length=1)
    windows_days: tuple[PositiveDays, PositiveDays] = (7, 28)
    cutoff_grace_hours: int = Field(default=0, ge=0, le=24 * 365)

    @model_validator(mode="after")
    def _short_before_long(self) -> "FeatureSettings":
        if self.windows_days[0] > self.windows_days[1]:
            raise ValueError("windows_days: the short window comes first and may not exceed the long one")
        return self
