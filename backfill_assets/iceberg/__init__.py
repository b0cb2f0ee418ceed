"""Iceberg tables of others: each snapshot becomes a commit of a Delta table beside them, which
sources and inputs read as any other.

Uses the kernel. Adds the command `mirror`. Not here: reading a Delta table as a source
(`intake.source_log`) or as an input (`foreign.external`). Guide: tables-of-others.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="iceberg",
    commands={
        "mirror": Command(
            "iceberg.mirror_command:mirror",
            "Load",
            "An Iceberg table as a Delta table to read.",
            {"": Document("iceberg.mirror_command:MirrorAnswer")},
        ),
    },
)
