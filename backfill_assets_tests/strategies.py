"""Hypothesis strategies for the values of `kernel.core`. What they make is valid: tests of refusals
write their own. Here: days, ranges, day entries, receipts, orders of loading, and how many examples
a dear property is tried with. Not here: frames, and the two profiles (`conftest.py`)."""

from datetime import UTC, date

from hypothesis import settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.receipts import Built, DayEntry, Receipt

# Where it is set, chance chooses the examples; else they are the same in every run.
CHANCE = "BACKFILL_ASSETS_CHANCE"
# Of a property that does not say otherwise; a run of the quick tests alone tries a fifth.
THOROUGH_EXAMPLES = 30


def examples(thorough: int) -> int:
    """So many examples of a dear property, or whatever else is counted; a third in a run of the
    quick tests alone."""
    profile = settings.default
    return max(1, thorough * profile.max_examples // THOROUGH_EXAMPLES) if profile else thorough


FIRST, LAST = (
    date(1, 1, 1),
    date(9999, 12, 30),
)  # the day after the last must exist, since ranges are half-open

days = st.dates(FIRST, LAST)
near_days = st.dates(
    date(2024, 2, 20), date(2024, 3, 10)
)  # close together, so that runs of days form
day_ranges = st.builds(
    lambda start, length: DayRange(start, start + ONE_DAY * length),
    st.dates(FIRST, date(9000, 1, 1)),
    st.integers(1, 400),
)
orders_of_loading = st.permutations(range(6))
lake_steps = st.lists(
    st.tuples(st.sampled_from(("land", "load", "load all", "cut off")), st.integers(0, 5)),
    max_size=14,
)
texts = st.text(max_size=20)
day_entries = st.builds(
    DayEntry, st.integers(0, 10**12), texts, texts, st.sampled_from(Built), scheme=st.integers(1, 5)
)
receipts = st.builds(
    Receipt,
    write_id=texts,
    table=texts,
    reason=texts,
    days=st.dictionaries(days, day_entries, max_size=5),
    run_id=texts,
    note=texts,
    code_digest=texts,
    settings_digest=texts,
    frontier=st.none() | st.datetimes(timezones=st.just(UTC)),
    inputs=st.dictionaries(texts, st.integers(-1, 10**9), max_size=3),
    tags=st.dictionaries(texts, texts, max_size=3),
    seconds=st.none() | st.floats(0, 1e6),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
