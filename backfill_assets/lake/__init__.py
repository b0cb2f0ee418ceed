"""The only room that opens a table. Engine, landing, log, read, profile, replace, receipts and locks live here.

Does not live here: which tables exist (`pipeline`), when they are written (`orchestration`) and Dagster.
"""
