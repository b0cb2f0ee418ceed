"""Keeping a lake in order: the doctor, damaged logs mended, files that nothing needs deleted, small
ones joined.

Uses the kernel and most rooms. Adds the commands `doctor`, `verify`, `mend`, `maintain`, and a job
in Dagster (`upkeep.in_dagster`). Not here: erasing an entity (`erasure`). Guide: production.
"""

from backfill_assets.kernel.core.rooms import Command, Room

ROOM = Room(
    name="upkeep",
    commands={
        "doctor": Command(
            "upkeep.doctor_command:doctor", "Trust", "Find what is wrong with a lake."
        ),
        "verify": Command(
            "upkeep.doctor_command:verify", "Trust", "Rows, bytes and logs against receipts."
        ),
        "mend": Command("upkeep.doctor_command:mend", "Trust", "Mend a table's damaged log."),
        "maintain": Command(
            "upkeep.doctor_command:maintain", "Keep", "Delete what nothing needs any more."
        ),
    },
    settings="upkeep.settings:UpkeepSettings",
    dagster="upkeep.in_dagster:definitions",
    offers={
        "inspect_log": "upkeep.inspection:inspect_table",
    },
)
