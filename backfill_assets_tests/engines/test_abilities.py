"""What an engine is asked: columns that name a row.

Not tested here: what Sail answers (`engines.test_sail`, `engines.test_sail_differences`).
"""

from backfill_assets.engines.abilities import identifying_columns
from backfill_assets.kernel.core.contracts import Column, Contract


def test_a_key_holds_the_day_or_the_time_that_decides_it() -> None:
    columns = (
        Column("seq", "BIGINT", "n"),
        Column("arrival_ts", "TIMESTAMP", "t"),
        Column("arrival_date", "DATE", "d"),
    )
    raw = Contract("raw", "r", columns, "arrival_date", ("seq",), ())
    assert identifying_columns([raw]) == [
        frozenset({"seq", "arrival_date"}),
        frozenset({"seq", "arrival_ts"}),
    ]
