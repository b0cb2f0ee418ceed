"""Judge days by the gates, against the history of their table in its receipts, and keep the good
days of a request.

Not here: the gates (`kernel.write.gates`), Dagster's events (`dagster.adapter.checks`,
`dagster.adapter.reconcile`), and writing the good days (`kernel.write.replace`, by `rebuild`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TypeVar

from backfill_assets.kernel.core.commands import mending
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, is_mature, ranges, some_days
from backfill_assets.kernel.core.errors import (
    BackfillError,
    ContractBroken,
    DaysKeptBack,
    InputMissing,
)
from backfill_assets.kernel.core.profiles import (
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
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.gate_bounds import GateSettings
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.candidate import RebuildRequest, as_profile
from backfill_assets.kernel.write.gates import Judged, judge

T = TypeVar("T")


@dataclass(frozen=True)
class QualityContext:
    """Quality context of a table: bounds, frontier; rows, NULL shares, histograms of days with
    rows, ascending."""

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
        """Findings of every gate for `day` with the profile `profile`, against the days before it.
        `absent`: required input days that are missing; `failed`: reads of consumers that do not
        answer with its rows. A day that waits for its cut, or is no mature label yet, may be
        empty."""
        matures = self.contract.matures_after_days
        is_immature = matures is not None and not is_mature(day, matures, self.frontier)
        may_be_empty = built is Built.PENDING or is_immature
        usual = usual_null_shares(_days_before(self.null_shares, day))
        labels_are_final = not is_immature
        values = usual_histograms(_days_before(self.histograms, day)) if labels_are_final else {}
        surroundings = Surroundings(
            _days_before(self.rows, day),
            may_be_empty,
            absent,
            usual,
            values,
            self.settings.incomplete,
            failed,
        )
        bounds = self.settings.bounds(self.contract.name)
        return judge(Judged(self.contract, day, profile, bounds, surroundings))


def quality_context(
    settings: LakeSettings,
    contract: Contract,
    known: Mapping[date, DayEntry],
    computed: Mapping[date, DayProfile] | None = None,
    frontier: datetime | None = None,
) -> QualityContext:
    """Quality context of a table from the receipts of its days (`known`) and the profiles that a
    run `computed`.

    A run of many days is not compared with itself: its days are judged by earlier receipts, and by
    its own profiles only where fewer than a week of receipts lie before its first new day. Row
    counts of new days always count.
    """
    profiles = computed or {}
    nullable = contract.nullable_columns
    earlier = {d: e for d, e in known.items() if e.rows}
    rows = {d: e.rows for d, e in known.items()} | {d: p.rows for d, p in profiles.items()}
    rows |= {d: e.rows for d, e in earlier.items()}
    shares = {d: _null_shares(e) for d, e in earlier.items()}
    histograms = {d: counted_histograms(e.counts) for d, e in earlier.items()}
    new = {d: profiles[d] for d in profiles.keys() - known.keys() if profiles[d].rows}
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


def _null_shares(entry: DayEntry) -> dict[str, float]:
    """The share of NULLs per column of a day with rows."""
    return {c: nulls / entry.rows for c, nulls in counted_nulls(entry.counts).items()}


def judged_by_receipts(
    settings: LakeSettings,
    states: States,
    contract: Contract,
    days: Sequence[date],
    found: Mapping[date, DayProfile] | None = None,
) -> dict[date, list[Finding]]:
    """Findings of written `days`, which have receipts, by these alone, or by the profiles `found`
    in the days now."""
    entries = {d: r.entry for d, r in states.view.table(contract.name).latest.items()}
    quality = quality_context(settings, contract, entries, frontier=states.frontier(contract.name))
    profiles = found or {}
    return {
        d: quality.judge(
            d,
            profiles.get(d) or as_profile(entries[d]),
            entries[d].built,
            states.absent(contract.name, d),
        )
        for d in days
    }


def _days_before(dated: Sequence[tuple[date, T]], day: date) -> list[T]:
    """Values of the newest `TRAILING_DAYS` days before `day`."""
    stop = bisect_left(dated, day, key=lambda dated_value: dated_value[0])
    return [value for _, value in dated[max(0, stop - TRAILING_DAYS) : stop]]


Refuse = Callable[[DayRange], None]


@dataclass(frozen=True)
class KeptBack:
    """The days of a request that keep their rows and receipts while its other days are written."""

    findings: Sequence[Finding] = ()  # of every gate, for the days that were judged
    unready: Mapping[date, BackfillError] = field(
        default_factory=dict
    )  # days that were not computed, and why
    # Names the days, the cause and sample keys; None where no day is kept back.
    error: DaysKeptBack | None = None

    @property
    def days(self) -> frozenset[date]:
        """The days, judged and not computed ones."""
        return frozenset({*self.unready, *(f.day for f in self.findings)})

    def __bool__(self) -> bool:
        return self.error is not None


def without_refused(
    request: RebuildRequest, refuse: Refuse
) -> tuple[RebuildRequest, Mapping[date, BackfillError]]:
    """The request for the days that `refuse` lets through, and the error of each other day, named
    alone.

    Raises the error of all days together, which says why each day was not written (`by_day`), where
    none is let through, or the good ones are not to be kept.
    """
    try:
        refuse(request.days)
    except BackfillError as together:
        refused = {d: error for d in request.days if (error := _error_of_day(refuse, d))}
        if not request.mode.keeps_good_days or len(refused) in (0, len(request.days)):
            together.by_day = causes_by_day(request.days, (), refused) if refused else {}
            raise
        return replace(request, days=some_days({*request.days} - {*refused})), refused
    return request, {}


def _error_of_day(refuse: Refuse, day: date) -> BackfillError | None:
    try:
        refuse(some_days([day]))
    except BackfillError as error:
        return error
    return None


def refusal_of(
    request: RebuildRequest,
    findings: Sequence[Finding],
    unready: Mapping[date, BackfillError],
    samples: Sequence[str],
    others: int = 0,
) -> ContractBroken:
    """Error for refusing findings and days that were not computed: each broken check with its days,
    sample keys, the days that break nothing and are kept back with them, the next command.

    `samples` are keys of rows that the first refusing finding names; `others` is how many days go
    on without these.
    """
    contract, refusing = request.table.contract, [f for f in findings if f.refuses]
    culprits = sorted({*(f.day for f in refusing), *unready})
    parts = _broken_checks(refusing, len(request.days), samples)
    parts += _not_computed(unready, len(request.days))
    innocent = [d for d in request.days if d not in culprits]
    if innocent and not others:
        parts.append(f"nothing is wrong with {ranges(innocent)}, kept back with {ranges(culprits)}")
    again = culprits if others else [*request.days]
    table, named = (
        request.known.states.view.table(contract.name),
        request.lake_session.lake.settings.pipeline,
    )
    can_run = named.definitions is not None
    return ContractBroken(
        f"the table {contract.name}",
        "; ".join(parts),
        f"{ranges(culprits)} stayed as they were, the other {others} day(s) were made"
        if others
        else "Nothing was written, every day keeps its rows",
        mending(contract, culprits[0], again, is_known=table.version >= 0, can_run=can_run),
    )


def causes_by_day(
    days: Iterable[date], findings: Iterable[Finding], unready: Mapping[date, BackfillError]
) -> dict[date, str]:
    """Why each of `days`, none of which was written, was not: what is wrong with itself, or else
    the days with which it was kept back."""
    faults = defaultdict[date, list[str]](list)
    for day, error in unready.items():
        faults[day].append(error.culprit)
    for finding in (f for f in findings if f.refuses):
        faults[finding.day].append(f"{finding.check} fails: {finding.message}")
    innocent = f"nothing is wrong with it; kept back with {ranges(faults)}"
    return {day: "; ".join(faults[day]) if day in faults else innocent for day in days}


def never_made(lacking: Mapping[str, Collection[date]]) -> str:
    """The culprit of a table that lacks these input days, by table."""
    tables = " and ".join(f"{name} for {ranges(absent)}" for name, absent in lacking.items())
    return f"it is made from {tables}, which were never made"


def _not_computed(unready: Mapping[date, BackfillError], days: int) -> list[str]:
    """Why days were not computed: those that lack inputs with all input days that were never made,
    then the others by the first one's cause."""
    lacking, missing = defaultdict[str, set[date]](set), set[date]()
    for day, error in unready.items():
        if isinstance(error, InputMissing) and error.lacking:
            missing.add(day)
            for table, absent in error.lacking.items():
                lacking[table].update(absent)
    others = unready.keys() - missing
    parts = []
    if missing:
        parts.append(
            f"inputs of {len(missing)} of {days} day(s) are missing, {ranges(missing)}: "
            f"{never_made(lacking)}"
        )
    if others:
        parts.append(f"{ranges(others)}: {unready[min(others)].culprit}")
    return parts


def _broken_checks(refusing: Sequence[Finding], days: int, samples: Sequence[str]) -> list[str]:
    """Each broken check in words: on how many of the `days` of a request, and its first day's
    figures."""
    keys = f"; for example {', '.join(samples)}" if samples else ""
    parts = []
    for check in dict.fromkeys(f.check for f in refusing):
        of_check = sorted((f for f in refusing if f.check == check), key=lambda f: f.day)
        count = f"{len({f.day for f in of_check})} of {days} day(s)"
        first = of_check[0]
        parts.append(f"{check} fails on {count}, first {first.day}: {first.message}{keys}")
        keys = ""  # they are of the first one alone
    return parts
