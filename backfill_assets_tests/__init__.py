"""The tests, in rooms that mirror the package's: `core/test_<noun>.py`, `operations/test_<verb>.py` and so on.

What a test needs decides how dear it is: the marker `spark` follows from its fixtures (`conftest.py`), not from a word.
"""
