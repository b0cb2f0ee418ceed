"""The command `backfill-assets`: commands and their output for people and programs.

Not here: anything that decides or writes content (the rooms, `kernel`). A command
imports heavy libraries when it needs them, so that `--help` answers at once.
"""

from backfill_assets.kernel.core.rooms import Command, Room

ROOM = Room(
    name="cli",
    commands={
        "catch-up": Command("cli.catch_up:catch_up", "Load", "Load and rebuild all that needs it."),
        "backfill": Command("cli.backfill:backfill", "Load", "Make days of tables again."),
        "replay-late": Command(
            "cli.catch_up:replay_late", "Load", "Let rows that came too late count."
        ),
        "server": Command("cli.server:server", "Keep", "Start or stop the lake's server."),
        "production": Command(
            "cli.production:production", "Keep", "Dagster's settings and units for servers."
        ),
        "ui": Command("cli.server:ui", "Keep", "Dagster's pages, for you alone."),
    },
)
