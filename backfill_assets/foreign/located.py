"""Tables of others by their names in the catalog of a session: where they lie, and whether the lake
still reads there.

Not here: the record of it, which all readers find without an engine (`declared`), and names of the
lake's own tables (`catalog`). A catalog that does not answer, and a name that is gone, stand in
nobody's way: the recorded place counts.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.assets.declared import catalog_places
from backfill_assets.engines.loss import is_engine_loss
from backfill_assets.kernel.core.addresses import SCHEMES, table_address
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.tables.embedded import is_delta, why_not_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Begins the line of a description that ends the columns, which may have any names.
DETAILS_HEADING = "# Detailed"


def quoted_name(name: str) -> str:
    """A name in a catalog as statements write it."""
    return ".".join(f"`{part}`" for part in name.split("."))


def catalog_description(session: "SparkSession", name: str) -> dict[str, str]:
    """What the session's catalog says of a table, by Spark's words: Location, Provider, …"""
    found = session.sql(f"DESCRIBE TABLE EXTENDED {quoted_name(name)}").collect()
    rows = [(str(row[0]), str(row[1])) for row in found]
    begins = [number for number, (word, _) in enumerate(rows) if word.startswith(DETAILS_HEADING)]
    return dict(rows[begins[0] :] if begins else rows)


def place_in_catalog(session: "SparkSession", name: str) -> str:
    """The folder, or the address in a bucket, of a Delta table by its name in the session's
    catalog. Raises BackfillError for a name of nothing or of anything else, and for a table that
    this machine does not read."""
    location = _delta_location(session, name)
    plain = re.sub(r"^s3[an]:", "s3:", re.sub(r"^file:/*", "/", location)).rstrip("/")
    if not plain.startswith(("/", *(f"{scheme}://" for scheme in SCHEMES))):
        fix = (
            "Write its address as s3://…, az://CONTAINER/… or gs://… for the name, or have its "
            "owner keep it at one"
        )
        raise _catalog_name_error(
            name, f"it lies at {location}, by which nothing but its engine reads it", fix
        )
    there = place_of_others(table_address(plain, Path("/"), f"the table {name}") or plain)
    if not is_delta(there):
        fix = (
            "Let this machine reach what its engine reads (`backfill-assets guide buckets`), or "
            "name another table"
        )
        why, _ = why_not_delta(there)
        culprit = f"its catalog says {location}, and for this machine {why}"
        raise _catalog_name_error(name, culprit, fix)
    return there.uri() if there.is_store else plain


def _delta_location(session: "SparkSession", name: str) -> str:
    """Where the session's catalog says that a Delta table lies, in its words. Raises BackfillError
    for a name of nothing, and of anything else."""
    from pyspark.errors import PySparkException

    fix = (
        "Correct the name, work with the Spark whose catalog has it, or write the table's path or "
        "address"
    )
    try:
        # Asked first: pyspark prints what `sql` raises.
        if not session.catalog.tableExists(quoted_name(name)):
            raise _catalog_name_error(
                name, "the catalog of the session has no table of that name", fix
            )
        found = catalog_description(session, name)
    except PySparkException as error:
        if is_engine_loss(error):
            raise
        raise _catalog_name_error(name, str(error).strip().splitlines()[0], fix) from error
    location = found.get("Location", "")
    provider = found.get("Provider", "hive").lower()
    if not location:
        raise _catalog_name_error(
            name, "it is a view, or nothing that lies anywhere", "Name the table that it reads"
        )
    if provider != "delta":
        fix = "Have its owner write it as Delta, or its rows as Parquet files: [source] files = …"
        raise _catalog_name_error(
            name, f"it is a table of {provider}, and only those of Delta are read by name", fix
        )
    return location


@lru_cache(maxsize=4)
def refuse_moved_names(session: "SparkSession", root: Path) -> None:
    """Raise SettingsError where a name that the lake at `root` reads a table by leads to another
    table that can be read in the session's catalog; asked once for a session."""
    for name, place in catalog_places(root).items():
        try:
            found = place_in_catalog(session, name)
        except (BackfillError, OSError):
            continue
        if found != place:
            raise SettingsError(
                f"the table {name}",
                f"its name leads to {found} now, and the lake reads {place}",
                "Nothing was run",
                f"`backfill-assets locate {name}` lets the lake follow it; to stay, write {place} "
                "for the name before",
            )


def _catalog_name_error(name: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the table {name}", culprit, "Nothing was recorded", fix)
