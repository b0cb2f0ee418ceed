"""Places at whole addresses (`s3://BUCKET/PREFIX`): the room that knows an address's scheme makes
them, and says so in its `Room.places`.

Not here: places of this machine's folders (`folder`), and which folder stands for which address
(`kernel.core.addresses`).
"""

from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any, Protocol, TypeVar

from backfill_assets.kernel.core.addresses import ADDRESS, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.rooms import Room, installed_rooms, resolve_reference
from backfill_assets.kernel.place.port import Place

# Beside this machine's folders of lakes: the same for places in buckets that are no lake's.
THEIRS_FOLDER = ".theirs"
ANYWHERE = ("at", "token", "open", "uri", "local")  # verbs that take whole addresses as names, too
Filling = TypeVar("Filling", bound=type[Any])


class PlaceMaker(Protocol):
    """What a room names for a scheme. Opens nothing."""

    def __call__(self, address: str, machine: str, folder: str = "", called: str = "") -> Place:
        """The place `folder` below an address. `machine`: the folder of this machine for copies and
        for what is prepared; `called`: as a lake names it ("": as its last part)."""


def place_of_address(address: str, machine: str, folder: str = "", called: str = "") -> Place:
    """A place as `PlaceMaker` says. Raises SettingsError for a scheme that no room knows."""
    return _maker_of(address.partition("://")[0])(address, machine, folder, called)


@cache
def _maker_of(scheme: str) -> PlaceMaker:
    return place_maker(scheme, installed_rooms())


def place_maker(scheme: str, installed: Iterable[Room]) -> PlaceMaker:
    """What makes places of a scheme (`s3`), by the rooms that are installed. Raises SettingsError
    where none of them knows it."""
    known = dict[str, str]()
    for room in installed:
        known.update(room.places)
    if scheme not in known:
        schemes = ", ".join(f"{name}://" for name in sorted(known)) or "none"
        raise SettingsError(
            f"an address of {scheme}://",
            f"no room of this installation reads such addresses (known: {schemes})",
            "Nothing was read or written",
            "Name a folder, or install backfill-assets with its room for object stores (`buckets`)",
        )
    maker: PlaceMaker = resolve_reference(known[scheme])
    return maker


def bucket_of_others(bucket: str, folder: str = "", called: str = "") -> Place:
    """A place in a bucket, e.g. `s3://bucket`, that others write. Opens nothing."""
    return place_of_address(bucket, str(local_root(bucket) / THEIRS_FOLDER), folder, called)


def takes_addresses(filling: Filling) -> Filling:
    """A filling of the port whose verbs that read find a name that is a whole address in whatever
    bucket it lies."""
    for name in ANYWHERE:
        setattr(filling, name, _verb_with_addresses(getattr(filling, name)))
    return filling


def _verb_with_addresses(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb of a place which, given a whole address as a name, is asked of the bucket in
    that."""

    @wraps(verb)
    def call(place: Place, name: str = "", *rest: Any, **more: Any) -> Any:
        whole = ADDRESS.fullmatch(name) if ":/" in name else None
        if whole is None:
            return verb(place, name, *rest, **more)
        bucket, _, below = whole[2].partition("/")
        place_there = bucket_of_others(f"{whole[1]}://{bucket}")
        return getattr(place_there, verb.__name__)(below, *rest, **more)

    return call
