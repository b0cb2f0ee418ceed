"""What differs between two versions of a table, by key and column, and proofs that days compute
alike again.

Uses the kernel, `reading`, `engines` and `intake`. Adds the commands `compare`, `check-engine` and
`prove`, and the standing proof in Dagster (`compare.in_dagster`); offers other rooms what differs
between two contents. Not here: comparing with a side that is no table of a lake (`reconcile`).
Guide: correcting-the-past.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="compare",
    commands={
        "compare": Command(
            "compare.compare_command:compare",
            "Correct",
            "What differs between two versions.",
            {"": Document("compare.compare_command:CompareAnswer")},
        ),
        "check-engine": Command(
            "compare.compare_command:check_engine",
            "Trust",
            "Recompute days on the other engine.",
            {"": Document("compare.prove:EngineForm")},
        ),
        "prove": Command(
            "compare.prove_command:prove",
            "Trust",
            "Recompute days in another order.",
            {"": Document("compare.prove:ProveAnswer")},
        ),
    },
    settings="compare.settings:CompareSettings",
    dagster="compare.in_dagster:definitions",
    offers={
        "count_changes": "compare.compare:count_changes",
        "day_changes": "compare.differences:day_changes",
        "recompute": "compare.recompute:recompute_days",
    },
)
