"""Loading raw: each landed row of some days ends in raw, quarantine, `too_late` or as a duplicate,
and is counted.

Not here: judging rows and where they go (`deliveries`). The caller holds the load lock from the
first read to the last commit. The commits are quarantine, `too_late`, raw whose receipt names both,
arrivals which names raw.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.intake.arrivals import commit_arrivals
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.landed_changes import ScanReport
from backfill_assets.intake.ledger import QUARANTINE
from backfill_assets.intake.placing import Accounts, Placed, PlacedPart, placed_rows
from backfill_assets.intake.scan import scan_source
from backfill_assets.intake.table_changes import VACUUMED
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import errors_of_source
from backfill_assets.kernel.core.profiles import DayProfile, receipt_counts
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.core.view import Source
from backfill_assets.kernel.write.candidate import (
    Candidate,
    RebuildRequest,
    day_facts,
    settled_candidate,
)
from backfill_assets.kernel.write.derived import refuse_lowered_dates
from backfill_assets.kernel.write.judging import split_refused_days
from backfill_assets.kernel.write.replace import Write, WriteResult, replace_days

# Outcomes of landed rows besides raw itself, as raw's receipt counts them per arrival day
VANISHED = "vanished"  # a count of raw's receipts: deletes that follow from a full dump
AS_DECLARED = "files as declared"  # a count of raw's receipts, where a file has a manifest
REJECTED = {
    "duplicates": "duplicate",
    QUARANTINE.name: QUARANTINE.name,
    "too late": "too late",
    "not due": "not due",
}


def load_raw(request: RebuildRequest) -> Candidate:
    """Scan the landing folder, then the candidate of these arrival days of raw. The caller holds
    the load lock.

    Raises LandingError while a file that one of the days was made from is altered or missing;
    SettingsError where `as_of` was lowered below what is loaded.
    """
    request.lake_session.refuse_expressions(request.pipeline.tables)
    source = request.table.contract.source
    with errors_of_source(source):
        return _load_source(replace(request, lake_session=request.lake_session.of_source(source)))


def _load_source(request: RebuildRequest) -> Candidate:
    """Scan, refuse the days whose landed files changed or vanished, then stage the rows of raw for
    the days left. The commit, and the deletion of what was staged, are handed on in the candidate.
    A request with nothing to load gives the candidate of its settled days."""
    contract = request.table.contract
    with request.phases.phase("scan"):
        report = scan_source(request.lake_session)
    with request.phases.phase("states"):
        # The scan wrote to the ledgers, and others may have loaded before we held the lock.
        request.known.wrote(contract.name)
        states = request.known.states
    source = states.view.source(contract.name)
    request, unready = split_refused_days(
        request, lambda days: _refuse_changed_files(report, source, days)
    )
    refuse_lowered_dates(states, contract)
    open_days = {*request.days} - {*settled_candidate(request, states).settled}
    request, lost = split_refused_days(
        request,
        lambda days: _refuse_vanished_contents(report, source, open_days.intersection(days)),
    )
    settled = replace(settled_candidate(request, states), unready={**unready, **lost})
    todo = [d for d in request.days if d not in settled.settled]
    if not todo and not states.awaits_repair(contract.name):
        return settled
    return _with_staged_rows(settled, request, states, todo)


def _with_staged_rows(
    settled: Candidate, request: RebuildRequest, states: States, todo: Sequence[date]
) -> Candidate:
    """The candidate of the settled days, with the staged rows of the days `todo` beside them."""
    placed = placed_rows(request, states, todo)
    raw = placed.raw
    try:
        with request.phases.phase("facts"):
            facts = day_facts(request.lake_session, states, request.table, raw.staged, raw.profiles)
    except BaseException:
        placed.drop()
        raise
    loading = _Loading(request, states, todo, placed)
    return replace(
        settled,
        profiles={**settled.profiles, **raw.profiles},
        entries={**settled.entries, **loading.entries(raw)},
        staged=raw.staged,
        commit=loading.commit_without,
        release=placed.drop,
        accounts={d: {"by_file": f, "facts": facts.get(d, {})} for d, f in placed.accounts.items()},
    )


def _refuse_changed_files(report: ScanReport, source: Source, days: DayRange) -> None:
    """Raise LandingError where `days` have rows of a file that is altered, missing or contradicted
    by its manifest."""
    blocked = sorted(d for d in report.blocked if d in days)
    if blocked:
        files = [f"{printable_text(path)} (altered)" for path in report.altered]
        files += [f"{printable_text(path)} (missing)" for path in report.missing]
        files += [
            f"{printable_text(path)} ({printable_text(why)})"
            for path, why in report.contradicted.items()
        ]
        raise LandingError(
            f"the table {source.table}",
            f"{', '.join(files[:10])}: {len(blocked)} day(s) from {blocked[0]} need it",
            "Nothing was written",
            "Put the file back or correct its manifest, or "
            'say `backfill-assets landing accept --note "why"` to follow what lies there now',
        )


def _refuse_vanished_contents(report: ScanReport, source: Source, days: Collection[date]) -> None:
    """Raise LandingError where days are to be loaded from contents of a table whose rows are
    gone."""
    lost, lost_days = list[str](), set[date]()
    for path, of_content in report.vanished.items():
        needed = of_content.intersection(days)
        if needed:
            lost.append(printable_text(path))
            lost_days |= needed
    if lost:
        raise LandingError(
            f"the table {source.table}",
            f"{', '.join(lost[:10])}: {VACUUMED}, for {min(lost_days)}",
            "Nothing was written",
            "Put the data files back from a copy, or give each content up, with its rows in raw: "
            f'`backfill-assets landing accept --note "why" {lost[0]}`',
        )


def _rejected_counts(accounts: Accounts) -> dict[date, dict[str, int]]:
    """Per arrival day the number of rows that are not in raw, by destination, zeros included."""
    rejected = dict[date, dict[str, int]]()
    for day, files in accounts.items():
        total = Counter[str]()
        for by_outcome in files.values():
            total.update(by_outcome)
        rejected[day] = {name: total[outcome] for name, outcome in REJECTED.items()}
    return rejected


@dataclass(frozen=True)
class _Loading:
    """A load whose rows are staged, and its commits."""

    request: RebuildRequest
    states: States
    todo: Sequence[date]
    placed: Placed

    def commit_without(self, kept_back: Collection[date] = ()) -> WriteResult:
        """Commit the load without the days kept back: no table gets a row or receipt of them."""
        return replace(self, todo=[d for d in self.todo if d not in kept_back]).commit()

    def entries(self, part: PlacedPart) -> dict[date, DayEntry]:
        """The entries of a part. Entries of raw also count the rows that landed and went
        elsewhere."""
        name, digest = self.request.table.name, self.states.digests.of
        entries = dict[date, DayEntry]()
        rejected = _rejected_counts(self.placed.accounts)
        for day in self.todo:
            found = part.profiles.get(day, DayProfile())
            counts = receipt_counts(found, part.contract.nullable_columns)
            if part is self.placed.raw:
                counts = {**counts, **rejected.get(day, {}), **self._counts_of_files(day)}
            entries[day] = DayEntry(found.rows, found.fingerprint, digest(name, day), counts=counts)
        return entries

    def _counts_of_files(self, day: date) -> dict[str, int]:
        """Files that agree with their manifests, and deletes that follow from a dump, where there
        are any."""
        found = {
            AS_DECLARED: self.placed.declared.get(day, 0),
            VANISHED: self.placed.vanished.get(day, 0),
        }
        return {name: count for name, count in found.items() if count}

    def commit(self) -> WriteResult:
        """Commit quarantine, `too_late`, raw and the ledger arrivals."""
        rejected = (self.placed.quarantine, self.placed.late)
        published = self._write(
            self.placed.raw, {p.contract.name: self._write(p, {}).version for p in rejected}
        )
        with self.request.phases.phase("ledger"):
            self.request.known.wrote(self.request.table.name)
            provenance, after = self.request.signed(self.states, {}), self.request.known.states.view
            commit_arrivals(
                self.request.lake_session, self.request.pipeline.contracts, after, provenance
            )
        return published

    def _write(self, part: PlacedPart, inputs: Mapping[str, int]) -> WriteResult:
        """Commit one part. Quarantine and `too_late` get no commit for days that never had rows
        there and get none."""
        lake, contract, entries = self.request.lake_session.lake, part.contract, self.entries(part)
        before = lake.store.view(contract.name, contract.day_column)
        with_rows = {*part.profiles, *before.latest, *before.foreign}
        never_had_rows = with_rows.isdisjoint(self.todo)
        if part is not self.placed.raw and never_had_rows:
            return WriteResult(before.version, "")
        provenance = self.request.signed(self.states, inputs)
        known = self.states.view.table(contract.name).version
        write = Write(contract, part.staged, entries, known, provenance, force=self.request.force)
        return replace_days(lake, write, self._digests_now)

    def _digests_now(self, days: Iterable[date]) -> dict[date, str]:
        """What these days of raw would be loaded from now. The lock of a load that was paused is
        another's after a while, who then loads newer files."""
        name, now = self.request.table.name, self.request.known.read()
        return {d: now.digests.of(name, d) for d in days}
