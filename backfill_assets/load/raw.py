"""Loading raw: landed rows of some arrival days into raw, its quarantine and its ledger, under one load lock.

Lives here: the candidate of raw, the account of every row, and the order of the three commits (quarantine, raw whose
receipt names it, arrivals which names raw). Does not live here: the lock itself (held by the caller from the first
read to the last commit) and the rules of usable rows (`deliveries`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.days import DayRange, midnight
from backfill_assets.core.errors import LandingError, telling_source
from backfill_assets.core.profiles import DayProfile, kept_counts
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.scans import ScanReport
from backfill_assets.core.states import States
from backfill_assets.core.texts import plain
from backfill_assets.core.view import Source
from backfill_assets.lake.ledger import QUARANTINE, FileRecord, read_files
from backfill_assets.lake.replace import Published, Write, replace_days
from backfill_assets.lake.session import LakeSession, small_frame
from backfill_assets.lake.too_late import is_too_late
from backfill_assets.lake.view import read_view
from backfill_assets.landing.mapping import delivery_types
from backfill_assets.load.arrivals import commit_arrivals
from backfill_assets.load.candidate import Candidate, RebuildRequest, as_profile
from backfill_assets.load.counting import stocked
from backfill_assets.load.deliveries import read_deliveries
from backfill_assets.load.derived import nothing_to_do, refuse_lowered, settled_days
from backfill_assets.load.facts import staged_facts
from backfill_assets.load.placing import Accounts, LandedRows, Placed, PlacedPart, place
from backfill_assets.load.sail import refuse_settings
from backfill_assets.load.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    settled = settled_days(request, states)
    todo = [d for d in request.days if d not in settled]
    if not todo and not source.doubted_arrivals():  # a ledger that others changed is repaired by any load
        return nothing_to_do(states, contract, request.days)
    placed = placed_again(request, states, todo)
    try:
        raw, accounts = placed.raw, placed.accounts
        with request.phases.phase("facts"):
            facts = staged_facts(request.lake_session, states, request.table, raw.staged, raw.profiles)
    except BaseException:
        placed.drop()
        raise
    loading = _Loading(request, states, todo, raw, (placed.kept, placed.beyond), _counts(accounts))
    candidate = loading.candidate(settled)
    return replace(candidate, accounts={d: {"by_file": f, "facts": facts.get(d, {})} for d, f in accounts.items()})


def placed_again(request: RebuildRequest, states: States, todo: Sequence[date]) -> Placed:
    """The landed rows of these days in their places, staged and audited. Scans nothing and commits nothing; the session
    of the request is that of the table's source."""
    contract, lake_session = request.table.contract, request.lake_session
    records = _named(lake_session, states, todo)
    landed = LandedRows(
        lake_session,
        contract,
        {r.sha256: r for r in records},
        [d for d in todo if states.view.is_due(d)],
        lambda of: _judged(lake_session, states, todo, of),
        request.phases,
    )
    late = is_too_late(lake_session.lake.settings.lateness, states.view.source(contract.name).releases)
    return place(landed, late, simple=_is_simple(lake_session, states, todo))


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


def _is_simple(lake_session: LakeSession, states: States, todo: Sequence[date]) -> bool:
    """Whether every usable row of these days is due and in time, so that nobody need look at each to know it."""
    as_of = states.view.as_of
    cut = as_of is not None and midnight(as_of.date()) != as_of and as_of.date() in todo
    return lake_session.lake.settings.lateness.window_days is None and not cut


def _named(lake_session: LakeSession, states: States, todo: Sequence[date]) -> list[FileRecord]:
    """The records of the ledger that name one of these days, each content once."""
    wanted = {d for d in todo if states.view.is_due(d)}
    live = [r for r in read_files(lake_session.lake.store, lake_session.lake.source) if not r.withdrawn]
    named = {r.sha256: r for r in reversed(live) if wanted & set(r.days)}
    # Files are read and judged as wholes, however few of their rows are wanted.
    lake_session.expect(sum(r.rows for r in named.values()))
    return list(named.values())


