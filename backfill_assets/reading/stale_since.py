"""Since when days of a table are stale: the first write of an input that changed what they were
made from.

Not here: which days are stale (`kernel.core.states`), and why (`reports.show`). Nothing is kept:
logs say it, so that it is the same whoever asks, and however late.
"""

from collections import defaultdict
from collections.abc import Iterator, Set
from datetime import date, datetime

from backfill_assets.kernel.core.contracts import InputKind
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.fitness import input_days

MOST_WRITES = 20  # the oldest ones: each is one commit to read, and the inputs' later commits


def stale_since(lake: Lake, states: States, table: str) -> datetime | None:
    """Return when the first stale day of the table became so (aware): the first commit of an input
    that names one of its input days, after the version that it was made from.

    None where no commit says it: without stale days; of landed tables, whose files changed; where
    settings, time or another program made days stale. A write that left an input day's rows as they
    were counts, too. Reads the receipts of the `MOST_WRITES` oldest writes with stale days.
    """
    stale = defaultdict[int, set[date]](set)
    for day, receipt in states.view.table(table).latest.items():
        if states.of(table, day) is State.STALE:
            stale[receipt.version].add(day)
    found = list[datetime]()
    for version in sorted(stale)[:MOST_WRITES]:
        found += _first_changes(lake, states, table, version, stale[version])
    return min(found, default=None)


def _first_changes(
    lake: Lake, states: States, table: str, version: int, days: Set[date]
) -> Iterator[datetime]:
    """Yield per input the time of its first commit that names an input day of these `days`, which
    the `version` of the table wrote."""
    receipt = lake.store.receipt(table, version)
    if receipt is None:
        return
    for wanted in states.contracts[table].inputs:
        read_version = receipt.inputs.get(wanted.table)
        if read_version is None or wanted.kind is InputKind.FILES:
            continue
        read_days = set[date]()
        for day in days:
            read_days.update(input_days(states, wanted, day))
        for commit in lake.store.commits(wanted.table, read_version):
            if commit.receipt is not None and not read_days.isdisjoint(commit.receipt.days):
                yield commit.at
                break
