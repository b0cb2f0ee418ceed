"""What a backfill plan is, its file in the lake, and how far it came.

Not here: making and running one (`backfill`), and the run in Dagster (`plans.plan_job`).
"""
