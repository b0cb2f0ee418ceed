"""What other rooms import of the room `dagster`: one module of it, and in one direction.

Not tested here: what they add (`test_in_dagster` of each room).
"""

from backfill_assets.kernel.core.rooms import installed_rooms
from backfill_assets_tests.sources import PACKAGE, sources

DAGSTER = f"{PACKAGE}.dagster"
ADDING = {room.name for room in installed_rooms() if room.dagster}


def test_the_room_of_dagster_knows_no_room_that_adds_to_its_definitions() -> None:
    """So each of them can be deleted, and the rest of the definitions stays."""
    theirs = {f"{PACKAGE}.{name}" for name in ADDING}
    found = [
        f"{source.place} imports {imported.module}"
        for source in sources(DAGSTER.replace(".", "/"))
        for imported in source.imports
        if ".".join(imported.module.split(".")[:2]) in theirs
    ]
    assert found == []


def test_rooms_that_add_to_definitions_import_one_module_of_dagsters_room() -> None:
    found = {
        (source.place, imported.module)
        for name in ADDING
        for source in sources(f"{PACKAGE}/{name}")
        for imported in source.imports
        if imported.module.startswith(f"{DAGSTER}.")
    }
    assert {(p, m) for p, m in found if not m.startswith(f"{DAGSTER}.adding")} == set()
