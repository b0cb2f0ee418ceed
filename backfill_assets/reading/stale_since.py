"""Since when days of a table are stale: the first write of an input that changed what they were
made from.

Not here: which days are stale (`kernel.core.states`), and why (`reports.show`). Nothing is kept:
logs say it, so that it is the same whoever asks, and however late.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from datetime import date, datetime

from backfill_assets.kernel.core.contracts import InputKind
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.fitness import input_days

Reading = tuple[int, Set[date]]  # the version of an input, and its days that were read of it
MOST_WRITES = 20  # the oldest ones, each a commit to read
MOST_COMMITS = 20  # of an input, so that what is asked does not grow with its history


def stale_since(lake: Lake, states: States, table: str) -> datetime | None:
    """Return when the first stale day of the table became so (aware): the first commit of an input
    that names one of its input days, after the version that it was made from. Behind
    `MOST_COMMITS` commits it is the first of those by which the input days are as they are now.

    None where no commit says it: without stale days; of landed tables, whose files changed; where
    settings, time or another program made days stale. A write that left an input day's rows as they
    were counts, too. Reads the receipts of the `MOST_WRITES` oldest writes with stale days.
    """
    stale = defaultdict[int, set[date]](set)
    for day, receipt in states.view.table(table).latest.items():
        if states.of(table, day) is State.STALE:
            stale[receipt.version].add(day)
    read = defaultdict[str, list[Reading]](list)
    for version in sorted(stale)[:MOST_WRITES]:
        for name, reading in _readings(lake, states, table, version, stale[version]):
            read[name].append(reading)
    changes = (_first_change(lake, states, name, readings) for name, readings in read.items())
    return min(filter(None, changes), default=None)


def _readings(
    lake: Lake, states: States, table: str, version: int, days: Set[date]
) -> Iterator[tuple[str, Reading]]:
    """Yield per input what these `days` of the table, which its `version` wrote, were made from."""
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
        yield wanted.table, (read_version, read_days)


def _first_change(
    lake: Lake, states: States, name: str, readings: Sequence[Reading]
) -> datetime | None:
    """Return the time of the first commit of an input that names a day which was read at an earlier
    version; None where no such day was written since."""
    latest = states.view.table(name).latest
    newest = set[int]()  # by which a day that was read is as it is now
    for read_version, days in readings:
        versions = {latest[day].version for day in days & latest.keys()}
        newest |= {version for version in versions if version > read_version}
    if not newest:
        return None
    first = min(read_version for read_version, _ in readings) + 1
    for version in range(first, min(first + MOST_COMMITS, *newest)):
        commit = lake.store.commit(name, version)
        if _names_reading(commit, readings):
            return commit.at
    return lake.store.commit(name, min(newest)).at


def _names_reading(commit: Commit, readings: Sequence[Reading]) -> bool:
    """Whether a commit names a day that was read at an earlier version."""
    named = commit.receipt.days.keys() if commit.receipt is not None else frozenset[date]()
    return any(read < commit.version and not days.isdisjoint(named) for read, days in readings)
