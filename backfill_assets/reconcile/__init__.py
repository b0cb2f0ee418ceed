"""A table against another side, by key: a file, another lake, a database; and checks that stand for
ever.

Uses the kernel and `reading`. Adds the commands `reconcile` and `controls`, and controls in Dagster
(`reconcile.in_dagster`). Not here: two versions of one table (`compare`). Guide: trust.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="reconcile",
    commands={
        "reconcile": Command(
            "reconcile.reconcile_command:reconcile",
            "Trust",
            "A table against another side, by key.",
            {"": Document("reconcile.reconcile_layers:ReconcileAnswer")},
        ),
        "controls": Command(
            "reconcile.controls_command:controls",
            "Trust",
            "Known totals against the tables.",
            {"": Document("reconcile.reconcile:ControlsAnswer")},
        ),
    },
    dagster="reconcile.in_dagster:definitions",
    offers={
        "judge_controls": "reconcile.reconcile:judge_controls",
        "judge_controls_over": "reconcile.reconcile:judge_affected_controls",
    },
)
