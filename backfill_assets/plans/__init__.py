"""Backfill plans: made in chunks with a price, run behind gates, put back chunk by chunk.

Uses the kernel, `intake`, `compare` and `reading`. Adds the commands `plan`, `run`, `rollback` and
`release`, and their jobs in Dagster (`plans.in_dagster`). Not here: one backfill of days
(`cli.backfill`). Guide: plans.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="plans",
    commands={
        "plan": Command(
            "plans.plan_command:plan",
            "Correct",
            "Plan a backfill in chunks, with a price.",
            {
                "": Document("plans.plan_command:PlanAnswer"),
                "list": Document("plans.plan_command:PlanListAnswer"),
                "show": Document("plans.plan_page:PlanForm"),
                "pause": Document("plans.plan_command:MarkedPlan"),
                "resume": Document("plans.plan_command:MarkedPlan"),
                "cancel": Document("plans.plan_command:MarkedPlan"),
            },
        ),
        "run": Command(
            "plans.run_command:run",
            "Correct",
            "Run a plan: chunk, gate, chunk.",
            {"": Document("plans.plan_page:PlanForm")},
        ),
        "rollback": Command(
            "plans.rollback_command:rollback",
            "Correct",
            "Put days back to what they held.",
            {"": Document("plans.rollback:RollbackForm")},
        ),
        "release": Command(
            "plans.rollback_command:release",
            "Correct",
            "Allow rebuilds of days put back.",
            {"": Document("plans.rollback_command:ReleaseAnswer")},
        ),
    },
    settings="plans.settings:PlansSettings",
    dagster="plans.in_dagster:definitions",
    doctor={"the plans": "plans.files:examine_plans"},
    offers={
        "find_plan": "plans.files:find_plan",
        "finished_plans": "plans.files:finished_plans",
        "key_shares": "plans.skew:key_shares",
        "plan_items": "plans.plan_items:plan_items",
        "active_plans": "plans.files:active_plans",
        "held_back": "plans.files:holding_plans",
        "make_plan": "plans.plan:plan_days",
        "plan_changes": "plans.progress:plan_changes",
        "price_days": "plans.plan:price_days",
        "step_pool": "plans.settings:step_pool",
    },
)
