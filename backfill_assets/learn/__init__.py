"""To learn and to begin: examples, labs, drills, the demo, and a `lake.toml` that fits one's files.

Uses all else; nothing uses it. Adds the commands `demo`, `example`, `lab`, `drill`, `guide`,
`init`. Not here: any write path. Guides: practice, first-lake.
"""

from backfill_assets.kernel.core.rooms import Command, Room

ROOM = Room(
    name="learn",
    needs=("plans", "reports"),
    commands={
        "guide": Command(
            "learn.practice_command:guide",
            "Begin",
            "Guides: list them, or print one.",
        ),
        "demo": Command("learn.demo_command:demo", "Begin", "Make a sample lake, load it twice."),
        "example": Command(
            "learn.demo_command:example",
            "Begin",
            "Lakes to learn from, step by step.",
        ),
        "lab": Command(
            "learn.practice_command:lab",
            "Begin",
            "Unsafe forms fail beside safe ones.",
        ),
        "drill": Command(
            "learn.practice_command:drill",
            "Begin",
            "Faults to mend against a clock.",
        ),
        "init": Command("learn.init_command:init", "Begin", "A lake.toml that fits your files."),
    },
    offers={"sample_lakes": "learn.example_lakes"},
)
