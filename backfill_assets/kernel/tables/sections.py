"""Sections of `lake.toml` as models: sources, features, tables of others, retention, the engine.

Not here: reading the file and the other sections (`settings`), sections and keys that one room
alone reads (`settings` of the room), the types of a payload (`kernel.core.payload`).
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from backfill_assets.kernel.core.calendars import Calendar, Unit, parse_calendar
from backfill_assets.kernel.core.engines import OWN_SERVERS, PROJECT_SESSION
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import (
    DEFAULT_PAYLOAD,
    NAME,
    TAKEN,
    PayloadColumn,
    read_payload,
)

LAKE_FORMAT = 1  # of what a lake holds on the disk: the newest that this release knows
# Of a table, or of a source: it names a folder, an asset, and a table in SQL.
TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")
WINDOW_DAYS_MAX = 3650  # ten years: longer windows are a typing error
# Neither on a disk nor in a bucket.
NO_TABLE_ADDRESS = re.compile(r"(?!file:|(?:s3|az|gs):/)[a-z][a-z0-9+.-]*:|.*[*?]")
Days = Annotated[int, Field(strict=True, ge=0, le=WINDOW_DAYS_MAX)]
PositiveDays = Annotated[int, Field(strict=True, ge=1, le=WINDOW_DAYS_MAX)]
Text = Annotated[str, Field(min_length=1)]
Payload = Annotated[
    dict[str, str], AfterValidator(lambda declared: read_payload(declared) and declared)
]

RoomModel = TypeVar("RoomModel", bound=BaseModel)


class Section(BaseModel):
    """A section of `lake.toml`: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def of_room(self, model: type[RoomModel]) -> RoomModel:
        """Return this section as a room's model of it, whose further keys only that room reads.
        Raises TypeError where the section was made without the room (`settings.lake_model`)."""
        if not isinstance(self, model):
            raise TypeError(f"{type(self).__name__} was not made as {model.__name__}")
        return self


class SourceSettings(Section):
    """What a source delivers: landed files and their format, or a Delta table that others write.
    Further keys, and what fits together, are in `intake.settings`."""

    files: Text  # a glob; of a table its place
    format: Literal["parquet", "csv", "jsonl", "delta"]
    table: Text | None = None
    select: Text  # Spark SQL that maps the columns
    # Column -> Spark type, perhaps with NOT NULL; None: entity, value and flag.
    payload: Payload | None = None
    # Snapshot: the files of a day are the whole table as of then.
    kind: Literal["changes", "snapshot"] = "changes"

    @model_validator(mode="before")
    @classmethod
    def _read_table_as_files(cls, body: Any) -> Any:
        """The section with `files` and `format` where it names a table. Raises ValueError for one
        that names both, and for a name that is no place of a table."""
        if not isinstance(body, dict):
            return body
        if "table" not in body:
            if body.get("format") == "delta":
                raise ValueError(
                    'a Delta table is named by table = "PATH", without files and format'
                )
            return body
        table = body["table"]
        as_files = {"files": table, "format": "delta"}
        needless = [key for key, value in as_files.items() if body.get(key, value) != value]
        if needless:
            raise ValueError(f"a table needs no {' and no '.join(needless)}: leave it out")
        if NO_TABLE_ADDRESS.match(str(table)):
            raise ValueError(
                f"table = {table!r} is no path, no s3://…, az://…, gs://… and no SCHEMA.TABLE"
            )
        return {**body, **as_files}

    @property
    def payload_columns(self) -> tuple[PayloadColumn, ...]:
        """The payload's columns in their order, whether declared or not."""
        return DEFAULT_PAYLOAD if self.payload is None else read_payload(self.payload)


