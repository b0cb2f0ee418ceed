"""The rooms of this package, a line each: whoever deletes a room's folder deletes its line here.

The command line, the doctor, `system.*`, settings and Dagster's definitions are assembled from this
list (`kernel.core.rooms`). Not here: what a room adds, which its `__init__` says in the value
`ROOM`, and the kernel, which is no room.
"""

# In the order in which `--help` and pages show what they add.
ROOMS = (
    "learn",
    "intake",
    "cli",
    "reports",
    "reading",
    "plans",
    "closing",
    "compare",
    "candidates",
    "reconcile",
    "foreign",
    "iceberg",
    "assets",
    "buckets",
    "engines",
    "export",
    "pipeline",
    "dagster",
    "upkeep",
    "erasure",
    "agent",
)
