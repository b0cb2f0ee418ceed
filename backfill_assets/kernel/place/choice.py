"""Where the files of a lake lie, by its folder: the one function that picks the filling of the port
`Place`.

Not here: the fillings (`folder`, and those of rooms: `schemes`), and the port itself
(`kernel.place.port`).
"""

from collections.abc import Iterable
from pathlib import Path

from backfill_assets.kernel.core.addresses import SCHEMES, bucket_location, local_root
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.place.schemes import THEIRS_FOLDER, bucket_of_others, place_of_address

# In this machine's folder of a lake: what is prepared for its bucket, and copies.
MACHINE = ".bucket"


def place_at(root: Path) -> Place:
    """The place of a lake, or of a folder in it, by its absolute folder, which for a lake in a
    bucket is this machine's own (`kernel.core.addresses`). Opens nothing."""
    address, home, name = bucket_location(root)
    if not address:
        return Folder(str(root))
    return place_of_address(address, str(home / MACHINE), name)


def copy_folders_of_others(named: Iterable[str]) -> list[Path]:
    """This machine's folders of copies from the buckets of these addresses (others are passed
    over), of what lies outside of lakes; they may be deleted."""
    buckets = set[str]()
    for address in named:
        scheme, _, rest = address.partition("://")
        if scheme in SCHEMES:
            buckets.add(f"{scheme}://{rest.partition('/')[0]}")
    return [local_root(bucket) / THEIRS_FOLDER for bucket in sorted(buckets)]


def bucket_prefix_at(address: str, called: str = "") -> Place:
    """The place of a prefix in a bucket that others write, such as where files land; `called` as a
    lake names it ("": as its last part). Opens nothing."""
    scheme, _, rest = address.partition("://")
    bucket, _, prefix = rest.partition("/")
    return bucket_of_others(f"{scheme}://{bucket}", prefix.strip("/"), called)


def place_of_others(named: str) -> Place:
    """The place of what others write: a prefix in a bucket by its address, or a folder. Opens
    nothing."""
    if "://" in named:
        return bucket_prefix_at(named)
    return Folder(named)
