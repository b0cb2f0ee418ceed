"""`backfill-assets locate` and `register`: tables by the names of a catalog.

Not here: asking a catalog (`catalog`).
"""

from collections.abc import Sequence
from typing import TypedDict

import click

from backfill_assets.cli.common import (
    TEXT,
    json_and_lake,
    named_lake,
    opened_lake,
)
from backfill_assets.cli.output import write_answer
from backfill_assets.foreign.catalog import NamedTable
from backfill_assets.foreign.settings import registered_schema
from backfill_assets.kernel.core.addresses import CATALOG_NAME
from backfill_assets.kernel.core.errors import raise_first_error


class RegisterAnswer(TypedDict):
    """The tables that have a name in a schema of a catalog."""

    schema: str
    tables: Sequence[NamedTable]


class LocateAnswer(TypedDict):
    """Where a catalog has a table of others now, and had it before ("": nowhere)."""

    name: str
    place: str
    before: str


@click.command()
@click.option(
    "--schema",
    metavar="NAME",
    type=TEXT,
    help="SCHEMA or CATALOG.SCHEMA; else register_in of lake.toml.",
)
@json_and_lake
def register(schema: str | None) -> None:
    """Give each table of the lake its name in the catalog of the lake's Spark: Hive, Glue, Unity as
    it knows them.

    Who reads by the name sees the newest version. A name that belongs to another table is refused,
    the others get theirs. With register_in below [access] in lake.toml a table gets its name with
    its first commit; a catalog that fails then is a warning, and this command tries again.
    """
    from backfill_assets.engines.lake_session import LakeSession
    from backfill_assets.foreign.catalog import register_tables as register_tables

    lake, pipeline = opened_lake()
    if not (chosen := schema or registered_schema(lake.settings)):
        raise click.UsageError(
            "name a schema: --schema NAME, or register_in below [access] in lake.toml"
        )
    made = [
        t.name for t in pipeline.tables if not t.contract.external and lake.store.exists(t.name)
    ]
    named, failed = register_tables(LakeSession(lake), made, chosen)
    document: RegisterAnswer = {"schema": chosen, "tables": named}
    write_answer(document, named)
    raise_first_error(failed)


@click.command()
@click.argument("name", type=TEXT)
@json_and_lake
def locate(name: str) -> None:
    """Ask the catalog of the lake's Spark where the Delta table NAME of others lies, and record it
    in the lake.

    NAME is SCHEMA.TABLE or CATALOG.SCHEMA.TABLE. From then on it means that place in `table` of a
    source, `external` of a table and in external_table, also for sensors and commands without an
    engine. Work whose session finds that the name leads to another table is refused by name; this
    command lets the lake follow it.
    """
    from backfill_assets.engines.lake_session import LakeSession
    from backfill_assets.foreign.catalog import locate_table as locate_table

    if not CATALOG_NAME.fullmatch(name):
        raise click.BadParameter("use SCHEMA.TABLE or CATALOG.SCHEMA.TABLE", param_hint="NAME")
    place, before = locate_table(LakeSession(named_lake()), name)
    moved = f" (before: {before})" if before not in ("", place) else ""
    document: LocateAnswer = {"name": name, "place": place, "before": before}
    write_answer(document, [f"located    {name}: {place}{moved}"])
