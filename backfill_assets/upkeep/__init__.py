"""Keeping a lake in order: the doctor, damaged logs mended, files that nothing needs deleted, small
ones joined.

Uses the kernel and most rooms. Adds the commands `doctor`, `verify`, `mend`, `maintain`, and a job
in Dagster (`upkeep.in_dagster`). Not here: erasing an entity (`erasure`). Guide: production.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="upkeep",
    commands={
        "doctor": Command(
            "upkeep.doctor_command:doctor",
            "Trust",
            "Find what is wrong with a lake.",
            {"": Document("upkeep.doctor_command:FindingsAnswer")},
        ),
        "verify": Command(
            "upkeep.doctor_command:verify",
            "Trust",
            "Rows, bytes and logs against receipts.",
            {"": Document("upkeep.doctor_command:FindingsAnswer")},
        ),
        "mend": Command(
            "upkeep.doctor_command:mend",
            "Trust",
            "Mend a table's damaged log.",
            {"": Document("upkeep.doctor_command:MendAnswer")},
        ),
        "maintain": Command(
            "upkeep.doctor_command:maintain",
            "Keep",
            "Delete what nothing needs any more.",
            {"": Document("upkeep.maintain:Upkeep")},
        ),
    },
    settings="upkeep.settings:UpkeepSettings",
    dagster="upkeep.in_dagster:definitions",
    offers={
        "inspect_log": "upkeep.inspection:inspect_table",
    },
)
