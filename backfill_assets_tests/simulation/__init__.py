"""A simulation of several machines on one lake: the package's own code, one seeded scheduler.

Here: processes that stop before each request to a store in memory of this process's disk, a clock
that only the scheduler moves, faults of the store, of machines and of clocks, and what must hold
afterwards. Not here: engines (rows follow by arithmetic) and Dagster. How to play:

    python -m backfill_assets_tests.simulation --seeds 100 --minutes 10
"""
