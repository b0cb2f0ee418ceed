"""The report of a lake, and its writes: commits with durations, and an audit of every write of
every day.

Not here: its other parts (`status`, `lateness`, `check_history`), the history of one day (`show`),
the runs that Dagster keeps (`dagster.adapter.history`), and the page (`reports.report_page`). No
JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import quantiles
from typing import NotRequired, TypedDict

from backfill_assets.kernel.core.answers import InstantText
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.account import (
    Account,
    AccountForm,
    Repeats,
    accounts_by_table,
    repeats_of,
    sum_of_accounts,
)
from backfill_assets.reading.check_history import CheckHistory, CheckHistoryForm, check_history
from backfill_assets.reading.outcomes import ControlOutcome, last_outcomes
from backfill_assets.reading.proofs import Proof, recorded_proofs
from backfill_assets.reading.readable import readable_tables
from backfill_assets.reading.rejected import NEWEST_DAYS, refused_rows
from backfill_assets.reading.writes import TableWrite, table_writes
from backfill_assets.reports.lateness import (
    LatenessForm,
    LatenessReport,
    LatenessScope,
    lateness_of_states,
)
from backfill_assets.reports.status import StatusForm, StatusReport, status_of_states, with_unread

# Enough that one slow write does not decide, few enough that a change shows within days.
NEWEST_WRITES = 10


@dataclass(frozen=True)
class Durations:
    """Seconds of the measured writes of one table."""

    table: str
    writes: int  # how many were measured
    median_s: float
    p95_s: float
    greatest_s: float
    seconds_per_day: float  # their total divided by the days they wrote
    rows_per_second: float | None = None  # of the newest writes (NEWEST_WRITES)
    bytes_per_second: float | None = None  # of the newest writes
    # Rows per second divided by the same of as many writes before; None: there are none.
    trend: float | None = None


def table_durations(
    all_writes: Iterable[TableWrite], tables: Sequence[str]
) -> tuple[Durations, ...]:
    """Return the durations of measured writes per table, in their order; tables without one are
    left out.

    The 95th percentile interpolates between the writes there are (`statistics.quantiles`,
    inclusive).
    """
    measured: dict[str, list[TableWrite]] = {}
    for write in all_writes:
        if write.seconds is not None:
            measured.setdefault(write.table, []).append(write)
    return tuple(_durations_of(name, measured[name]) for name in tables if name in measured)


def _durations_of(table: str, measured: Sequence[TableWrite]) -> Durations:
    """Return the durations of the measured writes of a table, one at least, newest first."""
    seconds = [write.seconds or 0.0 for write in measured]
    days = sum(len(span) for write in measured for span in write.days)
    at_least_two = seconds * 2 if len(seconds) == 1 else seconds  # as `quantiles` wants
    percentiles = quantiles(at_least_two, n=100, method="inclusive")  # the 1st is at index 0
    newest = measured[:NEWEST_WRITES]
    before = measured[NEWEST_WRITES : 2 * NEWEST_WRITES]
    rows = _rate_per_second((w.rows, w) for w in newest)
    rows_before = _rate_per_second((w.rows, w) for w in before)
    return Durations(
        table,
        len(seconds),
        median_s=percentiles[50 - 1],
        p95_s=percentiles[95 - 1],
        greatest_s=max(seconds),
        seconds_per_day=sum(seconds) / days,
        rows_per_second=rows,
        bytes_per_second=_rate_per_second((w.bytes, w) for w in newest),
        trend=_ratio_of(rows, rows_before),
    )


def _ratio_of(rows: float | None, rows_before: float | None) -> float | None:
    """Divide a rate by the one before it; None where one is unknown, or the earlier one is 0."""
    if rows is None or not rows_before:
        return None
    return rows / rows_before


def _rate_per_second(amounts: Iterable[tuple[int | None, TableWrite]]) -> float | None:
    """Return amounts per second of work, over the writes with both on record; None without any."""
    total, seconds = 0, 0.0
    for amount, write in amounts:
        if amount is not None and write.work_seconds:
            total += amount
            seconds += write.work_seconds
    return total / seconds if seconds else None


class DeliveredForm(AccountForm):
    """Landed files and the account of their rows."""

    exact_repeats_per_1000: float | None
    key_repeats_per_1000: float | None
    quarantine: Mapping[str, int]  # rows by reason
    sources: NotRequired[Mapping[str, "DeliveredForm"]]  # where a lake has several


@dataclass(frozen=True)
class Delivered:
    """Landed files and the account of their rows."""

    account: Account
    quarantine: Mapping[str, int]  # rows by reason, the most frequent first
    # the same per source, where a lake has several; the other fields are then sums
    sources: Mapping[str, "Delivered"] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)  # among the rows of the NEWEST_DAYS

    def to_dict(self) -> DeliveredForm:
        """Return the account as JSON values."""
        each = {"sources": self.sources} if self.sources else {}
        repeated = {f"{kind}_repeats_per_1000": n for kind, n in self.repeats.per_1000.items()}
        counts = {**self.account.to_dict(), **repeated}
        values: DeliveredForm = json_of({**counts, "quarantine": self.quarantine, **each})
        return values


class LakeReportForm(TypedDict):
    """All that is reported of a lake."""

    made_at: InstantText
    status: StatusForm
    delivered: DeliveredForm
    lateness: LatenessForm | None
    durations: Sequence[Durations]
    writes: Sequence[TableWrite]
    controls: Sequence[ControlOutcome]
    checks: Sequence[CheckHistoryForm]
    proofs: Sequence[Proof]


@dataclass(frozen=True)
class LakeReport:
    """Everything that is reported of a lake."""

    made_at: datetime  # by the clock
    status: StatusReport
    delivered: Delivered
    lateness: LatenessReport | None  # None: nothing is loaded
    durations: tuple[Durations, ...]
    writes: tuple[TableWrite, ...]
    controls: tuple[ControlOutcome, ...] = ()  # the newest outcomes
    checks: tuple[CheckHistory, ...] = ()
    proofs: tuple[Proof, ...] = ()


def report_of_lake(
    lake: Lake, pipeline: Pipeline, now: datetime, *, with_checks: bool = True
) -> LakeReport:
    """Return the report of the lake; `now` is the clock (aware). All parts share one state of the
    lake.

    `with_checks`: judge every written day again, too.
    """
    known, unread = readable_tables(lake, pipeline)
    states = known.states(read_view(lake, known.contracts))
    scope = LatenessScope(share=lake.settings.lateness.watermark_share)
    try:
        late = lateness_of_states(lake, states, scope, now)
    except BackfillError:
        late = None  # nothing is loaded, which the rest of the report says
    writes = table_writes(lake, known)
    return LakeReport(
        made_at=now,
        status=with_unread(status_of_states(lake, states), unread),
        delivered=delivered_rows(lake, states),
        lateness=late,
        durations=table_durations(writes, [t.name for t in known.tables]),
        writes=writes,
        controls=tuple(last_outcomes(lake)),
        checks=check_history(lake, states) if with_checks else (),
        proofs=tuple(recorded_proofs(lake)),
    )


def delivered_rows(lake: Lake, states: States) -> Delivered:
    """Return the account of all landed rows that were not withdrawn, with reasons of quarantine;
    per source, too."""
    account_of = accounts_by_table(lake, states.view)
    sources = {}
    for source in states.view.sources.values():
        refused = refused_rows(lake, source.name)
        repeats = repeats_of(lake, states, source, NEWEST_DAYS)
        sources[source.name] = Delivered(account_of[source.table], refused, repeats=repeats)
    if len(sources) == 1:
        return next(iter(sources.values()))
    quarantine, repeats = Counter[str](), Repeats()
    for one in sources.values():
        quarantine.update(one.quarantine)
        repeats += one.repeats
    return Delivered(
        sum_of_accounts(account_of.values()), dict(quarantine.most_common()), sources, repeats
    )
