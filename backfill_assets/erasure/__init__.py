"""Erasing an entity for good: what holds it, taking it out of every file, and the certificate.

Uses the kernel and `intake`, which keeps late rows of it out. Adds the command `forget`.
Not here: deleting files that nothing needs (`upkeep`). Guide: correcting-the-past.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="erasure",
    commands={
        "forget": Command(
            "erasure.forget_command:forget",
            "Keep",
            "Erase an entity for good.",
            {"": Document("erasure.forget_command:ForgetAnswer")},
        ),
    },
)
