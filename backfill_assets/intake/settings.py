"""What intake adds to a source in `lake.toml`: how its files and keys are written and read.

Not here: the other keys of a source, which the kernel reads, too (`kernel.tables.sections`), and
reading by a dialect (`intake.dialect`).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from backfill_assets.intake.dialect import Dialect
from backfill_assets.intake.paths import KeyDay
from backfill_assets.kernel.core.payload import CLOCKS, PayloadColumn, log_columns
from backfill_assets.kernel.tables.sections import DeliveredSettings, SourceSettings


class LandedSource(SourceSettings):
    """A source with all its keys. Some have an effect on one kind of source only, and are refused
    on the others."""

    # How text files are written, where they are no plain CSV or JSON lines in UTF-8.
    dialect: Dialect = Dialect()
    # Where each key names its event day, which never changes: ord-YYYYMMDD.
    key_day: KeyDay | None = None
    # Of a table: what it holds then comes at once.
    first_version: Annotated[int, Field(strict=True, ge=0)] = 0
    # Parquet stays where it is; a number: files of at least so many bytes.
    in_place: bool | Annotated[int, Field(strict=True, ge=1)] = False
    # The share of a dump's keys that a whole next one may lack.
    max_vanished_share: float = Field(default=0.2, ge=0, le=1)

    @model_validator(mode="after")
    def _refuse_misfits_of_tables(self) -> Self:
        """Raise ValueError for keys of a table without one, and names that raw has of its own."""
        if self.first_version and self.table is None:
            raise ValueError("first_version is of a table")
        if self.table is None:
            return self
        taken = {c.name.lower() for c in self.payload_columns} & {*log_columns(CLOCKS)}
        if taken:
            raise ValueError(
                f"payload: {min(taken)} is a name of raw itself, over a table; give it another one"
            )
        return self

    @model_validator(mode="after")
    def _refuse_misfits_of_files(self) -> Self:
        """Raise ValueError for keys that have no effect on files of this kind and format."""
        if self.kind == "changes" and "max_vanished_share" in self.model_fields_set:
            raise ValueError('max_vanished_share has no effect unless kind = "snapshot"')
        if self.kind == "snapshot" and self.format == "delta":
            raise ValueError('kind = "snapshot" is of files: versions of a table are changes')
        if self.in_place and self.format != "parquet":
            raise ValueError(
                f"in_place is of Parquet: of files of {self.format} a parsed copy is read"
            )
        keys_of = {"csv": Dialect.model_fields.keys(), "jsonl": {"encoding"}}
        strange = self.dialect.declared.keys() - keys_of.get(self.format, set())
        if strange:
            raise ValueError(f"dialect.{min(strange)}: files of {self.format} have none")
        return self


class LandedSettings(DeliveredSettings):
    """The sources of a lake, as intake reads them."""

    single: LandedSource | None = Field(default=None, alias="source")
    sources: Mapping[str, LandedSource] = Field(default_factory=dict)


def landed_source(source: SourceSettings) -> LandedSource:
    """Return a source of a lake's settings with what intake adds to it."""
    return source.of_room(LandedSource)


def payload_values(payload: Iterable[PayloadColumn]) -> list[list[str | bool]]:
    """The payload as plain values, for digests of settings."""
    return [[c.name, c.type, c.nullable] for c in payload]
