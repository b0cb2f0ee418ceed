"""The request to rebuild days of a table, its stopwatch, and the candidate: rows computed but not
committed.

Not here: computing a candidate (`derived`, `raw`), and showing seconds (`dagster.adapter.metadata`,
`cli.backfill`).
"""

import contextlib
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from typing import Any, Protocol, Self

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, some_days
from backfill_assets.kernel.core.engines import ENGINE
from backfill_assets.kernel.core.errors import Altered, BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.profiles import (
    DayProfile,
    counted_broken,
    counted_histograms,
    counted_most,
    counted_nulls,
)
from backfill_assets.kernel.core.readings import PARAMETERS, todays_parameters
from backfill_assets.kernel.core.receipts import SPREAD, DayEntry, Provenance
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.core.write_mode import OVERWRITE, WriteMode
from backfill_assets.kernel.tables.embedded import AT_ONCE
from backfill_assets.kernel.tables.fingerprints import on_days
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.code import LIBRARIES, installed_versions
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline, Table, refuse_moved_code
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.kernel.write.session import Answer, Meter, Session

# The tag of a receipt: Python and the libraries that computed and wrote its days.
LIBRARIES_TAG = "versions"
Facts = dict[date, dict[str, Any]]


@cache
def _library_versions() -> str:
    """Versions of Python and of the installed libraries, which do not change while a process
    runs."""
    versions = {"python": platform.python_version(), **installed_versions(LIBRARIES)}
    return ", ".join(f"{name} {number}" for name, number in versions.items())


@dataclass
class Phases:
    """Seconds of wall clock per phase of one table's load, for one thread; a phase within a phase
    counts for itself.

    Spark is lazy: the phase `transform` makes plans, `write` reads, computes and writes.
    """

    clock: Callable[[], float] = time.monotonic
    _spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block for this phase; one that occurs several times is summed."""
        began, before = self.clock(), sum(self._spent.values())
        try:
            yield
        finally:
            within = sum(self._spent.values()) - before
            self._spent[name] += self.clock() - began - within

    def seconds(self) -> Mapping[str, float]:
        """Seconds counted so far, to the millisecond, in the order in which the phases first
        ended."""
        return {name: round(spent, 3) for name, spent in self._spent.items()}


@dataclass(frozen=True)
class ReturnedRows:
    """Rows that an asset of a project returned, in place of a table's transform."""

    stage: Callable[[], Staged]  # writes them once; the caller owns the staging
    engine: str  # what computed them, as receipts name it


def _no_partition_error(contract: Contract, days: DayRange) -> BackfillError:
    """The error of a request whose days are left out of a table."""
    return BackfillError(
        f"the table {contract.name}",
        f"it has no partition on {days}: it has every {contract.calendar}"
        + (f" from {contract.first_day} on" if contract.first_day else ""),
        "Nothing was written",
        "Name days that it has, or leave the table out",
    )


@dataclass(frozen=True)
class RebuildRequest:
    """Days of a table to rebuild."""

    lake_session: Session
    known: KnownStates  # the lake as the run knows it; of `given` rows, as their inputs were read
    table: Table
    days: DayRange
    provenance: Provenance  # for the receipt
    force: bool = False  # also days that are up to date
    phases: Phases = field(default_factory=Phases, compare=False)
    mode: WriteMode = OVERWRITE
    meter: Meter | None = field(default=None, compare=False)  # counts processor seconds
    # the rows, in place of a computation; all their days are compared
    given: ReturnedRows | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, work: Work, lake_session: Session, known: KnownStates, run_id: str, **more: Any
    ) -> Self:
        """The request for the first table of some work, in a run; `more`: fields that the work does
        not name. Its days are the partitions that cover one of the work's. Raises BackfillError
        where there is none, and for an unknown write mode, SettingsError for another word about
        bad days."""
        bounds = lake_session.lake.settings.gates.bounds(work.table)
        table = known.pipeline.table(work.table)
        days = table.contract.keys_in(work.days)
        if not days:
            raise _no_partition_error(table.contract, work.days)
        provenance = Provenance(work.reason, run_id, work.note, tags=work.receipt_tags)
        return cls(
            lake_session,
            known,
            table,
            some_days(days),
            provenance,
            work.table in work.force,
            mode=work.mode.with_default(bounds.on_bad_days),
            **more,
        )

    @property
    def pipeline(self) -> Pipeline:
        """All tables of the lake."""
        return self.known.pipeline

    @property
    def engine(self) -> str:
        """What computes the rows, as receipts name it."""
        return self.given.engine if self.given is not None else self.lake_session.made_by

    def signed(self, states: States, inputs: Mapping[str, int]) -> Provenance:
        """The provenance completed by today's code, settings and parameters, the frontier, the
        input versions, and the processor seconds and seconds of waiting for the engine so far.
        Raises BackfillError where the table's code changed on disk since it was imported."""
        refuse_moved_code(self.pipeline.table(self.table.name))
        codes = self.pipeline.codes[self.table.name]
        made_by = {ENGINE: self.engine, LIBRARIES_TAG: _library_versions()}
        tags = {
            **self.provenance.tags,
            **made_by,
            **state_tags(self.table.contract, states),
        }
        return replace(
            self.provenance,
            code_digest=codes.code_digest,
            settings_digest=codes.settings_digest,
            frontier=states.frontier(self.table.name),
            inputs=inputs,
            tags=tags,
            cpu_seconds=self.meter.spent() if self.meter is not None else None,
            start_seconds=self.meter.waited() if self.meter is not None else None,
        )


