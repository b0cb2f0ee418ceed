"""A small lake whose staging and features are closed up to a day, and rows that come late for it.
Here: the requests, and late rows as a load leaves them. Not here: anything that Spark computes."""

from backfill_assets.closing.closing import ClosingRequest, MovedClosure, close_tables
from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets_tests.builders import day, receipt, write_rows
from backfill_assets_tests.planned import DAYS, Planned
from backfill_assets_tests.synthetic import arrival

LAST = 3  # the number of the last closed day
SAID = {"by": "ann@desk"}


def asked(*tables: str, as_they_are: bool = False) -> ClosingRequest:
    """A request of ann for these tables."""
    return ClosingRequest(tables, "the books of March", SAID, as_they_are)


def close_first_days(made: Planned, *tables: str) -> list[MovedClosure]:
    """Close the days 0 to 3 of these tables (none: of staging and features)."""
    return close_tables(made.lake, made.pipeline, day(LAST), asked(*tables))


def land_late(made: Planned, event: int, rows: int) -> None:
    """Let so many rows of an earlier event day arrive on the last day, as its load leaves it."""
    last = DAYS - 1
    version = made.write("raw", {last: 2})
    late = {**arrival(day(last), f"late-{event}", rows), "event_date": day(event)}
    own = arrival(day(last), f"F-{last}")
    said = receipt(
        ARRIVALS.name, {day(last): DayEntry(2, f"L-{event}", "")}, inputs={"raw": version}
    )
    write_rows(made.lake.table_place(ARRIVALS.name).local(), ARRIVALS, [own, late], said)
