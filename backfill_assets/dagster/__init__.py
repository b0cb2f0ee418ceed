"""The public door into anybody's Dagster project: an IO manager, checks, definitions to merge, a
component.

Lives here: the names that this room adds; other rooms say theirs (`Room.public`). Each is imported
when it is first asked for, and type checkers find them in `__init__.pyi`. Importing this changes
nothing in the process. Does not live here: how the tables of a lake become definitions
(`dagster.adapter`), what assets of a project take (`assets`), and any write (`kernel.write`).
"""

from backfill_assets.kernel.core.rooms import Room, public_door

ROOM = Room(name="dagster", offers={"note_read": "dagster.adapter.read_beside:note_read"})

__getattr__, __dir__ = public_door(
    __name__,
    {
        "definitions": ("LakeComponent", "build_lake_defs"),
        "resource": ("LakeResource",),
        "stale": ("is_stale",),
    },
)
