"""PostgreSQL, by its ADBC driver, which the extra `postgres` installs: addresses and connections.

Not here: what is read (`reconcile_sides`) or written there (`export`).
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.tables.fingerprints import quoted_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DATABASE = ("postgresql://", "postgres://")
SIGN = r"(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"  # of a part of an address
ADDRESS = re.compile(
    rf"postgres(ql)?://({SIGN}*(:({SIGN}|:)*)?@)?({SIGN}+|\[[0-9A-Fa-f:.]+\])?(:\d+)?(/{SIGN}*)?(\?({SIGN}|[/:])+)?",
    re.ASCII,
)
NAME = r'(?:"[^"]+"|\w[\w$]*)'
TARGET = re.compile(rf"{NAME}(\.{NAME}){{0,2}}|(select|with)\b.*", re.IGNORECASE | re.DOTALL)
Refusal = Callable[
    [str, str, str], BackfillError
]  # of the address without its password, the culprit, what to do


@contextmanager
def postgres_connection(text: str, refused: Refusal) -> Iterator[tuple[str, Any, str]]:
    """Connect to `postgresql://…#WHAT`; gives the address in words without its password, the
    connection, and WHAT.

    Raises what `refused` makes of a text that is no whole address, and of which nothing is shown,
    of an address without WHAT, of a driver that is not installed, and of the driver's errors inside
    the block.
    """
    address, _, target = text.partition("#")
    if not ADDRESS.fullmatch(address) or (target and not TARGET.fullmatch(target.strip())):
        fix = (
            "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE#TABLE, other signs in its parts "
            "as %XX (# is %23)"
        )
        raise refused(
            DATABASE[0],
            "it is no address of its kind; it is not shown, as it may hold a password",
            fix,
        )
    parts = urlsplit(address)
    name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}#{target}"
    if not target:
        raise refused(
            name, "it names no table", "Write postgresql://HOST/DATABASE#TABLE, or #SCHEMA.TABLE"
        )
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
        raise refused(
            name, scrub_secrets(" ".join(str(error).split()), *_passwords_in(address)), fix
        ) from None


def text_with_nul(engine: "DuckDBPyConnection", rows: str, contract: Contract) -> str:
    """Which text of the rows holds the sign NUL, which no text of PostgreSQL can hold; empty
    without one. The driver names neither column nor day."""
    day, texts = (
        quoted_name(contract.day_column),
        [c.name for c in contract.columns if c.kind.kind == "STRING"],
    )
    for name in texts:
        found = engine.execute(
            f"SELECT min({day}), count(*) FROM ({rows}) WHERE contains({quoted_name(name)}, chr(0))"
        )
        [(first, times)] = found.fetchall()
        if times:
            return (
                f"{name} holds the sign NUL in {times} row(s) from {first} on, which no text of "
                "PostgreSQL can"
            )
    return ""


def _passwords_in(address: str) -> list[str]:
    """The passwords in an address, as they are written there and as they are meant."""
    parts = urlsplit(address)
    given = [parts.password or "", *(v for k, v in parse_qsl(parts.query) if "pass" in k.lower())]
    return [*given, *map(unquote, given)]
