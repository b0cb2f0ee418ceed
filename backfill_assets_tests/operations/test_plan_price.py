"""Prices learnt from receipts: seconds per day of past writes, times days.

Tested here: `operations.plan_price.rate_of`. Not tested here: prices of a lake (`test_plan.py`).
"""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.contracts import Basis, Input
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.store import Commit
from backfill_assets.operations.plan_price import WRITE_SECONDS, rate_of, reaching_over
from backfill_assets_tests.builders import contract


def wrote(version: int, days: int, seconds: float, cpu: float | None = None, **more: Any) -> Commit:
    """A commit of so many days."""
    entries = {date(2024, 3, 1) + ONE_DAY * n: DayEntry(10, "F", "d") for n in range(days)}
    return Commit(
        version,
        Receipt(f"w{version}", "staging", "manual", entries, seconds=seconds, cpu_seconds=cpu, **more),
        0,
        "WRITE",
    )


def test_a_plan_after_one_load_is_expected_to_take_what_the_load_took_and_a_second_per_further_write() -> None:
    rate = rate_of([wrote(0, 550, 56.0)], 8.0)
    chunks = [rate.price(50) for _ in range(11)]
    assert sum(c.seconds for c in chunks) == pytest.approx(55.0 + 11 * WRITE_SECONDS)
    assert (sum(c.rows for c in chunks), chunks[0].bytes, chunks[0].is_guess) == (5500, 4000, False)


@given(st.lists(st.tuples(st.integers(1, 600), st.floats(1.0, 900.0)), min_size=1, max_size=40))
def test_what_past_writes_took_is_expected_for_the_same_writes_and_less_unsurely_the_more_there_are(
    writes: list[tuple[int, float]],
) -> None:
    rate = rate_of([wrote(n, *write) for n, write in enumerate(writes)], 8.0)
    prices = [rate.price(days) for days, _ in writes]
    assert sum(p.seconds for p in prices) == pytest.approx(sum(seconds for _, seconds in writes))
    one = rate_of([wrote(0, *writes[0])], 8.0).price(7)
    assert prices[0].most / prices[0].seconds <= one.most / one.seconds <= 4.0


def test_the_wait_for_an_engine_is_no_part_of_a_write() -> None:
    assert rate_of([wrote(0, 7, 78.0, start_seconds=70.0)], 8.0).price(7).seconds == pytest.approx(8.0)


def test_without_writes_it_is_a_guess() -> None:
    assert rate_of([], 0.0).price(3).is_guess


def test_processor_seconds_are_promised_as_receipts_tell_them_and_not_without() -> None:
    assert rate_of([wrote(n, 2, 4.0) for n in range(9)], 8.0).price(2).cpu is None
    told = rate_of([wrote(n, 2, 4.0, 6.0) for n in range(9)], 8.0).price(2)
    assert told.cpu == 6.0
    assert (told + told).cpu == 12.0


def test_seams_reach_tables_whose_inputs_a_later_chunk_changes_and_what_is_made_from_them() -> None:
    tables = [
        contract("raw", "day"),
        contract("staging", "day", Input("raw", basis=Basis.ARRIVALS)),
        contract("windows", "day", Input("sums", before=6)),
        contract("totals", "day", Input("staging")),
    ]
    assert reaching_over(tables, ["raw", "staging", "totals"]) == {"staging", "totals"}
    assert reaching_over(tables, ["totals", "staging"]) == set(), "raw is as it was"
    assert reaching_over(tables, ["sums", "windows"]) == {"windows"}
