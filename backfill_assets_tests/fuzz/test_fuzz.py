"""Files of a lake whose bytes are others: commands are right, or say in one line what is wrong.

Tested here: a fixed number of damages by seeds. Not tested here: many, and lakes in a bucket; for
hours: `python -m backfill_assets_tests.thorough fuzz fuzz-bucket`. What was found once has its test
beside the code that was mended.
"""

import pytest

from backfill_assets_tests.fuzz.judge import story

SEEDS = 24  # some ten seconds
LOOKS = 3  # commands that read, after each
GROUPS = 4


@pytest.mark.slow
@pytest.mark.parametrize("first", range(GROUPS))
def test_a_damaged_file_is_named_in_one_line_or_changes_no_answer(first: int) -> None:
    stories = {seed: story(seed, looks=LOOKS) for seed in range(first, SEEDS, GROUPS)}
    wrong = [f"seed {n}: {damage}: {faults}" for n, (damage, faults) in stories.items() if faults]
    assert not wrong, "\n".join(wrong)
