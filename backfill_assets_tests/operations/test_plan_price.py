"""Prices learnt from receipts: by medians, with an interval that holds what was seen.

Tested here: `operations.plan_price.model_of`. Not tested here: prices of a lake (`test_plan.py`).
"""

from datetime import date

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.store import Commit
from backfill_assets.operations.plan_price import model_of


def wrote(version: int, days: int, seconds: float, cpu: float | None = None) -> Commit:
    """A commit of so many days."""
    entries = {date(2024, 3, 1) + ONE_DAY * n: DayEntry(10, "F", "d") for n in range(days)}
    return Commit(
        version, Receipt(f"w{version}", "staging", "manual", entries, seconds=seconds, cpu_seconds=cpu), 0, "WRITE"
    )


def test_a_cold_start_among_many_writes_moves_neither_price_nor_interval() -> None:
    log = [wrote(0, 1, 180.0), *(wrote(n, 1 + n % 5, 2.0 + 1.0 * (1 + n % 5)) for n in range(1, 20))]
    price = model_of(log, 8.0).price(10)
    assert abs(price.seconds - 12.0) < 0.5
    assert price.most < 24
    assert (price.rows, price.bytes) == (100, 800)


def test_without_writes_it_is_a_guess() -> None:
    assert model_of([], 0.0).price(3).is_guess


def test_processor_seconds_are_promised_as_receipts_tell_them_and_not_without() -> None:
    assert model_of([wrote(n, 2, 4.0) for n in range(9)], 8.0).price(2).cpu is None
    told = model_of([wrote(n, 2, 4.0, 6.0) for n in range(9)], 8.0).price(2)
    assert told.cpu == 6.0
    assert (told + told).cpu == 12.0


def test_of_a_size_that_was_never_written_the_interval_holds_what_a_day_alone_would_cost() -> None:
    model = model_of([wrote(0, 632, 335.0), wrote(1, 45, 29.0)], 8.0)
    assert model.price(7).least <= 4.0 <= model.price(7).most, "most of it was the days"
    assert model.price(45).least <= 29.0 <= model.price(45).most
    long = model_of([wrote(0, 1, 3.0), wrote(1, 2, 4.0)], 8.0).price(100)
    assert long.most >= 300
