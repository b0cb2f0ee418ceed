"""Loading raw: landed rows of some arrival days into raw, its quarantine and its ledger, under one load lock.

Lives here: the candidate of raw, the account of every row, and the order of the three commits (quarantine, raw whose
receipt names it, arrivals which names raw). Does not live here: the lock itself (held by the caller from the first
read to the last commit) and the rules of usable rows (`deliveries`).
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange, midnight
from backfill_assets.core.errors import LandingError, SettingsError
from backfill_assets.core.printable import printable
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.scans import ScanReport
from backfill_assets.core.states import States
from backfill_assets.lake.arrivals import commit_arrivals
from backfill_assets.lake.build import as_profile, nothing_to_do, settled_days
from backfill_assets.lake.candidate import Candidate, Request
from backfill_assets.lake.counting import stocked
from backfill_assets.lake.deliveries import read_deliveries, split_day_rows
from backfill_assets.lake.facts import day_facts
from backfill_assets.lake.ledger import FILES, QUARANTINE, FileRecord, read_files
from backfill_assets.lake.log import table_view
from backfill_assets.lake.mapping import DELIVERY_TYPES
from backfill_assets.lake.profile import conform, profile
from backfill_assets.lake.replace import Published, Write, publish
from backfill_assets.lake.scan import scan
from backfill_assets.lake.spark import Workshop, free, small_frame
from backfill_assets.lake.too_late import contract_of, is_too_late
from backfill_assets.lake.view import read_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Accounts = dict[date, dict[str, dict[str, int]]]


def load(request: Request) -> Candidate:
    """Scan the landing folder, then the candidate of these arrival days of raw. The caller holds the load lock.

    Raises LandingError while a file that one of the days was made from is altered or missing; SettingsError where
    `as_of` was lowered below what is loaded.
    """
    began = time.perf_counter()
    report = scan(request.workshop)
    states = request.states()
    _refuse(report, states, request.days)
    settled = settled_days(request, states)
    todo = [d for d in request.days if d not in settled]
    if not todo:
        return nothing_to_do(states, request.table.contract, request.days)
    judged, records = _judged(request.workshop, states, todo)
    late = is_too_late(request.workshop.lake.settings.lateness, states.view.releases)
    rows = split_day_rows(judged, late).persist()
    try:
        accounts = _account(rows, records, [d for d in todo if states.view.is_due(d)])
        columns, contract = (*DELIVERY_TYPES, "source_file", "arrival_date"), request.table.contract
        good, late_rows = (rows.where(f"outcome = '{o}'").select(*columns) for o in ("raw", "too late"))
        bad = rows.where("outcome = 'quarantine'").select(*QUARANTINE.column_names)
        outcomes = {o for files in accounts.values() for counts in files.values() for o in counts}
        raw = _profiled(good, contract, "raw" in outcomes)
        beyond = _profiled(late_rows, contract_of(contract), "too late" in outcomes)
        kept = _profiled(bad, QUARANTINE, "quarantine" in outcomes)
        facts = day_facts(request.table, raw.frame) if raw.profiles else {}
    except BaseException:
        free(rows)
        raise
    loading = _Loading(request, states, todo, raw, ((QUARANTINE, kept), (contract_of(contract), beyond)))
    candidate = loading.candidate(settled, rows, time.perf_counter() - began)
    return replace(candidate, accounts={d: {"files": f, "facts": facts.get(d, {})} for d, f in accounts.items()})


@dataclass(frozen=True)
class _Profiled:
    frame: "DataFrame"
    profiles: Mapping[date | None, DayProfile]


def _profiled(frame: "DataFrame", contract: Contract, has_rows: bool) -> _Profiled:
    conformed = conform(frame, contract)
    return _Profiled(conformed, profile(conformed, contract) if has_rows else {})


def _refuse(report: ScanReport, states: States, days: DayRange) -> None:
    blocked = sorted(d for d in report.blocked if d in days)
    if blocked:
        told = {"altered": report.altered, "missing": report.missing}
        files = [f"{printable(p)} ({word})" for word, paths in told.items() for p in paths]
        raise LandingError(
            "the table raw",
            f"{', '.join(files[:10])}: {len(blocked)} day(s) from {blocked[0]} were made from it",
            "Nothing was written",
            'Put the file back, or say `backfill-assets landing accept --note "why"` to follow what lies there now',
        )
    as_of = states.view.as_of
    recorded = states.view.table("arrivals").frontier
    last = max((d for d, s in states.view.table("raw").stamps.items() if s.entry.rows), default=None)
    if as_of and ((recorded and recorded > as_of) or (last and midnight(last) >= as_of)):
        raise SettingsError(
            "as_of in lake.toml",
            f"{as_of:%Y-%m-%dT%H:%M:%SZ} lies before what is loaded already",
            "Nothing was written",
            "Raise it again; to see the past, make a second lake with the earlier as_of over the same files",
        )


def _judged(workshop: Workshop, states: States, todo: Sequence[date]) -> "tuple[DataFrame, list[FileRecord]]":
    """The rows of the landed files for these days, with `source_file`; and the records that name these days."""
    from pyspark.sql import functions as F

    lake, view = workshop.lake, states.view
    wanted = {d for d in todo if view.is_due(d)}
    live = [r for r in read_files(lake.table_path(FILES.name)) if not r.withdrawn]
    named = {r.sha256: r for r in reversed(live) if wanted & set(r.days)}
    files = [stocked(workshop, r) for r in named.values()]
    workshop.expect(sum(r.days[d][0] for r in named.values() for d in wanted & set(r.days)))
    if not files:
        schema = "sha256 string, row_number bigint, text string, reason string, source_file string, arrival_date date, "
        empty = ", ".join(f"{n} {t}" for n, t in DELIVERY_TYPES.items())
        return small_frame(workshop.session(), [], schema + empty + ", usable_arrival boolean, due boolean"), []
    judged = read_deliveries(workshop.session(), files, lake.settings).withColumn("source_file", F.col("sha256"))
    due = F.lit(True)
    if view.as_of is not None:
        limit = F.lit(view.as_of.isoformat()).cast("timestamp")
        due = ~F.col("usable_arrival") | (F.col("arrival_ts") < limit)
    first, last = min(wanted), max(wanted)
    near = judged.where(F.col("arrival_date").between(F.lit(first), F.lit(last))).withColumn("due", due)
    if len(wanted) <= (last - first).days:
        near = near.where(F.col("arrival_date").isin(sorted(wanted)))
    return near, list(named.values())


def _account(rows: "DataFrame", records: Sequence[FileRecord], todo: Sequence[date]) -> Accounts:
    """Rows per day, file (path) and outcome; raises LandingError unless they add up to what the ledger counted."""
    counted: dict[tuple[date, str], dict[str, int]] = defaultdict(dict)
    for row in rows.groupBy("arrival_date", "sha256", "outcome").count().collect():
        counted[row["arrival_date"], row["sha256"]][row["outcome"]] = row["count"]
    accounts: Accounts = {d: {} for d in todo}
    for record in records:
        for day in set(record.days) & set(accounts):
            outcomes = counted.get((day, record.sha256), {})
            if sum(outcomes.values()) != record.days[day][0]:
                raise LandingError(
                    f"the landed file {printable(record.path)}",
                    f"it has {record.days[day][0]} rows of {day}, Spark gave {sum(outcomes.values())}: {outcomes}",
                    "Nothing was written",
                    "Run `backfill-assets scan`; if it persists, keep the file and report this",
                )
            accounts[day][record.path] = outcomes
    return accounts


@dataclass(frozen=True)
class _Loading:
    """What the three commits of one load share."""

    request: Request
    states: States
    todo: Sequence[date]
    raw: _Profiled
    aside: tuple[tuple[Contract, _Profiled], ...]

    def candidate(self, settled: frozenset[date], rows: "DataFrame", seconds: float) -> Candidate:
        """The candidate of raw; its publish makes all three commits."""
        contract, days = self.request.table.contract, self.request.days
        before, profiles = self.states.view.table(contract.name), dict(self.raw.profiles)
        for day in days:
            profiles.setdefault(day, as_profile(before.stamps[day].entry) if day in settled else DayProfile())
        return Candidate(
            contract=contract,
            chunk=days,
            settled=settled,
            profiles=profiles,
            entries={d: before.stamps[d].entry for d in settled} | self._entries(self.raw),
            before=before,
            frontier=self.states.frontier,
            frame=self.raw.frame,
            publish=self._publish,
            release=lambda: free(rows),
            seconds={"compute": seconds},
        )

    def _entries(self, part: _Profiled) -> dict[date, DayEntry]:
        none, digest, name = DayProfile(), self.states.digests.of, self.request.table.name
        found = {d: part.profiles.get(d, none) for d in self.todo}
        return {d: DayEntry(p.rows, p.fingerprint, digest(name, d)) for d, p in found.items()}

    def _publish(self) -> Published:
        named = {contract.name: self._write_aside(contract, part) for contract, part in self.aside}
        published = self._write(self.request.table.contract, self.raw, named)
        after = read_view(self.request.workshop.lake, self.request.pipeline.contracts)
        said = self.request.signed(self.states, {})
        commit_arrivals(self.request.workshop, after, said)
        return published

    def _write_aside(self, contract: Contract, part: _Profiled) -> int:
        """The version afterwards. Days that have no row there and never had one need no commit."""
        before = table_view(self.request.workshop.lake.table_path(contract.name), contract.day_column)
        concerned = any(part.profiles) or any(d in before.stamps or d in before.foreign for d in self.todo)
        return self._write(contract, part, {}).version if concerned else before.version

    def _write(self, contract: Contract, part: _Profiled, inputs: Mapping[str, int]) -> Published:
        entries = self._entries(part)
        base = table_view(self.request.workshop.lake.table_path(contract.name), contract.day_column).version
        write = Write(
            contract, part.frame, entries, base, self.request.signed(self.states, inputs), force=self.request.force
        )
        # The load lock keeps every other load out, so that nothing can have overtaken this one.
        return publish(self.request.workshop, write, lambda days: {d: entries[d].input_digest for d in days})
