"""Benchmarks: ratios within one run on the same input, run by hand. Nothing here is collected as a
test.

Each module is a program: `python -m backfill_assets_tests.benchmarks.NAME`. It prints wall and CPU
seconds and memory.
"""
