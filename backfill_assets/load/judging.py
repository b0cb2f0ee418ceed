"""Judge days by the gates, against the history of their table in its receipts.

Not here: the gates (`lake.gates`) and Dagster's events (`orchestration.checks`, `orchestration.reconcile`).
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeVar

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import is_mature
from backfill_assets.core.profiles import (
    MEDIAN_NEEDS_DAYS,
    TRAILING_DAYS,
    DayProfile,
    Finding,
    Histogram,
    Surroundings,
    counted_histograms,
    counted_nulls,
    usual_histograms,
    usual_null_shares,
)
from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import States
from backfill_assets.lake.gates import GateSettings, Judged, TableGate, judge
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.candidate import as_profile

T = TypeVar("T")


@dataclass(frozen=True)
class QualityContext:
    """Quality context of a table: bounds, frontier; rows, NULL shares, histograms of days with rows, ascending."""

    contract: Contract
    settings: GateSettings
    rows: Sequence[tuple[date, int]]
    null_shares: Sequence[tuple[date, Mapping[str, float]]]
    histograms: Sequence[tuple[date, Mapping[str, Histogram]]]
    frontier: datetime | None

    def judge(
        self,
        day: date,
        profile: DayProfile,
        built: Built,
        absent: Sequence[tuple[str, date]],
        failed: Sequence[str] = (),
    ) -> list[Finding]:
        """Findings of every gate for `day` with the profile `profile`, against the days before it. `absent`: required
        input days that are missing; `failed`: reads of consumers that do not answer with its rows. A day that waits
        for its cut, or is no mature label yet, may be empty."""
        matures = self.contract.matures_after_days
        is_immature = matures is not None and not is_mature(day, matures, self.frontier)
        may_be_empty = built is Built.PENDING or is_immature
        usual = usual_null_shares(_before(self.null_shares, day))
        values = {} if is_immature else usual_histograms(_before(self.histograms, day))  # its labels are provisional
        surroundings = Surroundings(
            _before(self.rows, day), may_be_empty, absent, usual, values, self.settings.incomplete, failed
        )
        bounds = self.settings.tables.get(self.contract.name, TableGate())
        return judge(Judged(self.contract, day, profile, bounds, surroundings))


def quality_context(
    settings: LakeSettings,
    contract: Contract,
    known: Mapping[date, DayEntry],
    computed: Mapping[date, DayProfile] | None = None,
    frontier: datetime | None = None,
) -> QualityContext:
    """Quality context of a table from the receipts of its days (`known`) and the profiles that a run `computed`.

    A run of many days is not compared with itself: its days are judged by earlier receipts, and by its own profiles
    only where fewer than a week of receipts lie before its first new day. Row counts of new days always count.
    """
    profiles = computed or {}
    nullable = contract.nullable_columns
    rows = {d: p.rows for d, p in profiles.items()}
    rows |= {d: e.rows for d, e in known.items() if e.rows or d not in profiles}
    shares = {d: {c: n / e.rows for c, n in counted_nulls(e.counts).items()} for d, e in known.items() if e.rows}
    histograms = {d: counted_histograms(e.counts) for d, e in known.items() if e.rows}
    new = {d: p for d, p in profiles.items() if p.rows and d not in known}
    first_new = min(new, default=date.max)
    if sum(1 for d in shares if d < first_new) < MEDIAN_NEEDS_DAYS:
        shares |= {d: {c: p.nulls.get(c, 0) / p.rows for c in nullable} for d, p in new.items()}
        histograms |= {d: {c: dict(h) for c, h in p.histograms.items()} for d, p in new.items()}
    return QualityContext(
        contract,
        settings.gates,
        sorted((d, n) for d, n in rows.items() if n),
        sorted(shares.items(), key=lambda dated: dated[0]),
        sorted(histograms.items(), key=lambda dated: dated[0]),
        frontier,
    )


def judged_by_receipts(
    settings: LakeSettings,
    states: States,
    contract: Contract,
    days: Sequence[date],
    found: Mapping[date, DayProfile] | None = None,
) -> dict[date, list[Finding]]:
    """Findings of written `days`, which have receipts, by these alone, or by the profiles `found` in the days now."""
    entries = {d: r.entry for d, r in states.view.table(contract.name).latest.items()}
    quality = quality_context(settings, contract, entries, frontier=states.frontier(contract.name))
    profiles = found or {}
    return {
        d: quality.judge(
            d, profiles.get(d) or as_profile(entries[d]), entries[d].built, states.absent(contract.name, d)
        ) for d in days
    }  # fmt: skip


def _before(dated: Sequence[tuple[date, T]], day: date) -> list[T]:
    """Values of the newest `TRAILING_DAYS` days before `day`."""
    stop = bisect_left(dated, day, key=lambda dated_value: dated_value[0])
    return [value for _, value in dated[max(0, stop - TRAILING_DAYS) : stop]]
