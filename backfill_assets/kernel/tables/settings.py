"""The settings of a lake: one file, `LAKE/lake.toml`, overridden by environment variables.

The kernel's sections and those of rooms become one model (`lake_model`). Not here: the keys of
deliveries and features (`sections`), sections that one room alone reads (`settings` of the room),
the text of a new file (`learn.new_lake`), and secrets, which no file holds.
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import refuse_foreign_lake
from backfill_assets.kernel.core.payload import PayloadColumn, entity_misfit
from backfill_assets.kernel.core.rooms import (
    Room,
    added_by_rooms,
    installed_rooms,
    resolve_reference,
)
from backfill_assets.kernel.core.texts import refusal_reason, shown_setting
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.gate_bounds import GateSettings
from backfill_assets.kernel.tables.sections import (
    LAKE_FORMAT,
    Days,
    DeliveredSettings,
    FeatureSettings,
    PositiveDays,
    RetentionSettings,
    Section,
    SparkSettings,
    TableSettings,
    Text,
    refuse_newer_format,
)

FILE_NAME = "lake.toml"
SettingsCompleter = Callable[[Path, dict[str, Any]], dict[str, Any]]
ENV_PREFIX = "BACKFILL_ASSETS__"  # e.g. BACKFILL_ASSETS__SPARK__MEMORY=4g
REMOVED_SETTINGS = {
    "plan.window": "hours of plans are gone: take it out, and start plans by cron "
    "(`backfill-assets guide plans`)",
    "retention.log_days": "commits stay in the log for ever: take it out",
}


class LabelSettings(Section):
    """The measure that is summed over the horizon (d, d + horizon], the rule of the label, and its
    maturity.

    `label` replaces `measure` and `rule`: an expression of aggregates ahead and behind, e.g.
    count_ahead() > 0. `source` names the source of labels in a lake with several.
    """

    measure: Literal["events", "flag", "value"] = "events"
    rule: Literal["any", "rise"] = "any"
    horizon_days: PositiveDays = 7
    maturity_days: Days = 7
    label: Text | None = None
    source: str | None = None

    @model_validator(mode="after")
    def _refuse_two_labels(self) -> Self:
        """Raise ValueError for a measure or rule beside `label`, which replaces both."""
        if self.label is None:
            return self
        beside = sorted({"measure", "rule"} & self.model_fields_set)
        if beside:
            raise ValueError(
                f"{' and '.join(beside)} has no effect beside `label`: leave one of them out"
            )
        return self


class LatenessSettings(Section):
    """Late and early deliveries, and what the sensor `late_data` does about them.

    `early_tolerance_days`: a delivery may arrive this long before its event; one that arrives
    earlier is quarantined. `beyond`: deliveries more than `window_days` after their event are
    applied, or kept apart in `too_late`. The schedule `rolling_reprocess` rebuilds the last
    `rolling_days` days but the newest `delay_days`. `watermark_share`: the share of a day's rows
    that must be expected to have arrived before the watermark passes it.
    """

    early_tolerance_days: Days = 1
    beyond: Literal["apply", "quarantine"] = "apply"
    window_days: PositiveDays | None = None
    watermark_share: float = Field(default=0.99, gt=0, lt=1)
    policy: Literal["exact"] = "exact"  # of lakes made by versions that knew another one
    rolling_days: PositiveDays = 7
    delay_days: Days = 2
    dry_run: bool = Field(default=False, strict=True)
    runs_per_tick: int = Field(default=8, ge=1, le=1000)
    runs_per_day: int = Field(default=500, ge=1, le=100_000)
    attempts: int = Field(default=3, ge=1, le=100)

    @model_validator(mode="after")
    def _require_window(self) -> Self:
        if self.beyond != "apply" and self.window_days is None:
            raise ValueError('beyond = "quarantine" needs window_days: how late is too late')
        if self.beyond == "apply" and self.window_days is not None:
            raise ValueError('window_days has no effect unless beyond = "quarantine"')
        return self


class AccessSettings(Section):
    """The users of this machine who may read new files of the lake."""

    readers: Literal["owner", "group", "everyone"] = "owner"

    @property
    def umask(self) -> int:
        """The permission bits that files and folders do not get."""
        return {"owner": 0o077, "group": 0o027, "everyone": 0o022}[self.readers]


class PipelineSettings(Section):
    """The tables of the lake: `FILE.py:NAME` beside `lake.toml` or `MODULE:NAME` (None: the
    built-in); `sql`: a glob, relative to `lake.toml`, of further tables written as SQL.
    `definitions`: of the Dagster project whose assets return tables of the lake, for commands:
    `MODULE`, `MODULE:NAME` or `FILE.py:NAME` (without a name: defs)."""

    tables: str | None = Field(default=None, pattern=r"^[\w./-]+:[A-Za-z_]\w*$")
    sql: Text | None = None
    definitions: str | None = Field(default=None, pattern=r"^[\w./-]+(:[A-Za-z_]\w*)?$")


class LakeSettings(DeliveredSettings):
    """The sections of `lake.toml` that the kernel, or more than one room, reads; `lake_model` has
    those of each room, too. `as_of` (aware): later deliveries are not loaded. `lake_format`: that
    of all its files."""

    lake_format: int = Field(default=1, strict=True, ge=1, le=LAKE_FORMAT)
    as_of: datetime | None = None
    features: FeatureSettings = FeatureSettings()
    labels: LabelSettings = LabelSettings()
    lateness: LatenessSettings = LatenessSettings()
    gates: GateSettings = GateSettings()
    spark: SparkSettings = SparkSettings()
    retention: RetentionSettings = RetentionSettings()
    access: AccessSettings = AccessSettings()
    pipeline: PipelineSettings = PipelineSettings()
    tables: dict[str, TableSettings] = Field(default_factory=dict)

    @field_validator("start_date", mode="before")
    @classmethod
    def _parse_start_date(cls, value: object) -> object:
        if isinstance(value, datetime):
            raise ValueError("start_date is a day, without a time")
        return value

    @field_validator("as_of", mode="before")
    @classmethod
    def _parse_instant(cls, value: object) -> object:
        if isinstance(value, int | float):
            raise ValueError("as_of is a time such as 2015-04-01T00:00:00Z, not a number")
        return value

    @field_validator("as_of")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        if value is None:
            return None
        is_aware = value.tzinfo is not None
        return value.astimezone(UTC) if is_aware else value.replace(tzinfo=UTC)

    @model_validator(mode="after")
    def _refuse_unknown_sources(self) -> Self:
        """Raise ValueError where features or labels name a source that the lake lacks, or an entity
        that its payload cannot give or gives in two types, and for dumps with late rows set
        aside."""
        payloads = self._chosen_payloads()
        for section, payload in payloads.items():
            misfit = entity_misfit(self.features.entity, payload)
            if misfit and self.sources:
                raise ValueError(f"features.entity: {misfit} (for [{section}])")
            if misfit:
                raise ValueError(f"features.entity: {misfit}")
        has_dumps = any(source.kind == "snapshot" for source in self.delivered.values())
        if has_dumps and self.lateness.beyond != "apply":
            raise ValueError(
                'lateness.beyond = "quarantine" sets rows aside, and a dump is whole: leave it out'
            )
        types = [{c.name: c.type for c in payload} for payload in payloads.values()]
        for column in self.features.entity:
            types_of_column = [type_of[column] for type_of in types]
            if len({*types_of_column}) > 1:
                both = " and ".join(types_of_column)
                raise ValueError(f"features.entity: {column} is {both} in two sources")
        return self

    def _chosen_payloads(self) -> dict[str, tuple[PayloadColumn, ...]]:
        """The payloads of the sources of features and of labels, by section; without a section
        that must name its source and does not."""
        chosen = {"features": self.features.source, "labels": self.labels.source}
        found = {section: self.payload_of(section, name) for section, name in chosen.items()}
        return {section: payload for section, payload in found.items() if payload is not None}

    def source_of(self, section: Literal["features", "labels"]) -> str:
        """The name of the source of a section's built-in tables. Raises SettingsError if the
        section must name one."""
        return self.choice(section, getattr(self, section).source)

    @property
    def grace(self) -> timedelta:
        """The time after midnight at which a day's cut lies."""
        return timedelta(hours=self.features.cutoff_grace_hours)


