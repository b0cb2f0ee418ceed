"""PostgreSQL, by its ADBC driver, which the extra `postgres` installs: addresses and connections.

Not here: what is read (`reconcile_sides`) or written there (`export`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from backfill_assets.core.errors import BackfillError

DATABASE = ("postgresql://", "postgres://")
Refusal = Callable[[str, str, str], BackfillError]  # of the address without its password, the culprit, what to do


@contextmanager
def connected(text: str, refused: Refusal) -> Iterator[tuple[str, Any, str]]:
    """Connect to `postgresql://…#WHAT`; gives the address in words without its password, the connection, and WHAT.

    Raises what `refused` makes of an address without WHAT, of a driver that is not installed, and of the driver's
    errors inside the block.
    """
    address, _, target = text.partition("#")
    parts = urlsplit(address)
    name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}#{target}"
    if not target:
        raise refused(name, "it names no table", "Write postgresql://HOST/DATABASE#TABLE, or #SCHEMA.TABLE")
    try:
        dbapi = import_module("adbc_driver_postgresql.dbapi")
    except ImportError:
        fix = "Run `pip install 'backfill-assets[postgres]'`"
        raise refused(name, "the driver of PostgreSQL is not installed", fix) from None
    try:
        with dbapi.connect(address) as connection:
            yield name, connection, target
    except dbapi.Error as error:
        fix = "Check the address, the rights, and the table or query"
        raise refused(name, " ".join(str(error).split()), fix) from error
