"""The tests, in rooms that mirror the package's: `core/test_<noun>.py`, `operations/test_<verb>.py`
and so on.

What a test needs decides how dear it is: the marker `spark` follows from its fixtures
(`conftest.py`), not from a word.

The big variants (1,000 stories of exceptions, 300 of plans, ten kills of a plan, races, orders, 45
wrong days) need variables that `.ci/run` does not set. One command runs them all, for hours, and
prints pytest's verdicts, then a line per variant with its size, seconds and ok or FAILED: `python3
.ci/env.py python -m backfill_assets_tests.thorough`.
"""
