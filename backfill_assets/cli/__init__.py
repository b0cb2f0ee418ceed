"""The command `backfill-assets`: commands and their output for people and programs.

Not here: anything that decides or writes content (the rooms, `kernel`). A command
imports heavy libraries when it needs them, so that `--help` answers at once.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="cli",
    commands={
        "catch-up": Command(
            "cli.catch_up:catch_up",
            "Load",
            "Load and rebuild all that needs it.",
            {"": Document("cli.catch_up:CatchUpAnswer")},
        ),
        "backfill": Command(
            "cli.backfill:backfill",
            "Load",
            "Make days of tables again.",
            {"": Document("cli.backfill:BackfillAnswer")},
        ),
        "replay-late": Command(
            "cli.catch_up:replay_late",
            "Load",
            "Let rows that came too late count.",
            {"": Document("cli.catch_up:CatchUpAnswer")},
        ),
        "server": Command(
            "cli.server:server",
            "Keep",
            "Start or stop the lake's server.",
            {
                "start": Document("cli.server:ServerAnswer"),
                "stop": Document("cli.server:StopAnswer"),
                "status": Document("cli.server:ServerAnswer"),
            },
        ),
        "production": Command(
            "cli.production:production", "Keep", "Dagster's settings and units for servers."
        ),
        "schema": Command(
            "cli.schema_command:schema",
            "Look",
            "What a command prints with --json.",
            {"": Document("cli.schema_command:SchemaAnswer")},
        ),
        "ui": Command("cli.server:ui", "Keep", "Dagster's pages, for you alone."),
    },
)
