"""Backfill plans: made in chunks with a price, run behind gates, put back chunk by chunk.

Uses the kernel, `intake`, `compare` and `reading`. Adds the commands `plan`, `run`, `rollback` and
`release`, and their jobs in Dagster (`plans.in_dagster`). Not here: one backfill of days
(`cli.backfill`). Guide: plans.
"""

from backfill_assets.kernel.core.rooms import Command, Room

ROOM = Room(
    name="plans",
    commands={
        "plan": Command(
            "plans.plan_command:plan",
            "Correct",
            "Plan a backfill in chunks, with a price.",
        ),
        "run": Command("plans.run_command:run", "Correct", "Run a plan: chunk, gate, chunk."),
        "rollback": Command(
            "plans.rollback_command:rollback",
            "Correct",
            "Put days back to what they held.",
        ),
        "release": Command(
            "plans.rollback_command:release",
            "Correct",
            "Allow rebuilds of days put back.",
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
