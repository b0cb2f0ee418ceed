"""Names of functions that the row does not decide: each for one reason, and those that are words.

Not tested here: the searches for these names (`engines.test_frames`, `intake.test_select`).
"""

from backfill_assets.kernel.core.unsteady import BARE, CHANCE, CLOCK, PLACE, UNDECIDED


def test_a_function_that_the_row_does_not_decide_has_one_reason() -> None:
    assert len(CLOCK | CHANCE | PLACE) == len(CLOCK) + len(CHANCE) + len(PLACE)


def test_what_is_called_without_brackets_reads_the_clock_or_the_session() -> None:
    assert BARE < UNDECIDED
    assert not BARE & CHANCE
