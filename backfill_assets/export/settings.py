"""Section `[exports.NAME]` of `lake.toml`: places that get the days of a table.

Not here: bringing the days there (`export.export_days`).
"""

from collections.abc import Mapping

from pydantic import Field

from backfill_assets.kernel.tables.sections import Section, Text
from backfill_assets.kernel.tables.settings import LakeSettings


class ExportSettings(Section):
    """A place that gets the days of a table: `to` is a folder (relative to lake.toml), s3://…, or
    postgresql://…#TABLE."""

    table: Text
    to: Text


class ExportsSettings(Section):
    """The section that `export` adds to the settings of a lake."""

    exports: Mapping[str, ExportSettings] = Field(default_factory=dict)


def exports_of(settings: LakeSettings) -> Mapping[str, ExportSettings]:
    """Return the declared exports of a lake by their names."""
    return settings.of_room(ExportsSettings).exports


def export_places(settings: LakeSettings) -> list[str]:
    """Return the folders, addresses and databases that get days of the lake."""
    return [declared.to for declared in exports_of(settings).values()]
