"""Changed days brought to a folder or to a database, each once, also after a kill.

Uses the kernel and `reading`. Adds the command `export`, and its job in Dagster
(`export.in_dagster`). Not here: reading a lake in place
(`reading`). Guide: as-others-write.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="export",
    commands={
        "export": Command(
            "export.export_command:export",
            "Keep",
            "Changed days to a folder or database.",
            {"": Document("export.export_command:ExportAnswer")},
        ),
    },
    settings="export.settings:ExportsSettings",
    dagster="export.in_dagster:definitions",
    offers={"export_places": "export.settings:export_places"},
)
