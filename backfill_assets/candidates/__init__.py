"""Tables built beside a lake and switched at once, and snapshots: days kept under a name.

Uses the kernel and `plans`. Adds the commands `candidate` and `snapshot`. Not here: comparing a
candidate with the lake (`compare`). Guide: correcting-the-past.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="candidates",
    commands={
        "candidate": Command(
            "candidates.candidate_command:candidate",
            "Correct",
            "Tables built beside, switched at once.",
            {
                "create": Document("candidates.candidate_command:CreateAnswer"),
                "list": Document("candidates.candidate_command:CandidateListAnswer"),
                "publish": Document("candidates.publications:Publication"),
                "discard": Document("candidates.candidate_command:DiscardAnswer"),
            },
        ),
        "snapshot": Command(
            "candidates.candidate_command:snapshot",
            "Keep",
            "Keep days under a name, for ever.",
            {
                "create": Document("reading.kept_snapshots:SnapshotForm"),
                "list": Document("candidates.candidate_command:SnapshotListAnswer"),
                "show": Document("reading.kept_snapshots:SnapshotForm"),
                "drop": Document("candidates.candidate_command:DropAnswer"),
            },
        ),
    },
    offers={
        "make_target": "candidates.candidate_command:make_target",
        "candidate_statuses": "candidates.candidates:candidate_statuses",
        "discard_candidate": "candidates.candidates:discard_candidate",
        "drop_snapshot": "candidates.snapshots:drop_snapshot",
    },
)
