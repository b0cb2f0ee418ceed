"""The kernel and the rooms: how many imports still cross their borders, none of which may become
more. Not here: which imports the kernel may not have at all (`pyproject.toml`, for `lint-imports`),
and other rules of who may know what (`test_architecture.py`). Whoever takes an import away lowers
the number, and nobody raises it."""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from backfill_assets.kernel.core.rooms import installed_rooms, offered_function
from backfill_assets_tests.sources import CAN_BE_LEFT_OUT, CHECKOUT, PACKAGE, TESTS, sources

KERNEL = f"{PACKAGE}.kernel"
FRAME = "cli"
MOST_KERNEL_NAMES = 494  # that rooms import
MOST_BETWEEN_ROOMS = 361  # pairs of modules
MOST_MUTUAL_PAIRS = 0  # of rooms that import each other
# By contract about rooms: those that it lets off.
FREE: Mapping[str, frozenset[str]] = {
    "kernel": frozenset(),
    "transforms": frozenset(),
    "dagster": frozenset({"assets", "cli", "dagster"}),
    "engines": frozenset(
        {"assets", "buckets", "cli", "dagster", "engines", "foreign", "intake", "learn", "pipeline"}
    ),
}


def _contract(name: str) -> Mapping[str, Any]:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    (found,) = [c for c in settings["tool"]["importlinter"]["contracts"] if c["id"] == name]
    return {**found}


def _exceptions(contract: str) -> list[str]:
    return [str(exception) for exception in _contract(contract).get("ignore_imports", ())]


def _imported() -> Iterator[tuple[str, str]]:
    """Pairs of modules of the package, the first of which imports the second."""
    modules = {f.module for f in sources(PACKAGE)}
    for source in sources(PACKAGE):
        named = {i.module for i in source.imports} & modules
        # `from a import b` is an import of a.b alone where that is a module.
        yield from (
            (source.module, m) for m in named if not any(n.startswith(f"{m}.") for n in named)
        )


def _room(module: str) -> str:
    return [*module.split("."), ""][1]


def _between_rooms() -> set[tuple[str, str]]:
    """Pairs of modules of two rooms. The kernel, files that belong to no room, and imports of the
    command line's frame, which each room with a command needs, are left out."""
    folders = {_room(f.module) for f in sources(PACKAGE) if f.place.count("/") > 1} - {"kernel"}
    found = set()
    for importing, imported in _imported():
        rooms = {_room(importing), _room(imported)}
        if len(rooms) == 2 and rooms <= folders and _room(imported) != FRAME:
            found.add((importing, imported))
    return found


@pytest.mark.parametrize("contract", FREE)
def test_a_contract_about_rooms_names_every_room_that_it_does_not_let_off(contract: str) -> None:
    """Of an import of a room that it does not name, `lint-imports` would say nothing."""
    rules = _contract(contract)
    named = {_room(m) for m in (*rules["source_modules"], *rules["forbidden_modules"])}
    missing = {room.name for room in installed_rooms()} - named - FREE[contract]
    assert not missing, (
        f"name {missing} in the contract {contract!r} of pyproject.toml, or in FREE of this file if "
        f"it must not hold there: {rules['name']}"
    )


@pytest.mark.whole_house
def test_a_room_that_no_other_room_imports_is_one_that_can_be_left_out() -> None:
    imported = {_room(m) for i, m in _imported() if _room(i) != _room(m)}
    missing = {room.name for room in installed_rooms()} - imported - CAN_BE_LEFT_OUT
    assert not missing, (
        f"name {missing} in CAN_BE_LEFT_OUT of {TESTS}/sources.py, so that `.ci/without.py` tries it"
    )


def test_no_import_leaves_the_kernel_or_points_up_in_it() -> None:
    """`lint-imports` holds the contracts, which have no exception."""
    assert (_exceptions("kernel"), _exceptions("floors")) == ([], [])


def test_names_of_the_kernel_that_rooms_use_become_fewer() -> None:
    """In the end they are those that the kernel's folders name in their `__all__`."""
    modules = {f.module for f in sources(PACKAGE)}
    outside = [f for f in sources(PACKAGE) if not f.module.startswith(KERNEL)]
    named = {i.module for f in outside for i in f.imports if i.module.startswith(f"{KERNEL}.")}
    used = {name for name in named if name not in modules}
    assert len(used) <= MOST_KERNEL_NAMES, (
        f"rooms import {len(used)} names of the kernel: use one that a room imports already, or one "
        "that the kernel's folders name in their `__all__`"
    )


def test_a_room_that_can_be_left_out_is_imported_only_by_rooms_that_go_with_it() -> None:
    """Others ask for what it offers (`kernel.core.rooms.offered_function`)."""
    needs = {room.name: room.needs for room in installed_rooms()}
    found = {(i, _room(i), _room(m)) for i, m in _imported() if _room(m) in CAN_BE_LEFT_OUT}
    offences = {
        (importing, room)
        for importing, own, room in found
        if room not in (own, *needs.get(own, ()))
    }
    assert not offences, "call `offered_function` with a name in `offers` of that room"


@pytest.mark.whole_house
def test_what_is_asked_of_rooms_is_what_they_offer() -> None:
    """A word that nobody offers would be taken for a room that is not there."""
    offers = {name for room in installed_rooms() for name in room.offers}
    asking = [f for f in sources(PACKAGE) if not f.place.endswith("__init__.py")]
    asked = {
        str(argument.value)
        for source in asking
        for call in source.of(ast.Call)
        for argument in call.args[:1]
        if getattr(call.func, "id", "") == offered_function.__name__
        and isinstance(argument, ast.Constant)
    }
    words = {str(text.value) for source in asking for text in source.texts}
    assert asked, "nobody asks by a word: the call has another form now"
    assert asked <= offers
    assert offers <= words, "nobody asks for it"


def test_imports_between_rooms_become_fewer() -> None:
    found = _between_rooms()
    assert len(found) <= MOST_BETWEEN_ROOMS, (
        f"{len(found)} pairs of modules: what two rooms need belongs into the kernel, or one offers "
        "it and the other calls `offered_function`"
    )


def test_pairs_of_rooms_that_import_each_other_become_fewer() -> None:
    pairs = {(_room(importing), _room(imported)) for importing, imported in _between_rooms()}
    mutual = {tuple(sorted(pair)) for pair in pairs if pair[::-1] in pairs}
    assert len(mutual) <= MOST_MUTUAL_PAIRS, sorted(mutual)
