"""Skew of the days that a plan reads: rows with the most frequent key, and without a key, as
receipts counted them.

Not here: counting (`kernel.write.audit`), the gate of a write (`kernel.write.gates`), and joins
that spread a key (`pipeline`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from backfill_assets.engines.confs import EngineSettings, local_cores
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.profiles import counted_most, counted_nulls, is_skewed, key_name
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake

PARTITIONS, SPARK_DEFAULT = "spark.sql.shuffle.partitions", "200"
UNEVEN = 2  # times an even share, below which a plan takes hardly longer
# Per table to write: the days of each table that it reads.
Reads = Mapping[str, Mapping[str, Sequence[DayRange]]]


@dataclass(frozen=True)
class KeyShare:
    """How many rows of a day of `table`, which a plan reads, have one key. Days are judged by the
    most frequent key."""

    table: str
    by: tuple[str, ...]  # the columns of the key
    readers: tuple[str, ...]  # the tables that group or join `table` by it
    choice: str  # of the readers against skew
    day: date  # the day with the most frequent key
    rows: int  # of that day
    group: int  # rows that go to one task
    most: int  # rows with the most frequent key
    nulls: int  # rows without a key
    tasks: int
    unknown: int = 0  # number of days whose receipts lack such figures
    bound: float | None = None  # `max_key_share` of the table
    beyond: tuple[date, ...] = ()  # the days that exceed `bound`

    def __str__(self) -> str:
        """E.g. `staging by entity (features): 40% of the 100 rows of 2024-03-01 have one key`, and
        how much longer than others the task with that key takes."""
        greatest = (
            f"{self.most / self.rows:.0%} of the {self.rows:,} rows of {self.day} have one key"
        )
        if self.nulls:
            greatest += f", {self.nulls / self.rows:.0%} none"
        facts = [greatest]
        slowest = max(1.0, self.group / self.rows * self.tasks)
        if slowest >= UNEVEN:
            facts.append(
                f"so one of {self.tasks} task(s) has up to {slowest:.1f} times an even share"
            )
        if self.unknown:
            facts.append(f"unknown of {self.unknown} day(s), written before this was kept")
        whose = f"{', '.join(self.readers)}; {self.choice}".removesuffix("; ")
        return f"{self.table} by {', '.join(self.by)} ({whose}): {'; '.join(facts)}"


def key_shares(lake: Lake, states: States, reads: Reads) -> tuple[KeyShare, ...]:
    """Return one share per table that is read, key and choice; none of keys without any known
    day."""
    # By table, key and choice: the input, its readers in order, and the days that they read.
    groups: dict[tuple[str, str, str], tuple[Input, dict[str, None], set[date]]] = {}
    for reader, spans in reads.items():
        for wanted in states.contracts[reader].inputs:
            if not _has_counted_key(states, wanted):
                continue
            group = (wanted.table, key_name(wanted.by), wanted.spread)
            _, readers, days = groups.setdefault(group, (wanted, {}, set()))
            readers[reader] = None
            days.update(*spans.get(wanted.table, ()))
    found = []
    for wanted, readers, days in groups.values():
        share = _key_share(lake, states, wanted, tuple(readers), days)
        if share is not None:
            found.append(share)
    return tuple(found)


def _has_counted_key(states: States, wanted: Input) -> bool:
    """Whether an input is read by a key that receipts of its table count."""
    if not wanted.by:
        return False
    counted = map(key_name, states.contracts[wanted.table].read_by)
    return key_name(wanted.by) in counted


def _key_share(
    lake: Lake, states: States, wanted: Input, readers: tuple[str, ...], days: set[date]
) -> KeyShare | None:
    """The share of the key by which `readers` read the input, on that of `days` where it is
    largest; None where no receipt of these days counted the key's rows."""
    latest, key = states.view.table(wanted.table).latest, key_name(wanted.by)
    written = {d: latest[d].entry for d in sorted(days) if d in latest and latest[d].entry.rows}
    known = {d: e for d, e in written.items() if key in counted_most(e.counts)}
    if not known:
        return None
    bounds = lake.settings.gates.tables.get(wanted.table)
    bound = bounds.max_key_share if bounds else None
    rows_of_key = {d: _key_rows(entry, wanted) for d, entry in known.items()}
    worst = max(known, key=lambda d: rows_of_key[d].largest_group)
    heavy = {d: _heaviest_task(entry, wanted) for d, entry in known.items()}
    beyond = []
    if bound is not None:
        beyond = [d for d, rows in heavy.items() if is_skewed(rows, known[d].rows, bound)]
    return KeyShare(
        table=wanted.table,
        by=wanted.by,
        readers=readers,
        choice=wanted.spread,
        day=worst,
        rows=known[worst].rows,
        group=heavy[worst],
        most=rows_of_key[worst].of_top_key,
        nulls=rows_of_key[worst].without_key,
        tasks=shuffle_tasks(LakeSession(lake).engine),
        unknown=len(written) - len(known),
        bound=bound,
        beyond=tuple(beyond),
    )


def _heaviest_task(entry: DayEntry, wanted: Input) -> int:
    """The rows of a day that go to one task, as the reader spreads them."""
    if wanted.finer:
        return 1  # rows are grouped by more columns first, so a key comes with one row per day
    return _key_rows(entry, wanted).largest_group // wanted.salt


class _KeyRows(NamedTuple):
    """Rows of a day by the columns of a key."""

    largest_group: int  # of one key, or without a key
    of_top_key: int  # rows with the most frequent key
    without_key: int


def _key_rows(entry: DayEntry, wanted: Input) -> _KeyRows:
    """The rows of a day by the key of an input, as its receipt counted them. Rows without a key are
    no group where they are computed apart; of several key columns, the column that is NULL most
    often counts."""
    nulls = counted_nulls(entry.counts)
    most = counted_most(entry.counts)[key_name(wanted.by)]
    without_key = max((nulls.get(column, 0) for column in wanted.by), default=0)
    largest = most if wanted.isolate_nulls else max(most, without_key)
    return _KeyRows(largest, most, without_key)


def shuffle_tasks(settings: EngineSettings) -> int:
    """Return the number of tasks that rows are spread over by key."""
    if settings.computes_here and PARTITIONS not in settings.confs:
        return local_cores(settings)
    return int(settings.confs.get(PARTITIONS, SPARK_DEFAULT))
