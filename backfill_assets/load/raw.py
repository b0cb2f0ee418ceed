"""Loading raw: landed rows of some arrival days into raw, its quarantine and its ledger, under one load lock.

Not here: placing rows (`placing`) and the rules of usable rows (`deliveries`). The caller holds the lock from the first
read to the last commit. The commits are quarantine, `too_late`, raw whose receipt names both, arrivals which names raw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import LandingError, telling_source
from backfill_assets.core.profiles import DayProfile, kept_counts
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.scans import ScanReport
from backfill_assets.core.states import States
from backfill_assets.core.texts import plain
from backfill_assets.core.view import Source
from backfill_assets.lake.ledger import QUARANTINE, FileRecord, read_files
from backfill_assets.lake.replace import Published, Write, replace_days
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import read_view
from backfill_assets.load.arrivals import commit_arrivals
from backfill_assets.load.candidate import Candidate, RebuildRequest, settled_candidate
from backfill_assets.load.declared_limits import refuse_settings
from backfill_assets.load.derived import refuse_lowered, settled_days
from backfill_assets.load.facts import staged_facts
from backfill_assets.load.placing import Accounts, Placed, PlacedPart, place
from backfill_assets.load.scan import scan

# Outcomes of landed rows besides raw itself, as raw's receipt counts them per arrival day
SET_ASIDE = {"duplicates": "duplicate", QUARANTINE.name: QUARANTINE.name, "too late": "too late", "not due": "not due"}


def load(request: RebuildRequest) -> Candidate:
    """Scan the landing folder, then the candidate of these arrival days of raw. The caller holds the load lock.

    Raises LandingError while a file that one of the days was made from is altered or missing; SettingsError where
    `as_of` was lowered below what is loaded.
    """
    refuse_settings(request.lake_session.lake.settings, request.pipeline.contracts)
    source = request.table.contract.source
    with telling_source(source):
        return _load(replace(request, lake_session=request.lake_session.of_source(source)))


def _load(request: RebuildRequest) -> Candidate:
    contract = request.table.contract
    with request.phases.phase("scan"):
        report = scan(request.lake_session)
    with request.phases.phase("states"):
        states = request.states()
    source = states.view.source(contract.name)
    _refuse(report, source, request.days)
    refuse_lowered(states, contract)
    settled = settled_candidate(states, contract, request.days, settled_days(request, states))
    todo = [d for d in request.days if d not in settled.settled]
    if not todo and not source.doubted_arrivals():  # any load repairs a ledger that others changed
        return settled
    placed = placed_again(request, states, todo)
    try:
        with request.phases.phase("facts"):
            facts = staged_facts(request.lake_session, states, request.table, placed.raw.staged, placed.raw.profiles)
    except BaseException:
        placed.drop()
        raise
    loading = _Loading(request, states, todo, placed)
    return replace(
        settled,
        profiles={**settled.profiles, **placed.raw.profiles},
        entries={**settled.entries, **loading.raw_entries()},
        staged=placed.raw.staged,
        commit=loading.commit,
        release=placed.drop,
        accounts={d: {"by_file": f, "facts": facts.get(d, {})} for d, f in placed.accounts.items()},
    )


def placed_again(request: RebuildRequest, states: States, todo: Sequence[date]) -> Placed:
    """Stage and audit the landed rows of these days. Scans nothing and commits nothing; the session of the request is
    that of the table's source."""
    due = [d for d in todo if states.view.is_due(d)]
    return place(request, states, due, _named(request.lake_session, due))


def _refuse(report: ScanReport, source: Source, days: DayRange) -> None:
    blocked = sorted(d for d in report.blocked if d in days)
    if blocked:
        told = {"altered": report.altered, "missing": report.missing}
        files = [f"{plain(p)} ({word})" for word, paths in told.items() for p in paths]
        raise LandingError(
            f"the table {source.table}",
            f"{', '.join(files[:10])}: {len(blocked)} day(s) from {blocked[0]} were made from it",
            "Nothing was written",
            'Put the file back, or say `backfill-assets landing accept --note "why"` to follow what lies there now',
        )


def _named(lake_session: LakeSession, days: Sequence[date]) -> list[FileRecord]:
    """The records of the ledger that name one of these days, each content once."""
    wanted = set(days)
    live = [r for r in read_files(lake_session.lake.store, lake_session.lake.source) if not r.withdrawn]
    named = {r.sha256: r for r in reversed(live) if wanted & set(r.days)}
    # The engine reads and judges whole files, however few of their rows are wanted.
    lake_session.expect(sum(r.rows for r in named.values()))
    return list(named.values())


def _counts(accounts: Accounts) -> dict[date, dict[str, int]]:
    """Per arrival day the rows that landed and are not in raw, by where they went: counted, zeros too."""
    return {
        day: {name: sum(counts.get(outcome, 0) for counts in files.values()) for name, outcome in SET_ASIDE.items()}
        for day, files in accounts.items()
    }


@dataclass(frozen=True)
class _Loading:
    """A load whose rows are staged, and its three commits."""

    request: RebuildRequest
    states: States
    todo: Sequence[date]
    placed: Placed

    def _entries(self, part: PlacedPart) -> dict[date, DayEntry]:
        none, digest, name = DayProfile(), self.states.digests.of, self.request.table.name
        found = {d: part.profiles.get(d, none) for d in self.todo}
        nullable = part.contract.nullable_columns
        return {
            d: DayEntry(p.rows, p.fingerprint, digest(name, d), counts=kept_counts(p, nullable))
            for d, p in found.items()
        }

    def raw_entries(self) -> dict[date, DayEntry]:
        """The entries of raw, with the number of rows that landed and went elsewhere."""
        entries, counts = self._entries(self.placed.raw), _counts(self.placed.accounts)
        return {d: replace(e, counts={**e.counts, **counts.get(d, {})}) for d, e in entries.items()}

    def commit(self) -> Published:
        """Commit quarantine, `too_late`, raw and the ledger arrivals."""
        aside = (self.placed.quarantine, self.placed.late)
        named = {part.contract.name: self._write_aside(part) for part in aside}
        published = self._write(self.placed.raw, self.raw_entries(), named)
        with self.request.phases.phase("ledger"):
            after = read_view(self.request.lake_session.lake, self.request.pipeline.contracts)
            said = self.request.signed(self.states, {})
            commit_arrivals(self.request.lake_session, self.request.pipeline.contracts, after, said)
        return published

    def _write_aside(self, part: PlacedPart) -> int:
        """The version afterwards. Days that have no row there and never had one need no commit."""
        contract = part.contract
        before = self.request.lake_session.lake.store.view(contract.name, contract.day_column)
        concerned = any(part.profiles) or any(d in before.stamps or d in before.foreign for d in self.todo)
        return self._write(part, self._entries(part), {}).version if concerned else before.version

    def _write(self, part: PlacedPart, entries: Mapping[date, DayEntry], inputs: Mapping[str, int]) -> Published:
        lake, contract = self.request.lake_session.lake, part.contract
        base, said = (
            lake.store.view(contract.name, contract.day_column).version,
            self.request.signed(self.states, inputs),
        )
        write = Write(contract, part.staged, entries, base, said, force=self.request.force)
        # The load lock keeps every other load out, so that nothing can have overtaken this one.
        return replace_days(lake, write, lambda days: {d: entries[d].input_digest for d in days})
