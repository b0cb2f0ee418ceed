"""What intake adds to a source in `lake.toml`: how its text files, and its keys, are written.

Not here: the other keys of a source, which the kernel reads, too (`kernel.tables.sections`), and
reading by a dialect (`intake.dialect`).
"""

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from backfill_assets.intake.dialect import Dialect
from backfill_assets.intake.paths import KeyDay
from backfill_assets.kernel.tables.sections import DeliveredSettings, SourceSettings


class LandedSource(SourceSettings):
    """A source with its `dialect`, where text files are no plain CSV or JSON lines in UTF-8, and
    with `key_day`, where each key names its event day, which never changes: ord-YYYYMMDD."""

    dialect: Dialect = Dialect()
    key_day: KeyDay | None = None

    @model_validator(mode="after")
    def _refuse_keys_of_others(self) -> Self:
        keys_of = {"csv": Dialect.model_fields.keys(), "jsonl": {"encoding"}}
        strange = sorted(self.dialect.declared.keys() - keys_of.get(self.format, set()))
        if strange:
            raise ValueError(f"dialect.{strange[0]}: files of {self.format} have none")
        return self


class LandedSettings(DeliveredSettings):
    """The sources of a lake, as intake reads them."""

    single: LandedSource | None = Field(default=None, alias="source")
    sources: Mapping[str, LandedSource] = Field(default_factory=dict)


def landed_source(source: SourceSettings) -> LandedSource:
    """Return a source of a lake's settings with what intake adds to it."""
    return source.of_room(LandedSource)
