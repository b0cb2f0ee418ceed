"""A door for agents: a server of the Model Context Protocol over a lake, which reads and plans, and
never runs, releases, publishes or erases anything.

Uses the kernel; what it tells is what the commands tell with `--json`, each in a process of its
own, so that a room that is not installed is a command that says so. Adds the command `agent`. Not
here: the commands themselves, and the protocol (the package `mcp`, the extra `agent`). Guide:
agents.
"""

from backfill_assets.kernel.core.rooms import Command, Room

ROOM = Room(
    name="agent",
    commands={
        "agent": Command(
            "agent.agent_command:agent",
            "Look",
            "Serve the lake to an agent: it reads and plans.",
        ),
    },
)
