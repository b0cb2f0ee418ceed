"""The writes behind days of a table, each with the days that are still as it made them.

Lives here: reading one receipt per write, however many days it wrote. Does not live here: what a receipt says
(`core.receipts`) and which write made a day (`core.view`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date

from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import Stamp
from backfill_assets.lake.store import TableStore


def writes_of(
    store: TableStore, table: str, stamps: Mapping[date, Stamp]
) -> Iterator[tuple[Receipt | None, Mapping[date, Stamp]]]:
    """Each write with those of the days that it made, in the order of their first; None for one without a receipt.

    Raises BackfillError where a commit is torn.
    """
    found = defaultdict[int, dict[date, Stamp]](dict)
    for day, stamp in stamps.items():
        found[stamp.version][day] = stamp
    for version, made in found.items():
        yield store.read_commit(table, version).receipt, made