def state_tags(contract: Contract, states: States) -> dict[str, str]:
    """Tags of a receipt whose days are made, or made current, in this state: parameters, choices
    against skew, the sources' frontiers."""
    tags = {}
    if parameters := todays_parameters(contract, states.view).to_json():
        tags[PARAMETERS] = parameters
    if contract.spread:
        tags[SPREAD] = contract.spread
    return {**tags, **states.frontiers.tags_of(contract.name)}


class Commits(Protocol):
    """How the days of a candidate are published."""

    def __call__(self, kept_back: Collection[date] = ()) -> WriteResult:
        """Publish the days that are not kept back, in at most one commit per table."""
        ...


@dataclass(frozen=True)
class Candidate:
    """Rows for the days of `chunk` of one table. Dagster shows `accounts` and `inputs`."""

    chunk: DayRange
    settled: frozenset[date]  # days that were up to date, and not computed
    profiles: Mapping[date | None, DayProfile]  # of every day of the chunk
    entries: Mapping[date, DayEntry]  # of every day; settled ones from their receipts
    before: TableView
    frontier: datetime | None
    staged: Staged | None
    commit: Commits  # writes the rows
    release: Callable[[], None]  # deletes staged files that were not published
    absent: Mapping[date, list[tuple[str, date]]] = field(default_factory=dict)
    # per day: `facts`, numbers by name; of a load `by_file`, rows per file and outcome
    accounts: Mapping[date, Mapping[str, Any]] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)  # the versions that were read
    # requested days that cannot be computed, with why
    unready: Mapping[date, BackfillError] = field(default_factory=dict)

    def outside_chunk(self) -> Mapping[date | None, DayProfile]:
        """Days outside the chunk that have rows (None: rows without a day)."""
        return {d: p for d, p in self.profiles.items() if d is None or d not in self.chunk}


def settled_days(request: RebuildRequest, states: States) -> frozenset[date]:
    """The days of the request that need no computing; none under `force`, or where rows are
    given."""
    if request.force or request.given is not None:
        return frozenset()
    name, mode = request.table.name, request.mode
    return frozenset(d for d in request.days if states.is_settled(name, d, mode))


def settled_candidate(request: RebuildRequest, states: States) -> Candidate:
    """Candidate of the days that need no computing, because by their receipts the same work gave
    the rows they hold (none under `force`); publishing it changes nothing."""
    name, settled = request.table.name, settled_days(request, states)
    before = states.view.table(name)
    entries = {d: before.latest[d].entry for d in settled}
    profiles: dict[date | None, DayProfile] = dict.fromkeys(request.days, DayProfile())
    profiles |= {day: profile_of_entry(entry) for day, entry in entries.items()}
    return Candidate(
        chunk=request.days,
        settled=settled,
        profiles=profiles,
        entries=entries,
        before=before,
        frontier=states.frontier(name),
        staged=None,
        commit=lambda _=(): WriteResult(before.version, ""),
        release=lambda: None,
    )


def profile_of_entry(entry: DayEntry) -> DayProfile:
    """The profile of a day as far as its receipt keeps it: without `duplicates` and `sums`, which
    gates judge by files only, at writes and after chunks."""
    return DayProfile(
        entry.rows,
        entry.fingerprint,
        {column: nulls for column, nulls in counted_nulls(entry.counts).items() if nulls},
        broken=counted_broken(entry.counts),
        histograms=counted_histograms(entry.counts),
        most=counted_most(entry.counts),
    )


def day_facts(
    lake_session: Session,
    states: States,
    table: Table,
    staged: Staged | None,
    profiles: Mapping[date | None, DayProfile],
    *,
    at_once: int = AT_ONCE,
) -> Facts:
    """Numbers by name that two queries of the table give: `facts` of every staged day, `revisions`
    of each day whose rows differ from the published ones. Leaves NULLs out."""
    facts: Facts = defaultdict(dict)
    if staged is None:
        return facts
    is_duckdbs = not table.counts_alike
    if table.facts is not None:
        auditor = lake_session.auditor(table.contract, staged.files, is_duckdbs=is_duckdbs)
        _add_figures(
            facts, auditor.answers(table.contract, table.facts, staged.files, at_once=at_once)
        )
    view = states.view.table(table.name)
    changed = _days_with_other_rows(view, profiles)
    if table.revisions is None or not changed:
        return facts
    try:
        published = lake_session.lake.store.files(table.contract, view.version, changed)
    except Altered:  # nothing is known of the days before, which must not hinder the rebuild
        return facts
    of_days = on_days(table.contract.day_column, changed)
    sides = [*published, *staged.files]
    auditor = lake_session.auditor(table.contract, sides, is_duckdbs=is_duckdbs)
    found = auditor.answers(
        table.contract, table.revisions, published, staged.files, where=of_days, at_once=at_once
    )
    _add_figures(facts, found)
    return facts


def _days_with_other_rows(
    view: TableView, profiles: Mapping[date | None, DayProfile]
) -> list[date]:
    """The days that hold rows, and other ones than these profiles are of."""
    changed = []
    for day, profile in profiles.items():
        if day is None or day not in view.latest:
            continue
        entry = view.latest[day].entry
        if entry.rows and entry.content != profile.content:
            changed.append(day)
    return changed


def _add_figures(facts: Facts, found: Iterable[Answer]) -> None:
    """Add the numbers of queries to `facts`. The first column is the day; further names are the
    keys."""
    for (_, *names), rows in found:
        for day, *figures in rows:
            if day is None:
                continue
            named = zip(names, figures, strict=True)
            facts[day] |= {name: figure for name, figure in named if figure is not None}
