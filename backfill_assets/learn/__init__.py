"""To learn and to begin: examples, labs, drills, the demo, and a `lake.toml` that fits one's files.

Uses all else; nothing uses it. Adds the commands `demo`, `example`, `lab`, `drill`, `guide`,
`init`. Not here: any write path. Guides: practice, first-lake.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="learn",
    needs=("plans", "reports"),
    commands={
        "guide": Command(
            "learn.practice_command:guide",
            "Begin",
            "Guides: list them, or print one.",
            {"": Document("learn.practice_command:GuideAnswer")},
        ),
        "demo": Command(
            "learn.demo_command:demo",
            "Begin",
            "Make a sample lake, load it twice.",
            {"": Document("learn.demo_command:DemoAnswer")},
        ),
        "example": Command(
            "learn.demo_command:example",
            "Begin",
            "Lakes to learn from, step by step.",
            {"": Document("learn.demo_command:ExampleAnswer")},
        ),
        "lab": Command(
            "learn.practice_command:lab",
            "Begin",
            "Unsafe forms fail beside safe ones.",
            {"": Document("learn.practice_command:LabAnswer")},
        ),
        "drill": Command(
            "learn.practice_command:drill",
            "Begin",
            "Faults to mend against a clock.",
            {"": Document("learn.practice_command:DrillAnswer")},
        ),
        "init": Command("learn.init_command:init", "Begin", "A lake.toml that fits your files."),
    },
    offers={"sample_lakes": "learn.example_lakes"},
)
