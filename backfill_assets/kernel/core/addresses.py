"""Addresses of lakes that lie in a bucket, and this machine's own folder of each, from which the
address follows.

Not here: reading and writing what lies there (`buckets.bucket`), and which lake is meant
(`kernel.core.process`).
"""

import os
import re
from pathlib import Path
from posixpath import normpath

from backfill_assets.kernel.core.errors import SettingsError

STATE_VARIABLE = "BACKFILL_ASSETS_STATE"
# In the state's folder; no other folder below one of that name is a lake's.
BUCKETS = "backfill_assets/buckets"
ADDRESS = re.compile(r"(s3|az|gs|s3a|abfss|https?):/+(.*)")  # `Path` leaves one slash
SCHEMES = ("s3", "az", "gs")
TICK_SECONDS = 30  # of the sensors of a lake in a bucket: each of their ticks asks the store
COPY = re.compile(rf"/[^'\s]*?/{BUCKETS}/(\w+)@([^/']+)/\.\w+/(?:prepared|copies)/")
CATALOG_NAME = re.compile(r"\w[\w-]*(\.\w[\w-]*){1,2}")  # SCHEMA.TABLE or CATALOG.SCHEMA.TABLE
# Of a table: no sign that logs write otherwise.
TABLE_KEY = re.compile(r"[\w.-]+(/(?!\.\.?(/|$))[\w.=+-]+)*")
CANDIDATES = ".candidates"  # in a lake: below it lie lakes that read it
# What no engine takes for a pattern.
ADDRESS_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*|\.[A-Za-z0-9_-][A-Za-z0-9._-]*")


def local_root(named: str | Path) -> Path:
    """The absolute folder of the lake that `named` is: that folder, or this machine's own one of a
    lake in a bucket; of a candidate it lies below that of its lake.

    It holds what only this machine needs (scratch, copies, the engine's and Dagster's homes), may
    be deleted while nothing runs, and lies below $BACKFILL_ASSETS_STATE, else $XDG_STATE_HOME, else
    `~/.local/state`. Raises SettingsError for an address that no lake can have.
    """
    found = ADDRESS.fullmatch(str(named))
    if found is None:
        return Path(named).expanduser().resolve()
    scheme, parts = found[1], found[2].strip("/").split("/")
    if scheme not in SCHEMES or not all(ADDRESS_PART.fullmatch(part) for part in parts):
        raise SettingsError(
            f"the lake {named}",
            "it is no address of a lake: a bucket and names of letters, digits, - _ and . in it",
            "Nothing was done",
            f"Write {SCHEMES[0]}://BUCKET/NAME, or az:// or gs://",
        )
    state = os.environ.get(STATE_VARIABLE) or os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    home, _, candidate = "/".join(parts).partition(f"/{CANDIDATES}/")
    folder = Path(state).expanduser().resolve() / BUCKETS / "@".join((scheme, *home.split("/")))
    if candidate:
        return folder / CANDIDATES / candidate
    return folder


def table_address(named: str, base: Path, what: str) -> str:
    """The whole address of a table of others in a bucket; "" for one in a folder. `named` is
    relative to `base`, which may be this machine's folder of a lake in a bucket. Raises
    SettingsError, naming `what`, for an address that none can have, and for a name in a catalog:
    where that leads is asked and recorded before (`foreign.located`)."""
    if CATALOG_NAME.fullmatch(named):
        raise SettingsError(
            what,
            f"{named} is a name in a catalog, and where it leads is not recorded",
            "Nothing was read or recorded",
            f"Run `backfill-assets locate {named}`, or write its path or address; for a folder of "
            f"that name ./{named}",
        )
    whole = ADDRESS.fullmatch(_joined_address(named, base))
    if whole is None:
        return ""
    scheme = whole[1]
    bucket, _, below = whole[2].strip("/").partition("/")
    key = bucket
    if below:
        key = f"{bucket}/{normpath(below)}"
    if scheme in SCHEMES and TABLE_KEY.fullmatch(key):
        return f"{scheme}://{key}"
    raise SettingsError(
        what,
        f"{named} is no address of a table that can be read here",
        "Nothing was read or recorded",
        f"Write {SCHEMES[0]}://BUCKET/NAME, or az:// or gs://, with letters, digits and - _ . = + "
        "in the names",
    )


def _joined_address(named: str, base: Path) -> str:
    """`named` behind the address of the folder `base`, if it is relative and that is in a
    bucket."""
    home = bucket_address(base)
    if not home or ":/" in named or Path(named).expanduser().is_absolute():
        return named
    return f"{home}/{named}"


def bucket_location(root: Path | str) -> tuple[str, Path, str]:
    """By this machine's own folder of a lake in a bucket, or by one below that: the lake's address,
    its folder, and the name of that below. Empty texts for any other folder."""
    state, is_one, below = str(root).partition(f"/{BUCKETS}/")
    if not is_one:
        return "", Path(root), ""
    home, _, name = below.partition("/")
    scheme, *parts = home.split("@")
    return f"{scheme}://{'/'.join(parts)}", Path(state, BUCKETS, home), name


def bucket_address(root: Path | str) -> str:
    """The address of a lake in a bucket, or of a folder in it, by this machine's own folder; "" for
    any other."""
    address, _, name = bucket_location(root)
    return f"{address}/{name}" if name else address


def local_bucket_folder(address: str, root: Path) -> Path:
    """This machine's own folder of a prefix in a bucket: below that of the lake at `root` where it
    lies in the lake."""
    home = bucket_address(root)
    if home and f"{address}/".startswith(f"{home}/"):
        return root / address[len(home) + 1 :]
    scheme, _, rest = address.partition("://")
    bucket, _, prefix = rest.partition("/")
    return local_root(f"{scheme}://{bucket}") / prefix


def with_bucket_addresses(text: str) -> str:
    """A text in which paths of this machine's copies of objects are the addresses of these, e.g.
    SQL that is kept."""
    return COPY.sub(lambda found: f"{found[1]}://{found[2].replace('@', '/')}/", text)


def address_of(root: Path | str) -> str:
    """What people call a lake by its folder, and name after `--lake`: its address in a bucket, or
    the folder."""
    return bucket_address(root) or str(root)
