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
from operator import attrgetter, itemgetter
from typing import TypeVar

from backfill_assets.kernel.core.commands import mending_advice
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, is_mature, ranges_text, some_days
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
from backfill_assets.kernel.write.candidate import RebuildRequest, profile_of_entry
from backfill_assets.kernel.write.gates import DayToJudge, judge_day

T = TypeVar("T")
Shares = Mapping[str, float]  # of NULLs, by column
Histograms = Mapping[str, Histogram]  # by column


@dataclass(frozen=True)
class QualityContext:
    """Quality context of a table: bounds, frontier; rows, NULL shares, histograms of days with
    rows, ascending."""

    contract: Contract
    settings: GateSettings
    rows: Sequence[tuple[date, int]]
    null_shares: Sequence[tuple[date, Shares]]
    histograms: Sequence[tuple[date, Histograms]]
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
        answer with its rows. A day may be empty while its cut lies after the frontier, and
        while its labels are not mature."""
        matures = self.contract.matures_after_days
        is_immature = matures is not None and not is_mature(
            self.contract.calendar.last_of(day), matures, self.frontier
        )
        may_be_empty = built is Built.PENDING or is_immature
        usual = usual_null_shares(_days_before(self.null_shares, day))
        labels_are_final = not is_immature
        values = usual_histograms(_days_before(self.histograms, day)) if labels_are_final else {}
        surroundings = Surroundings(
            trailing_rows=_days_before(self.rows, day),
            may_be_empty=may_be_empty,
            absent=absent,
            usual_null_shares=usual,
            usual_histograms=values,
            incomplete=self.settings.incomplete,
            unanswered=failed,
        )
        bounds = self.settings.bounds(self.contract.name)
        return judge_day(DayToJudge(self.contract, day, profile, bounds, surroundings))


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
    rows, shares, histograms = dict[date, int](), dict[date, Shares](), dict[date, Histograms]()
    for day, entry in known.items():
        if entry.rows:
            rows[day], shares[day] = entry.rows, _null_shares(entry)
            histograms[day] = counted_histograms(entry.counts)
    new = dict[date, DayProfile]()
    for day, profile in (computed or {}).items():
        rows.setdefault(day, profile.rows)
        if profile.rows and day not in known:
            new[day] = profile
    first_new = min(new, default=date.max)
    if sum(1 for day in shares if day < first_new) < MEDIAN_NEEDS_DAYS:
        for day, profile in new.items():
            nullable = contract.nullable_columns
            shares[day] = {c: profile.nulls.get(c, 0) / profile.rows for c in nullable}
            histograms[day] = profile.histograms
    return QualityContext(
        contract=contract,
        settings=settings.gates,
        rows=[(day, n) for day, n in sorted(rows.items()) if n],
        null_shares=sorted(shares.items(), key=itemgetter(0)),
        histograms=sorted(histograms.items(), key=itemgetter(0)),
        frontier=frontier,
    )


def _null_shares(entry: DayEntry) -> dict[str, float]:
    """The share of NULLs per column of a day with rows."""
    return {c: nulls / entry.rows for c, nulls in counted_nulls(entry.counts).items()}


def judge_by_receipts(
    settings: LakeSettings,
    states: States,
    contract: Contract,
    days: Sequence[date],
    found: Mapping[date, DayProfile] | None = None,
) -> dict[date, list[Finding]]:
    """Findings of written `days`, which have receipts, by these alone, or by the profiles `found`
    in the days now."""
    name, findings = contract.name, dict[date, list[Finding]]()
    entries = {d: r.entry for d, r in states.view.table(name).latest.items()}
    quality = quality_context(settings, contract, entries, frontier=states.frontier(name))
    for day in days:
        entry = entries[day]
        profile = (found or {}).get(day) or profile_of_entry(entry)
        findings[day] = quality.judge(day, profile, entry.built, states.missing_inputs(name, day))
    return findings


def _days_before(dated: Sequence[tuple[date, T]], day: date) -> list[T]:
    """Values of the newest `TRAILING_DAYS` days before `day`."""
    stop = bisect_left(dated, day, key=lambda dated_value: dated_value[0])
    return [value for _, value in dated[max(0, stop - TRAILING_DAYS) : stop]]


Refuse = Callable[[DayRange], None]


@dataclass(frozen=True)
class KeptBack:
    """The days of a request that keep their rows and receipts while its other days are written."""

    findings: Sequence[Finding] = ()  # of every gate, for the days that were judged
    # Days that were not computed, and why.
    unready: Mapping[date, BackfillError] = field(default_factory=dict)
    # Names the days, the cause and sample keys; None where no day is kept back.
    error: DaysKeptBack | None = None

    @property
    def days(self) -> frozenset[date]:
        """The days, judged and not computed ones."""
        return frozenset({*self.unready, *(f.day for f in self.findings)})

    def __bool__(self) -> bool:
        return self.error is not None


def split_refused_days(
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
        some_pass = 0 < len(refused) < len(request.days)
        if some_pass and request.mode.keeps_good_days:
            return replace(request, days=some_days({*request.days} - {*refused})), refused
        together.by_day = causes_by_day(request.days, (), refused) if refused else {}
        raise
    return request, {}


def _error_of_day(refuse: Refuse, day: date) -> BackfillError | None:
    try:
        refuse(some_days([day]))
    except BackfillError as error:
        return error
    return None


def refusal_error(
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
    contract = request.table.contract
    refusing = [f for f in findings if f.refuses]
    culprits = sorted({*(f.day for f in refusing), *unready})
    count_text = contract.calendar.count_text
    asked = count_text(len(request.days))
    parts = _broken_checks_in_words(refusing, asked, samples)
    parts += _uncomputed_in_words(unready, asked)
    if others:
        again, made = culprits, f"the other {count_text(others)} were made"
        outcome = f"{ranges_text(culprits)} stayed as they were, {made}"
    else:
        unit = contract.calendar.unit
        again, outcome = [*request.days], f"Nothing was written, every {unit} keeps its rows"
        if innocent := sorted({*request.days} - {*culprits}):
            kept_with = f"kept back with {ranges_text(culprits)}"
            parts.append(f"nothing is wrong with {ranges_text(innocent)}, {kept_with}")
    is_known = request.known.states.view.table(contract.name).exists
    can_run = request.lake_session.lake.settings.pipeline.definitions is not None
    fix = mending_advice(contract, culprits[0], again, is_known=is_known, can_run=can_run)
    return ContractBroken(f"the table {contract.name}", "; ".join(parts), outcome, fix)


def causes_by_day(
    days: Iterable[date], findings: Iterable[Finding], unready: Mapping[date, BackfillError]
) -> dict[date, str]:
    """Why each of `days`, none of which was written, was not: what is wrong with itself, or else
    the days with which it was kept back."""
    faults = defaultdict[date, list[str]](list)
    for day, error in unready.items():
        faults[day].append(error.culprit)
    for finding in findings:
        if finding.refuses:
            faults[finding.day].append(f"{finding.check} fails: {finding.message}")
    causes = {day: "; ".join(of_day) for day, of_day in faults.items()}
    innocent = f"nothing is wrong with it; kept back with {ranges_text(faults)}"
    return {day: causes.get(day, innocent) for day in days}


def never_made_in_words(lacking: Mapping[str, Collection[date]]) -> str:
    """The culprit of a table that lacks these input days, by table."""
    tables = " and ".join(f"{name} for {ranges_text(absent)}" for name, absent in lacking.items())
    return f"it is made from {tables}, which were never made"


def _uncomputed_in_words(unready: Mapping[date, BackfillError], asked: str) -> list[str]:
    """Why days of a request (`asked`: how many, in words) were not computed: those that lack inputs
    with all input days that were never made, then the others by the first one's cause."""
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
            f"inputs of {len(missing)} of {asked} are missing, {ranges_text(missing)}: "
            f"{never_made_in_words(lacking)}"
        )
    if others:
        parts.append(f"{ranges_text(others)}: {unready[min(others)].culprit}")
    return parts


def _broken_checks_in_words(
    refusing: Sequence[Finding], asked: str, samples: Sequence[str]
) -> list[str]:
    """Each broken check in words: on how many days of a request (`asked`: how many that has, in
    words), and its first day's figures."""
    by_check, parts = defaultdict[str, list[Finding]](list), []
    for finding in refusing:
        by_check[finding.check].append(finding)
    keys = f"; for example {', '.join(samples)}" if samples else ""
    for check, findings in by_check.items():
        first = min(findings, key=attrgetter("day"))
        broken = {f.day for f in findings}
        count = f"{len(broken)} of {asked}"
        parts.append(f"{check} fails on {count}, first {first.day}: {first.message}{keys}")
        keys = ""  # they are of the first one alone
    return parts