def _judged(
    lake_session: LakeSession, states: States, todo: Sequence[date], records: Sequence[FileRecord]
) -> "DataFrame":
    """The rows of the landed contents for these days, with `source_file` and whether they are `due`."""
    from pyspark.sql import functions as F

    view = states.view
    wanted = {d for d in todo if view.is_due(d)}
    files = stocked(lake_session, records)
    if not files:
        schema = "sha256 string, row_number bigint, text string, reason string, source_file string, arrival_date date, "
        columns = delivery_types(lake_session.lake.settings.source.payload_columns)
        empty = ", ".join(f"`{n}` {t}" for n, t in columns.items())
        return small_frame(lake_session.spark(), [], schema + empty + ", usable_arrival boolean, due boolean")
    judged = read_deliveries(lake_session.spark(), files, lake_session.lake.settings)
    judged = judged.withColumn("source_file", F.col("sha256"))
    due = F.lit(True)
    if view.as_of is not None:
        limit = F.lit(view.as_of.isoformat()).cast("timestamp")
        due = ~F.col("usable_arrival") | (F.col("arrival_ts") < limit)
    first, last = min(wanted), max(wanted)
    near = judged.where(F.col("arrival_date").between(F.lit(first), F.lit(last))).withColumn("due", due)
    if len(wanted) <= (last - first).days:
        near = near.where(F.col("arrival_date").isin(sorted(wanted)))
    return near


def _counts(accounts: Accounts) -> dict[date, dict[str, int]]:
    """Per arrival day the rows that landed and are not in raw, by where they went: counted, zeros too."""
    return {
        day: {name: sum(counts.get(outcome, 0) for counts in files.values()) for name, outcome in SET_ASIDE.items()}
        for day, files in accounts.items()
    }


@dataclass(frozen=True)
class _Loading:
    """What the three commits of one load share."""

    request: RebuildRequest
    states: States
    todo: Sequence[date]
    raw: PlacedPart
    aside: tuple[PlacedPart, ...]
    counts: Mapping[date, Mapping[str, int]]

    def candidate(self, settled: frozenset[date]) -> Candidate:
        """The candidate of raw; its `commit` makes all three commits."""
        contract, days = self.request.table.contract, self.request.days
        before, profiles = self.states.view.table(contract.name), dict(self.raw.profiles)
        for day in days:
            profiles.setdefault(day, as_profile(before.stamps[day].entry) if day in settled else DayProfile())
        return Candidate(
            contract=contract,
            chunk=days,
            settled=settled,
            profiles=profiles,
            entries={d: before.stamps[d].entry for d in settled} | self._raw_entries(),
            before=before,
            frontier=self.states.frontier(contract.name),
            staged=self.raw.staged,
            commit=self._commit,
            release=self._release,
        )

    def _release(self) -> None:
        for part in (self.raw, *self.aside):
            part.drop()

    def _entries(self, part: PlacedPart) -> dict[date, DayEntry]:
        none, digest, name = DayProfile(), self.states.digests.of, self.request.table.name
        found = {d: part.profiles.get(d, none) for d in self.todo}
        nullable = part.contract.nullable_columns
        return {
            d: DayEntry(p.rows, p.fingerprint, digest(name, d), counts=kept_counts(p, nullable))
            for d, p in found.items()
        }

    def _raw_entries(self) -> dict[date, DayEntry]:
        """The entries of raw, with the account of the rows that landed and are elsewhere."""
        entries = self._entries(self.raw)
        return {d: replace(e, counts={**e.counts, **self.counts.get(d, {})}) for d, e in entries.items()}

    def _commit(self) -> Published:
        named = {part.contract.name: self._write_aside(part) for part in self.aside}
        published = self._write(self.raw, self._raw_entries(), named)
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
        contract = part.contract
        base = self.request.lake_session.lake.store.view(contract.name, contract.day_column).version
        write = Write(
            contract, part.staged, entries, base, self.request.signed(self.states, inputs), force=self.request.force
        )
        # The load lock keeps every other load out, so that nothing can have overtaken this one.
        return replace_days(
            self.request.lake_session.lake, write, lambda days: {d: entries[d].input_digest for d in days}
        )
