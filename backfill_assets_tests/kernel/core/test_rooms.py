"""What rooms add: each reference leads to something, and each room stands in the list.

Tested here: `kernel.core.rooms` over the rooms of this package. Not tested here: what crosses the
borders of rooms (`backfill_assets_tests/test_rooms.py`), and a package that lacks a room
(`.ci/without.py`).
"""

import re
from importlib import import_module
from pathlib import Path

import click
import pytest

import backfill_assets
from backfill_assets.kernel.core.rooms import (
    PACKAGE,
    Room,
    added_by_rooms,
    installed_rooms,
    offered_function,
    public_door,
    public_names,
    resolve_reference,
)

FRAME = "cli"
COMMANDS = {name: entry for room in installed_rooms() for name, entry in room.commands.items()}


def test_every_folder_but_the_kernel_is_a_room_in_the_list() -> None:
    folders = {p.parent.name for p in Path(backfill_assets.__file__).parent.glob("*/__init__.py")}
    assert {room.name for room in installed_rooms()} == folders - {"kernel", "orchestration"}


def test_no_two_rooms_add_a_command_of_one_name() -> None:
    assert len(COMMANDS) == sum(len(room.commands) for room in installed_rooms())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_reference_leads_to_the_command(name: str) -> None:
    command = resolve_reference(COMMANDS[name].reference)
    assert isinstance(command, click.Command)
    assert command.name == name


def test_what_rooms_leave_for_a_person_and_check_leads_to_functions() -> None:
    named = [
        r
        for room in installed_rooms()
        for r in (*room.standing, *room.checks, *room.doctor.values())
    ]
    assert len(named) == len(set(named)) > 0
    assert all(callable(resolve_reference(reference)) for reference in named)


@pytest.mark.slow  # it imports Dagster
def test_what_a_room_offers_is_found_by_its_name() -> None:
    names = [name for room in installed_rooms() for name in room.offers]
    assert len(names) == len(set(names)) > 0
    assert all(offered_function(name) is not None for name in names)


@pytest.mark.parametrize("room", installed_rooms(), ids=lambda room: room.name)
def test_a_rooms_text_names_the_commands_that_it_adds(room: Room) -> None:
    text = import_module(f"{PACKAGE}.{room.name}").__doc__ or ""
    adds = re.search(r"Adds .*?\.(?= |$)", " ".join(text.split()))
    named = {*re.findall(r"`([\w-]+)`", adds[0])} & COMMANDS.keys() if adds else set()
    lacking, gone = room.commands.keys() - named, named - room.commands.keys()
    assert room.name == FRAME or not (lacking or gone), (
        f"in the text of {room.name}/__init__.py the sentence `Adds …` names the commands of its "
        f"ROOM: it lacks {lacking or 'none'}, and {gone or 'none'} are not of this room"
    )


@pytest.mark.parametrize("room", installed_rooms(), ids=lambda room: room.name)
def test_a_room_refers_to_its_own_modules(room: Room) -> None:
    """But for commands of rooms below the command line's frame, which opens lakes by them."""
    commands = {command.reference for command in room.commands.values()}
    assert {reference.partition(".")[0] for reference in commands} <= {room.name, FRAME}
    listed = (*room.standing, *room.checks, *room.fences, *room.staged_checks, *room.sessions)
    listed += (*room.loaders, *room.deliveries, *room.completes_settings)
    listed += tuple(one for one in (room.dagster, room.settings) if one)
    for named in (room.places, room.tables, room.doctor, room.offers, room.public):
        listed += tuple(named.values())
    assert {reference.partition(".")[0] for reference in listed} <= {room.name}


@pytest.mark.slow  # it imports Dagster
@pytest.mark.parametrize("door", ["backfill_assets", "backfill_assets.dagster"])
def test_a_public_door_has_what_rooms_add_to_it(door: str) -> None:
    shown = import_module(door)
    added = public_names(door)
    assert {*added} <= {*dir(shown)}
    for name, reference in added.items():
        assert getattr(shown, name) is resolve_reference(reference)


def test_a_public_door_lacks_names_that_no_room_adds_to_it() -> None:
    find, show = public_door("backfill_assets.kernel", {"core.days": ("DayRange",)})
    assert show() == find("__all__") == ["DayRange"]
    assert find("DayRange").__name__ == "DayRange"
    with pytest.raises(AttributeError, match="has no attribute 'external_table'"):
        find("external_table")


def test_what_no_room_offers_is_none() -> None:
    assert offered_function("no such thing") is None


def test_ports_have_one_filling_and_hooks_any_number() -> None:
    for port in ("loaders", "deliveries"):
        assert len(added_by_rooms(port)) == 1
    for kind in (
        "fences",
        "staged_checks",
        "loaders",
        "deliveries",
        "sessions",
        "completes_settings",
    ):
        assert all(map(callable, added_by_rooms(kind)))


def test_a_reference_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(AttributeError):
        resolve_reference("cli.app:no_such_name")
