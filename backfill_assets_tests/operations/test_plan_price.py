"""Prices learnt from receipts: by medians, with an interval that holds what was seen.

Tested here: `operations.plan_price.model_of`. Not tested here: prices of a lake (`test_plan.py`).
"""

from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.contracts import Basis, Input
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.store import Commit
from backfill_assets.operations.plan_price import GUESS_WARMING, model_of, reaching_over
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
    assert model.price(7).seconds < 6, "and is expected so: a fraction of what 45 days took"
    assert model.price(7).most >= 29, "if nothing of that was the days, these take as long"
    long = model_of([wrote(0, 1, 3.0), wrote(1, 2, 4.0)], 8.0).price(100)
    assert long.most >= 300


def test_the_wait_for_an_engine_is_no_part_of_a_write_and_a_cold_one_adds_to_the_first_alone() -> None:
    warm = [wrote(n, 7, 7.0, 10.0, run_id="warm", start_seconds=0.0) for n in range(1, 10)]
    cold = [wrote(0, 7, 90.0, 60.0, run_id="cold", start_seconds=70.0), *warm]
    model = model_of(cold, 8.0, {"cold"})
    assert (round(model.price(7).seconds, 6), round(model.price(7).cpu or 0, 6)) == (7.0, 10.0)
    first = model.price(7, is_first=True)
    assert (round(first.seconds, 6), round(first.cpu or 0, 6)) == (20.0, 60.0), "13 s longer, once it was open"
    assert first.least == model.price(7).least, "it may be warm"
    assert first.most > 33
    alone = model_of(cold[:1], 8.0, {"cold"}).price(7)
    assert round(alone.seconds, 6) == 20.0


@given(days=st.integers(100, 3000), seconds=st.floats(1, 3600), weeks=st.lists(st.floats(2, 9), min_size=1))
def test_a_cold_backfill_of_years_teaches_nothing_of_what_a_canary_takes_longer(
    days: int, seconds: float, weeks: list[float]
) -> None:
    years = wrote(0, days, seconds, 2 * seconds, run_id="cold", start_seconds=0.0)
    warm = [wrote(n, 7, took, 9.0, run_id="warm", start_seconds=0.0) for n, took in enumerate(weeks, 1)]
    model = model_of([years, *warm], 8.0, {"cold"})
    assert model.warming == GUESS_WARMING
    warm_canary, canary = model.price(1), model.price(1, is_first=True)
    assert abs(canary.seconds - warm_canary.seconds - GUESS_WARMING[0]) < 0.001


@given(cold=st.floats(0, 60), more=st.integers(4, 14), years=st.floats(100, 900))
def test_the_cold_part_is_learnt_from_cold_writes_of_a_size_that_warm_ones_had(
    cold: float, more: int, years: float
) -> None:
    warm = [wrote(n, 7, 7.0, 9.0, run_id="warm", start_seconds=0.0) for n in range(9)]
    begun = wrote(9, more, float(more) + cold, 9.0, run_id="cold", start_seconds=0.0)
    long = wrote(10, 632, years, 9.0, run_id="cold", start_seconds=0.0)
    for log in ([*warm, begun], [long, *warm, begun]):
        longer = model_of(log, 8.0, {"cold"}).warming
        off = abs(more - 7) * 0.3  # a line through one size is not that of the days
        assert cold - off - 0.001 <= longer[0] <= cold + off + 0.001
        assert longer[1] >= longer[0]


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
