"""Backfill plans: made in chunks with a price, run behind gates, put back chunk by chunk.

Uses the kernel, `intake`, `compare` and `reading`. Adds the commands `plan`, `run`, `rollback` and
`release`, and the job of a plan in Dagster (`plans.plan_job`). Not here: one backfill of days
(`cli.backfill`). Guide: plans.
"""
