"""Names in the catalog of the session that works on a lake (Hive, Glue, Unity as Spark knows them):
of its tables, and of tables of others that it reads.

Not here: where such a name leads (`located`), and commits, in which no catalog takes part. A name
leads to the folder of a table: who reads by it sees the newest version, and nothing needs to be
told of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_assets.assets.declared import catalog_places, record_catalog_place
from backfill_assets.engines.engine_paths import hadoop_address
from backfill_assets.foreign.located import catalog_description, place_in_catalog, quoted_name
from backfill_assets.foreign.settings import registered_schema
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_MEMORY, DELTA = "in-memory", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
SPARKS_CATALOG = "spark_catalog"  # what Spark calls its own
NOT_NAMED = "It got no name; the table is as it was"


@dataclass(frozen=True)
class NamedTable:
    """A table that has a name in a catalog."""

    table: str  # of the lake
    name: str  # in the catalog, with its schema
    location: str  # as Spark writes it
    is_new: bool  # it got the name now

    def __str__(self) -> str:
        return f"{'registered' if self.is_new else 'known     '} {self.name}: {self.location}"


def locate_table(lake_session: Session, name: str) -> tuple[str, str]:
    """Record in the lake where a name in the session's catalog leads, a folder or an address in a
    bucket, which all its readers follow from then on. Returns that, and what was recorded before
    ("": nothing).

    Raises SettingsError for an engine whose catalog knows no table of others, BackfillError as
    `place_in_catalog`; then what was recorded stays.
    """
    if engine := lake_session.own_server:
        raise SettingsError(
            f'[spark] engine = "{engine}" in lake.toml',
            "its catalog is in memory, and has no table of others",
            "Nothing was recorded",
            f"Write the table's path or address in place of {name} (`DESCRIBE DETAIL {name}` "
            'tells it there), or work with the Spark that has it: engine = "sc://…" or session = '
            '"MODULE:FUNCTION"',
        )
    root = lake_session.lake.root
    place = place_in_catalog(lake_session.for_reading(), name)
    before = catalog_places(root).get(name, "")
    record_catalog_place(root, name, place)
    return place, before


def location_of(uri: str) -> str:
    """The place of a table as statements of Spark name it."""
    return hadoop_address(unquote(uri))


def register_tables(
    lake_session: Session, tables: Sequence[str], schema: str
) -> tuple[list[NamedTable], list[BackfillError]]:
    """Give each of these tables its name in a schema (`NAME` or `CATALOG.NAME`, which exists) of
    the session's catalog; and an error for each that cannot have it, as where another table has the
    name.

    Raises SettingsError for an engine whose catalog is gone with its server, so that no reader
    would find a name.
    """
    if engine := lake_session.own_server:
        raise _lost_catalog_error(f'[spark] engine = "{engine}"')
    session = lake_session.for_reading()
    if not _has_lasting_names(session, schema):
        raise _lost_catalog_error("the catalog of the session")
    named, failed = list[NamedTable](), list[BackfillError]()
    for table in tables:
        try:
            location = location_of(lake_session.lake.table_uri(table))
            named.append(_register_table(session, table, schema, location))
        except BackfillError as error:
            failed.append(error)
    return named, failed


def register_new_table(lake_session: Session, table: str, before: int) -> str:
    """Register a table that had the version `before` its commit, if that was its first one and the
    settings name a schema. Registers no table of a candidate, whose settings are a copy of the
    lake's: who reads by the name reads what is published. Returns a warning of what was not done
    ("": nothing is amiss): the commit stands, whatever a catalog says."""
    schema = registered_schema(lake_session.lake.settings)
    is_candidate = lake_session.lake.shared is not None
    if schema is None or exists_at(before) or is_candidate:
        return ""
    try:
        _, failed = register_tables(lake_session, [table], schema)
    except Exception as error:  # noqa: BLE001  # of a catalog, or on the way to it
        return f"{table} got no name in {schema}, `backfill-assets register` tries again: {error}"
    return str(failed[0]) if failed else ""


def _register_table(session: "SparkSession", table: str, schema: str, location: str) -> NamedTable:
    """Give a table its name in the schema, unless it has it. Raises BackfillError where the catalog
    refuses, and where the name leads to another place than `location`."""
    from pyspark.errors import PySparkException

    name = f"{schema}.{table}"
    try:
        is_new = not session.catalog.tableExists(quoted_name(name))
        if is_new:
            literal = location.replace("\\", "\\\\").replace("'", "\\'")
            session.sql(
                f"CREATE TABLE IF NOT EXISTS {quoted_name(name)} USING delta LOCATION '{literal}'"
            ).collect()
        found = catalog_description(session, name)
    except PySparkException as error:
        why = str(error).strip().splitlines()[0]
        raise BackfillError(
            f"the name {name}", why, NOT_NAMED, f"Create the schema {schema}, and see its rights"
        ) from error
    there = found.get("Location", "a view, or nothing that lies anywhere")
    if _comparable_place(there) != _comparable_place(location):
        fix = "Name another schema, or drop that name if nobody needs it"
        raise BackfillError(
            f"the name {name}", f"it belongs to another table: {there}", NOT_NAMED, fix
        )
    return NamedTable(table, name, location, is_new)


def _has_lasting_names(session: "SparkSession", schema: str) -> bool:
    """Whether names in the schema are still there when the session's server is not."""
    default = _conf_value(session, "spark.sql.defaultCatalog") or SPARKS_CATALOG
    catalog = schema.rpartition(".")[0] or default
    by = _conf_value(session, f"spark.sql.catalog.{catalog}")
    is_sparks = catalog == SPARKS_CATALOG and by in ("", DELTA)
    if not is_sparks:
        return bool(by)
    return _conf_value(session, "spark.sql.catalogImplementation") not in ("", IN_MEMORY)


def _conf_value(session: "SparkSession", key: str) -> str:
    found: Any = session.conf.get(key, "")
    return str(found or "")


def _comparable_place(location: str) -> str:
    """An address by which equal places are equal texts."""
    scheme, _, path = unquote(location).rstrip("/").partition(":")
    if not path:
        return str(Path("/" + scheme.lstrip("/")).resolve())
    if scheme == "file":
        return str(Path("/" + path.lstrip("/")).resolve())
    if scheme in ("s3a", "s3n"):
        scheme = "s3"
    return f"{scheme}:{path}"


def _lost_catalog_error(culprit: str) -> SettingsError:
    return SettingsError(
        f"{culprit} in lake.toml" if culprit.startswith("[") else culprit,
        "its names are kept in the memory of a server and gone with it",
        "No name was given",
        'Work with the Spark whose catalog your readers have: engine = "sc://…" or session = '
        '"MODULE:FUNCTION"; '
        "`backfill-assets attach` prints statements that they can run themselves",
    )
