"""What `foreign` adds to `[access]` in `lake.toml`: the schema in which tables get their names.

Not here: giving the names (`foreign.catalog`), and the other keys of `[access]`
(`kernel.tables.settings`).
"""

from pydantic import Field

from backfill_assets.kernel.tables.sections import Section
from backfill_assets.kernel.tables.settings import AccessSettings, LakeSettings


class CatalogAccess(AccessSettings):
    """`register_in`: the schema (`SCHEMA` or `CATALOG.SCHEMA`) of the session's catalog in which a
    table gets its name with its first commit."""

    register_in: str | None = Field(default=None, pattern=r"^\w+(\.\w+)?$")


class ForeignSettings(Section):
    """The section of a lake's settings to which `foreign` adds a key."""

    access: CatalogAccess = CatalogAccess()


def registered_schema(settings: LakeSettings) -> str | None:
    """Return the schema in which new tables get their names; None where they get none."""
    return settings.access.of_room(CatalogAccess).register_in
