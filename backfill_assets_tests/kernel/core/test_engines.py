"""Two engines and one day: an alarm only where inputs, code and settings are the same and the rows
are not.

Tested here: that comparison, on plain values. Not tested here: engines (`end_to_end.test_sail`).
"""

from dataclasses import replace

import pytest

from backfill_assets.kernel.core.engines import rebuild_disagreement
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.view import DayReceipt

ENTRY = DayEntry(3, "f", "inputs")
CODE = ("code", "settings")
BEFORE = DayReceipt(ENTRY, 1, "write", *CODE, "run", engine="spark 4.2.0")


def test_another_engine_that_gives_the_same_rows_is_no_news() -> None:
    assert rebuild_disagreement(BEFORE, ENTRY, CODE, "sail 0.7.2") == ""


def test_other_rows_of_the_same_inputs_and_code_name_both_engines() -> None:
    told = rebuild_disagreement(BEFORE, replace(ENTRY, fingerprint="g"), CODE, "sail 0.7.2")
    assert "sail 0.7.2 gives other rows (3, fingerprint g) than spark 4.2.0 gave (3, f)" in told


def test_other_rows_by_the_same_engine_say_that_the_transform_depends_on_more_than_its_inputs() -> (
    None
):
    told = rebuild_disagreement(BEFORE, replace(ENTRY, rows=4), CODE, "spark 4.2.0")
    assert told.endswith(
        "from the same inputs and code: the transform depends on more than its inputs, such as a "
        "file, "
        "the network or chance"
    )
    assert rebuild_disagreement(BEFORE, ENTRY, CODE, "spark 4.2.0") == ""


@pytest.mark.parametrize(
    ("before", "now", "code", "engine"),
    [
        (
            replace(BEFORE, engine=""),
            replace(ENTRY, rows=4),
            CODE,
            "sail 0.7.2",
        ),  # a receipt from before engines
        (BEFORE, replace(ENTRY, rows=4), ("other", "settings"), "sail 0.7.2"),
        (BEFORE, replace(ENTRY, rows=4, input_digest="newer"), CODE, "sail 0.7.2"),
        (BEFORE, replace(ENTRY, rows=4, built=Built.INCOMPLETE), CODE, "sail 0.7.2"),
        (BEFORE, replace(ENTRY, fingerprint="g", scheme=1), CODE, "sail 0.7.2"),
    ],
)
def test_what_nobody_can_compare_is_fine(
    before: DayReceipt, now: DayEntry, code: tuple[str, str], engine: str
) -> None:
    assert rebuild_disagreement(before, now, code, engine) == ""
