"""Types of documents: a day is a text with its format, a span has both ends.

Not tested here: the schemas of documents (`cli/test_schema_command.py`).
"""

from datetime import date
from typing import get_args, get_type_hints

from backfill_assets.kernel.core.answers import DaySpan, DayText, InSchema
from backfill_assets.kernel.core.days import inclusive_range


def test_a_day_is_a_text_of_that_format() -> None:
    kind, note = get_args(DayText)
    assert (kind, note) == (str, InSchema(format="date"))


def test_a_range_gives_the_keys_of_a_span() -> None:
    days = inclusive_range(date(2024, 3, 1), date(2024, 3, 2))
    assert days.to_dict().keys() == get_type_hints(DaySpan).keys()