class DeliveredSettings(Section):
    """The first day and the sources: one in `[source]`, or several by `[sources.NAME]`.
    `assets_only`: there are none, the lake holds what assets of a Dagster project return."""

    start_date: date
    assets_only: bool = Field(default=False, strict=True)
    single: SourceSettings | None = Field(default=None, alias="source")
    sources: Mapping[str, SourceSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _refuse_two_namings(self) -> Self:
        """Raise ValueError unless exactly one of `assets_only`, [source] and [sources.NAME] is
        there, or a source's name has other signs."""
        if self.assets_only and self.delivered:
            raise ValueError(
                "a lake with assets_only = true loads no files: leave it out, or [source]"
            )
        what_is_meant = "[source] and [sources.NAME] say what is delivered"
        if self.single is not None and self.sources:
            raise ValueError(f"{what_is_meant}: leave one of them out")
        if not self.assets_only and not self.delivered:
            raise ValueError(f"{what_is_meant}: give one of them")
        for name in self.sources:
            if not TABLE_NAME.fullmatch(name):
                raise ValueError(
                    f"sources.{name}: a source's name has small letters, digits and _, a letter "
                    "first"
                )
        return self

    @property
    def source(self) -> SourceSettings:
        """The only source. Raises SettingsError in a lake with several."""
        if self.single is not None:
            return self.single
        culprit = f"it has several sources: {', '.join(self.sources)}"
        fix = "Name one of them"
        if not self.sources:
            culprit = "it has no source (assets_only = true)"
            fix = "Name a table that an asset makes"
        raise SettingsError("lake.toml", culprit, "Nothing was done", fix)

    @property
    def delivered(self) -> dict[str, SourceSettings]:
        """All sources by name; a lake's only one, of `[source]`, has the name ""."""
        return {"": self.single} if self.single is not None else dict(self.sources)

    def of_source(self, name: str) -> Self:
        """The settings as if this source were the only one; unchanged for ""."""
        if not name:
            return self
        return self.model_copy(update={"single": self.sources[name], "sources": {}})

    def payload_of(self, section: str, name: str | None) -> tuple[PayloadColumn, ...] | None:
        """The payload for a section that names this source; None if it must name one and does not.
        Raises ValueError for an unknown source."""
        if name is not None and name not in self.sources:
            known = ", ".join(self.sources) or "one, without a name: leave this out"
            raise ValueError(f"{section}.source: there is no source {name!r}; the lake has {known}")
        is_named = name is not None or len(self.delivered) == 1
        if not is_named:
            return None
        return self.delivered[self.choice(section, name)].payload_columns

    def choice(self, section: str, name: str | None) -> str:
        """The source of a section that names this one, or the only source. Raises SettingsError if
        it must name one."""
        if name is None and len(self.delivered) > 1:
            raise SettingsError(
                f"[{section}] in lake.toml",
                f"it does not say which of {', '.join(self.sources)} it is made from",
                "Nothing was done",
                f'Write source = "NAME" below [{section}]; for neither features nor labels, '
                'tables = "backfill_assets.pipeline.tables:delivered" below [pipeline]',
            )
        return next(iter(self.delivered)) if name is None else name


class FeatureColumnSettings(Section):
    """A declared feature: `agg` of `of` (Spark SQL over one event) over the `days` up to and
    including the day.

    Only events with a true `where` and an `of` that is not NULL count. `scale`: the decimals of a
    summed DOUBLE.
    """

    name: str
    agg: Literal[
        "count", "sum", "avg", "min", "max", "first", "last", "distinct", "days_since_last"
    ]
    of: Text | None = None
    where: Text | None = None
    days: PositiveDays
    scale: Annotated[int, Field(strict=True, ge=0, le=18)] = 9

    @field_validator("name")
    @classmethod
    def _refuse_taken_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError("a name has letters, digits and _, a letter first")
        if value.lower() in TAKEN:
            raise ValueError("this is a name of the tables themselves; give it another one")
        return value

    @model_validator(mode="after")
    def _refuse_missing_column(self) -> Self:
        if self.of is None and self.agg not in ("count", "days_since_last"):
            raise ValueError(
                f"{self.name}: {self.agg} needs `of`: a column of the payload, or Spark SQL over "
                "them"
            )
        return self


class FeatureSettings(Section):
    """Features: the built-in windows (days, the day included), the grace (hours) of the cut,
    entity, declared columns.

    `entity`: the columns of the payload that together name one. `columns`: none means the built-in
    ones. `source` names the source of features in a lake with several. `by_day_first`: helps where
    one entity has most events.
    """

    entity: tuple[str, ...] = Field(default=("entity",), min_length=1)
    columns: tuple[FeatureColumnSettings, ...] = ()
    windows_days: tuple[PositiveDays, PositiveDays] = (7, 28)
    cutoff_grace_hours: int = Field(default=0, ge=0, le=24 * 365)
    source: str | None = None
    by_day_first: bool = False

    @property
    def grouping(self) -> dict[str, Any]:
        """How features and labels group staging, as arguments of an `Input`: rows without an entity
        leave at once."""
        return {
            "by": self.entity,
            "isolate_nulls": True,
            "finer": ("event_date",) if self.by_day_first else (),
        }

    @model_validator(mode="after")
    def _refuse_crossed_windows(self) -> Self:
        """Raise ValueError for windows in the wrong order, two columns of one name, and windows
        beside declared columns, on which they have no effect."""
        if self.windows_days[0] > self.windows_days[1]:
            raise ValueError(
                "windows_days: the short window comes first and may not exceed the long one"
            )
        declared = [column.name for column in self.columns]
        names = Counter(name.lower() for name in (*self.entity, *declared))
        twice = sorted(name for name, count in names.items() if count > 1)
        if twice:
            raise ValueError(
                f"{', '.join(twice)} names more than one column of features; give each a name of "
                "its own"
            )
        if self.columns and "windows_days" in self.model_fields_set:
            raise ValueError(
                "windows_days belongs to the built-in columns; each of [[features.columns]] has "
                "its `days`"
            )
        return self


class TableSettings(Section):
    """A daily Delta table that others write, as an input of the lake's tables; or one that the lake
    adopted; or the partitions of an own table."""

    # Its folder, relative to lake.toml, its address in a bucket, or its name in a catalog.
    external: str = ""
    day: str = ""  # its column with the day, a DATE
    description: str = ""
    others_may_write: bool = Field(default=False, strict=True)  # an adopted one
    place: str = ""  # of an adopted one in a bucket: its address, as `adopt` says
    # Of an own table: what each of its partitions covers, as `parse_calendar` reads it.
    every: str = ""
    without: tuple[Text, ...] = ()  # weekdays, and dates, that are no partitions of it

    @property
    def is_of_others(self) -> bool:
        """Whether others write the table, so that it is no table of the lake's."""
        return bool(self.external) or not (self.others_may_write or self.place or self.calendar)

    @property
    def calendar(self) -> Calendar | None:
        """The partitions of an own table; None where nothing is said of them."""
        if not (self.every or self.without):
            return None
        return parse_calendar(self.every or Unit.DAY, self.without)

    @model_validator(mode="after")
    def _refuse_calendar(self) -> Self:
        """Raise ValueError for a calendar that cannot be."""
        _ = self.calendar
        return self


class RetentionSettings(Section):
    """How long (days) replaced data files stay restorable."""

    rollback_days: PositiveDays = 90


class SparkSettings(Section):
    """The engine: one of OWN_SERVERS, an `sc://` address or a master URL; its heap, cores (0 =
    all), idle minutes, and `confs` (those of `spark.sql.` count as settings of every table).
    `open_port`: other users may reach a server without a token. `session`: MODULE:FUNCTION that
    returns the project's own session, for engine "session". `trust_jars`: SHA-256 of the jars of a
    Delta whose checksums the package does not know."""

    engine: str = "embedded"
    memory: str = Field(default="2g", pattern=r"^[1-9]\d*[mgMG]$")
    cores: int = Field(default=0, ge=0, le=4096)
    idle_minutes: float = Field(default=10, gt=0, le=60 * 24)
    confs: dict[str, str] = Field(default_factory=dict)
    open_port: bool = Field(default=False, strict=True)
    trust_jars: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    session: str | None = Field(default=None, pattern=r"^[\w.]+:[A-Za-z_]\w*$")

    @model_validator(mode="after")
    def _refuse_session_mismatch(self) -> Self:
        """Raise ValueError for a project's own session without its function, a function for another
        engine, and `confs`, which a project's session does not get."""
        wants_session = self.engine == PROJECT_SESSION
        has_session = self.session is not None
        if wants_session != has_session:
            raise ValueError('engine = "session" and session = "MODULE:FUNCTION" stand together')
        if self.session and self.confs:
            raise ValueError(
                "confs has no effect on a session of your own: configure it where it is made"
            )
        return self

    @field_validator("engine")
    @classmethod
    def _refuse_unknown_engine(cls, value: str) -> str:
        """Raise ValueError for what is no engine of ours and no address or master URL of
        Spark's."""
        is_sparks = re.match(r"^(sc://|local(\[|$)|local-cluster\[|spark://|yarn$|k8s://)", value)
        if value not in (*OWN_SERVERS, PROJECT_SESSION) and not is_sparks:
            own = ", ".join(f"`{name}`" for name in (*OWN_SERVERS, PROJECT_SESSION))
            raise ValueError(
                f"engine is {own}, an sc:// address, or a master URL such as local[4] or "
                "spark://host:7077"
            )
        return value


def refuse_newer_format(lake: str, body: Mapping[str, Any]) -> None:
    """Raise SettingsError if the file says that the lake has a format of a later release."""
    number = body.get("lake_format")
    if isinstance(number, int) and number > LAKE_FORMAT:
        raise SettingsError(
            f"the lake {lake}",
            f"a newer release of backfill-assets wrote it: its lake_format is {number}, and this "
            "release knows "
            f"{LAKE_FORMAT}",
            "Nothing was read or written",
            "Upgrade backfill-assets; do not lower the number by hand",
        )
