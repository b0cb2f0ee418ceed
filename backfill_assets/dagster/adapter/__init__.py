"""Dagster's room. Assets, checks, jobs, the IO manager and their assembly live here.

Does not live here: any particular table (`pipeline`), and anything that reads or writes one
(`kernel`).
"""
