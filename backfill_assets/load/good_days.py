"""Keeping the good days of a request whose other days are refused: which days go on, and what is said of the others.

Not here: judging a day (`judging`), and writing the good ones (`lake.replace`, by `rebuild`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from backfill_assets.core.days import DayRange, contiguous, days_text, ranges, some_days
from backfill_assets.core.errors import BackfillError, ContractBroken, DaysKeptBack, SettingsError
from backfill_assets.core.plans import KEEP_GOOD
from backfill_assets.core.profiles import Finding
from backfill_assets.lake.gates import TableGate
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.candidate import RebuildRequest

REFUSE: Literal["refuse"] = "refuse"
OnBadDays = Literal["refuse", "keep_good"]
Refuse = Callable[[DayRange], None]


@dataclass(frozen=True)
class KeptBack:
    """The days of a request that keep their rows and receipts while its other days are written."""

    findings: Sequence[Finding] = ()  # of every gate, for the days that were judged
    unready: Mapping[date, BackfillError] = field(default_factory=dict)  # days that were not computed, and why
    error: DaysKeptBack | None = None  # names the days, the cause and sample keys; None where no day is kept back

    @property
    def days(self) -> frozenset[date]:
        """The days, judged and not computed ones."""
        return frozenset({*self.unready, *(f.day for f in self.findings)})

    def __bool__(self) -> bool:
        return self.error is not None


def chosen_mode(asked: str, settings: LakeSettings, table: str) -> OnBadDays:
    """What a run does with bad days of a table: as `asked` ("": as [gates.tables.NAME] says). Raises SettingsError for
    other words."""
    if asked in (REFUSE, KEEP_GOOD):
        return "keep_good" if asked == KEEP_GOOD else REFUSE
    if not asked:
        return settings.gates.tables.get(table, TableGate()).on_bad_days
    raise SettingsError(
        "on_bad_days", f"{asked[:40]!r} is neither {REFUSE} nor {KEEP_GOOD}", "Nothing was written", "Name one of them"
    )


def without_refused(request: RebuildRequest, refuse: Refuse) -> tuple[RebuildRequest, Mapping[date, BackfillError]]:
    """The request for the days that `refuse` lets through, and the error of each other day, named alone.

    Raises the error of all days together where none is let through, or the good ones are not to be kept.
    """
    try:
        refuse(request.days)
    except BackfillError:
        refused = {d: error for d in request.days if (error := _error(refuse, d))} if keeps_good(request) else {}
        if not refused or len(refused) == len(request.days):
            raise
        return replace(request, days=some_days({*request.days} - {*refused})), refused
    return request, {}


def _error(refuse: Refuse, day: date) -> BackfillError | None:
    try:
        refuse(some_days([day]))
    except BackfillError as error:
        return error
    return None


def keeps_good(request: RebuildRequest) -> bool:
    """Whether the good days of the request are written without the others."""
    return request.on_bad_days == KEEP_GOOD


def refusal_of(
    request: RebuildRequest,
    findings: Sequence[Finding],
    unready: Mapping[date, BackfillError],
    samples: Sequence[str],
    others: int = 0,
) -> ContractBroken:
    """Error for refusing findings and days that were not computed: days, gates, counts, sample keys, the next command.

    `samples` are keys of rows that the first refusing finding names; `others` is how many days go on without these.
    """
    table, refusing = request.table.name, [f for f in findings if f.refuses]
    judged = sorted({f.day for f in refusing})
    days, parts = sorted({*judged, *unready}), []
    if refusing:
        keys = f"; for example {', '.join(samples)}" if samples else ""
        first = refusing[0]
        count = f"{len(judged)} of {len(request.days)} day(s)"
        parts.append(f"{first.check} fails on {count}, first {first.day}: {first.message}{keys}")
    if unready:
        first_error = unready[min(unready)]
        parts.append(f"{ranges(unready)}: {first_error.culprit}")
    stay = f"{ranges(days)} stayed as they were, the other {others} day(s) were made"
    whole = len(contiguous(days)) == 1
    span = f"--from {days[0]} --to {days[-1]}" if whole else f"--days {days_text(days)}"
    look = f"Look with `backfill-assets show {table} {days[0]}`, correct the input or the rule, then "
    return ContractBroken(
        f"the table {table}",
        "; ".join(parts),
        stay if others else "Nothing was written, all days keep their rows",
        f"{look}`backfill-assets backfill {span} --tables {table}`",
    )
