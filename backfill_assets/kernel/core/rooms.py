"""What rooms add to the kernel and to the doors above it: `Room`, the value that a room's
`__init__` makes, and `installed_rooms`, which gives those of this installation.

A room names what it adds by references (`"room.module:name"`), so that making its value imports
nothing; who needs one thing calls `resolve_reference`. Not here: the list of rooms
(`backfill_assets.rooms`), and what is added (the rooms' own modules).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from backfill_assets.kernel.core.process import imported_when_used

PACKAGE = "backfill_assets"


@dataclass(frozen=True)
class Document:
    """What a command prints with `--json`: a reference to its type, and its version.

    Within a version keys may come. Whoever takes one away, or changes what it means, raises the
    version.
    """

    reference: str
    version: int = 1


@dataclass(frozen=True)
class Command:
    """A command of `backfill-assets`: a reference to it, the heading below which `--help` lists it,
    its line there, and what it prints with `--json`, by the words that follow its name (`list`; "":
    none)."""

    reference: str
    heading: str
    line: str
    documents: Mapping[str, Document] = field(default_factory=dict)


@dataclass(frozen=True)
class Room:
    """One capability in one folder of the package, and what it adds. Every reference is text.

    `needs`: rooms that can be left out and that it imports all the same; it is left out with them.
    `commands`: by their names on the command line. `places`: by the scheme of an address (`s3`),
    what makes a place there (`kernel.place.schemes.PlaceMaker`).

    `loaders` and `deliveries`: how a table of landed rows is loaded (`kernel.write.rebuild.Loader`)
    and what is known of its source (`kernel.tables.view.DeliveriesOf`). `staged_checks`: asked of
    staged rows before they are judged (`kernel.write.rebuild.StagedCheck`). `fences`: asked before
    each commit (`kernel.write.replace.Fence`). `sessions`: asked of a Spark session that is not the
    lake's own, and of the lake's folder, before it is used. `completes_settings`: add to the parsed
    `lake.toml` of a folder what lies beside it (`kernel.tables.settings.SettingsCompleter`).

    `settings`: a `kernel.tables.sections.Section` whose fields are the sections of `lake.toml` that
    the room alone reads, or sections of the kernel with its own keys; the settings of a lake are
    made of all of them (`kernel.tables.settings.lake_model`).

    `standing`: functions of a lake and its pipeline that yield lines for a person, which `status`
    shows. `tables`: by their names below `system.` a `reading.system_tables.SystemTable`. `checks`:
    functions of a `reading.system_tables.LakeLook` that yield rows of `system.checks`. `doctor`: by
    what they look at, functions of a lake and its tables that yield `cli.findings.Diagnosis`; of a
    damaged log or lake version the doctor tells itself, so they catch BackfillError of reading one.

    `dagster`: a function that gives what it adds to the definitions of a lake in Dagster, for a
    `dagster.adapter.context.ShownLake`. `offers`: functions for other rooms, which go on without
    them (`offered_function`), by the names that those know. `public`: what it adds to the public
    doors, by its name in code after that of the package (`dagster.daily_table`).
    """

    name: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    standing: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    dagster: str = ""
    doctor: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, str] = field(default_factory=dict)
    public: Mapping[str, str] = field(default_factory=dict)
    fences: tuple[str, ...] = ()
    staged_checks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    completes_settings: tuple[str, ...] = ()
    settings: str = ""
    loaders: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()


@cache
def installed_rooms() -> tuple[Room, ...]:
    """Return the rooms of this installation, in the order of their list."""
    names = import_module(f"{PACKAGE}.rooms").ROOMS
    return tuple(import_module(f"{PACKAGE}.{name}").ROOM for name in names)


def offered_function(name: str) -> Any | None:
    """Import and return what a room offers to others under a name; None where no room of this
    installation does."""
    for room in installed_rooms():
        if name in room.offers:
            return resolve_reference(room.offers[name])
    return None


def public_names(door: str) -> dict[str, str]:
    """Return what rooms add to a public door, the package itself or a package in it: references by
    names."""
    found = dict[str, str]()
    for room in installed_rooms():
        for public, reference in room.public.items():
            package, _, name = f"{PACKAGE}.{public}".rpartition(".")
            if package == door:
                found[name] = reference
    return found


def public_door(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__`, which also gives `__all__`, and the `__dir__` of a public door: for
    the names that modules of the package (without its name) have, and those that rooms add. None of
    them is imported before it is asked for."""
    find_own = imported_when_used(package, names)
    own = {name for found in names.values() for name in found}

    def show() -> list[str]:
        """All public names, sorted."""
        return sorted([*own, *public_names(package)])

    def find(name: str) -> Any:
        """Import the name. Raises AttributeError for one that is not public."""
        if name == "__all__":
            return show()
        if name in own or name.startswith("_"):
            return find_own(name)
        added = public_names(package)
        return resolve_reference(added[name]) if name in added else find_own(name)

    return find, show


@cache
def added_by_rooms(kind: str) -> tuple[Any, ...]:
    """Import and return all that rooms add of one kind, the name of a field of `Room` that holds
    references, in the order of rooms."""
    return tuple(
        resolve_reference(reference)
        for room in installed_rooms()
        for reference in getattr(room, kind)
    )


def resolve_reference(reference: str) -> Any:
    """Import and return what a reference names. Raises ImportError or AttributeError where there is
    nothing of that name."""
    return resolve_name(f"{PACKAGE}.{reference}")
