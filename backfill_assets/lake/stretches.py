"""Data files in stretches: few enough for the embedded engine to hold what it knows of each, and whole days in each.

Lives here: which files are read by one statement. Does not live here: the statements (`audit`, `load.facts`): what they
count is counted per day, so that the answers over all stretches together are those over all files at once.

DuckDB keeps some 40 KiB per file that a statement names: 3,650 files took 138 MiB, in stretches of 512 they take 45, in
the same CPU seconds.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.store import folder_of

AT_ONCE = 512  # files: of 256 each start of a statement begins to show (a quarter more CPU), of 1,024 the memory


def stretches(files: Sequence[str], contract: Contract, at_once: int = AT_ONCE) -> Iterator[list[str]]:
    """The files, at most so many at once unless one day has more: all of a day come together, and no empty stretch.

    Of a table that is not laid out by its day column all files come at once, because a day may lie in any of them.
    """
    if contract.partition_column != contract.day_column or len(files) <= at_once:
        yield from [list(files)] if files else []
        return
    stretch: list[str] = []
    for _, of_day in groupby(sorted(files, key=folder_of), key=folder_of):
        together = list(of_day)
        if stretch and len(stretch) + len(together) > at_once:
            yield stretch
            stretch = []
        stretch += together
    yield stretch
