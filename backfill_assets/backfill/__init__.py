"""Making a backfill plan and running its chunks behind gates.

Not here: the plan itself (`plans`), putting chunks back (`operations.rollback`), and the run in
Dagster (`orchestration.plan_job`).
"""
