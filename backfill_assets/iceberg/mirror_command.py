"""`backfill-assets mirror`: an Iceberg table as a Delta table beside it, for sources and inputs.

Not here: the mirror itself (`mirror`). Which catalogs there are, and how they are reached, is
pyiceberg's own configuration (`.pyiceberg.yaml`, or variables `PYICEBERG_CATALOG__…`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from backfill_assets.cli.common import TEXT, json_and_lake, named_lake
from backfill_assets.cli.output import write_answer
from backfill_assets.iceberg.mirror import mirror_table
from backfill_assets.kernel.core.addresses import table_address
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import scrub_secrets, shortened_text
from backfill_assets.kernel.place.choice import place_of_others

if TYPE_CHECKING:
    from pyiceberg.table import Table


SAID_CHARS = 200  # of what a catalog says


class MirrorAnswer(TypedDict):
    """What `mirror --json` prints."""

    name: str
    folder: str
    version: int  # of the Delta table; -1: none yet
    snapshots: int  # that became commits
    files: int  # whose rows were copied
    left_out: tuple[str, ...]  # columns of types that Delta lacks
    passed_over: list[int]  # snapshots that cannot be read, before one that can


@click.command()
@click.argument("name", metavar="CATALOG.NAMESPACE.TABLE", type=TEXT)
@click.argument("folder", type=TEXT)
@json_and_lake
def mirror(name: str, folder: str) -> None:
    """Bring FOLDER, a Delta table, up to an Iceberg table: each snapshot becomes a commit.

    FOLDER is relative to lake.toml, or an address in a bucket; a source reads it as `table`, an
    input as `external`. Run it before `scan`: what has been mirrored is not read again. CATALOG is
    one of pyiceberg's configuration (REST, SQL, Glue, Hive …). Needs the extra `iceberg`.
    """
    root = Path(named_lake().root)
    address = table_address(folder, root, f"the mirror {folder}") or str((root / folder).resolve())
    done = mirror_table(_iceberg_table(name), place_of_others(address))
    answer = MirrorAnswer(
        name=name,
        folder=folder,
        version=done.version,
        snapshots=done.snapshots,
        files=done.files,
        left_out=done.left_out,
        passed_over=done.passed_over,
    )
    write_answer(answer, [f"mirrored   {name}: {done}"])


def _iceberg_table(name: str) -> "Table":
    """The table of this name. Raises BackfillError where the package `pyiceberg` is not installed,
    and where its catalog does not have it, or cannot be asked: SQLAlchemy, botocore and Thrift
    have no error in common."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config
    except ImportError:
        culprit = "the package pyiceberg is not installed"
        raise _table_error(name, culprit, 'pip install "backfill-assets[iceberg]"') from None
    catalog, _, table = name.partition(".")
    if "." not in table:
        raise click.BadParameter("use CATALOG.NAMESPACE.TABLE", param_hint="NAME")
    try:
        told = Config().get_catalog_config(catalog) or {}  # of now, not as of the import
        named = {key: value for key, value in told.items() if isinstance(value, str)}
        return load_catalog(catalog, **named).load_table(table)
    except Exception as error:
        said = shortened_text(scrub_secrets(" ".join(str(error).split())), SAID_CHARS)
        culprit = f"the catalog {catalog} does not give it ({said or type(error).__name__})"
        fix = "Correct the name, or the catalog in .pyiceberg.yaml"
        raise _table_error(name, culprit, fix) from error


def _table_error(name: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the Iceberg table {name}", culprit, "Nothing was mirrored", fix)