@cache
def lake_model() -> type[LakeSettings]:
    """Return the model of all of `lake.toml` in this installation."""
    return model_with(installed_rooms())


def model_with(present: Iterable[Room]) -> type[LakeSettings]:
    """Make a model of the kernel's sections and those of these rooms (`Room.settings`). A section
    of a room that is left out is an unknown one."""
    of_rooms = [resolve_reference(room.settings) for room in present if room.settings]
    return create_model("LakeSettings", __base__=(*of_rooms, LakeSettings))


def is_lake(folder: Path) -> bool:
    """Whether a lake's folder, or its place in a bucket, has a `lake.toml`."""
    return place_at(folder).exists(FILE_NAME)


def load_settings(lake: Path, environ: Mapping[str, str] | None = None) -> LakeSettings:
    """The settings of a lake. Raises SettingsError for another user's lake, and naming every bad
    value."""
    refuse_foreign_lake(lake)
    path = f"{address_of(lake)}/{FILE_NAME}"
    try:
        body: dict[str, Any] = tomllib.loads(place_at(lake).read(FILE_NAME).decode("utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(
            f"the lake {address_of(lake)}",
            f"it has no {FILE_NAME}",
            "Nothing was done",
            "Make one with `backfill-assets init`, or a sample with `backfill-assets demo`",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            path, f"it is not TOML ({error})", "Nothing was done", "Correct the file"
        ) from None
    refuse_newer_format(address_of(lake), body)
    variables = _apply_environment(path, body, os.environ if environ is None else environ)
    try:
        return lake_model().model_validate(_completed_by_rooms(lake, body))
    except ValidationError as error:
        refusals = "; ".join(_explained_refusal(e, variables) for e in error.errors())
        fix = "Correct these values (`backfill-assets init` writes a commented example)"
        raise SettingsError(path, refusals, "Nothing was done", fix) from None


def _completed_by_rooms(lake: Path, body: dict[str, Any]) -> dict[str, Any]:
    """The settings with what rooms know beside the file, such as tables that assets declared."""
    completing: tuple[SettingsCompleter, ...] = added_by_rooms("completes_settings")
    for complete in completing:
        body = complete(lake, body)
    return body


def _apply_environment(
    path: str, body: dict[str, Any], environ: Mapping[str, str]
) -> dict[tuple[str, ...], str]:
    """Put the environment's values over the file's; return the variable of each overridden key."""
    variables = {}
    for name, value in sorted(environ.items()):
        if not name.startswith(ENV_PREFIX):
            continue
        keys = tuple(name[len(ENV_PREFIX) :].lower().split("__"))
        target = body
        for key in keys[:-1]:
            target = target.setdefault(key, {})
            if not isinstance(target, dict):
                culprit = f"${name} lies below {key}, which is a value and no section"
                raise SettingsError(
                    path, culprit, "Nothing was done", "Correct the name of the variable"
                )
        target[keys[-1]] = _value_in_toml(value)
        variables[keys] = name
    return variables


def _value_in_toml(text: str) -> Any:
    """A number, a date or a list as TOML writes it; every other text as it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explained_refusal(error: Any, variables: Mapping[tuple[str, ...], str]) -> str:
    """One refusal of pydantic in a line: the key, the variable it came from, why, and the value."""
    keys = tuple(str(k) for k in error["loc"])
    if not keys:  # about several keys, which the text names
        return refusal_reason(error)
    named = ".".join(keys)
    variable = _variable_over(keys, variables)
    where = f"{named} (from ${variable})" if variable else named
    if error["type"] == "extra_forbidden":
        why = REMOVED_SETTINGS.get(named) or f"there is no such setting{_similar_key(keys)}"
        return f"{where}: {why}"
    if error["type"] == "missing":
        return f"{where}: {refusal_reason(error)}"
    value = error.get("input")
    shown = shown_setting(keys[-1], value)
    if isinstance(value, str):
        shown = json.dumps(shown)
    return f"{where}: {refusal_reason(error)}, got {shown}"


def _variable_over(keys: tuple[str, ...], variables: Mapping[tuple[str, ...], str]) -> str:
    """The environment variable that gave this key, a section around it or a key within; "" where
    the file did."""
    for overridden, name in variables.items():
        shared = min(len(keys), len(overridden))
        if keys[:shared] == overridden[:shared]:
            return name
    return ""


def _similar_key(keys: tuple[str, ...]) -> str:
    """Suggest the known key most like a mistyped one, as a question; empty if none is alike."""
    model: Any = lake_model()
    for key in keys[:-1]:
        model = getattr(getattr(model, "model_fields", {}).get(key), "annotation", None)
    alike = get_close_matches(keys[-1], getattr(model, "model_fields", {}), 1)
    return f" (did you mean {alike[0]}?)" if alike else ""
