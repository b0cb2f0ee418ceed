"""Loading raw: each landed row of some days ends in raw, quarantine, `too_late` or as a duplicate, and is counted.

Not here: judging rows and where they go (`deliveries`). The caller holds the load lock from the first read to the last
commit. The commits are quarantine, `too_late`, raw whose receipt names both, arrivals which names raw.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import LandingError, telling_source
from backfill_assets.core.payload import LANDED
from backfill_assets.core.profiles import DayProfile, kept_counts
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.scans import ScanReport
from backfill_assets.core.states import States
from backfill_assets.core.texts import plain
from backfill_assets.core.view import Source
from backfill_assets.lake.audit import audit
from backfill_assets.lake.ledger import QUARANTINE, FileRecord, of_source, read_files
from backfill_assets.lake.replace import Published, Write, replace_days
from backfill_assets.lake.session import LakeSession, free
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.too_late import contract_of, is_too_late
from backfill_assets.lake.view import read_view
from backfill_assets.lake.writing import conform, stage
from backfill_assets.load.arrivals import commit_arrivals
from backfill_assets.load.candidate import Candidate, RebuildRequest, settled_candidate
from backfill_assets.load.counting import stocked
from backfill_assets.load.declared_limits import refuse_settings
from backfill_assets.load.deliveries import read_deliveries, split_day_rows
from backfill_assets.load.derived import refuse_lowered
from backfill_assets.load.facts import day_facts
from backfill_assets.load.scan import scan
from backfill_assets.load.steadiness import refuse_changed_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Outcomes of landed rows besides raw itself, as raw's receipt counts them per arrival day
SET_ASIDE = {"duplicates": "duplicate", QUARANTINE.name: QUARANTINE.name, "too late": "too late", "not due": "not due"}
Accounts = dict[date, dict[str, dict[str, int]]]  # rows per arrival day, path of a file, and outcome
Counts = Mapping[tuple[date, str], Mapping[str, int]]  # of an arrival day and content: rows per outcome


@dataclass(frozen=True)
class PlacedPart:
    """The rows of a load for one table, staged and audited; None where it has none."""

    contract: Contract
    staged: Staged | None = None
    profiles: Mapping[date | None, DayProfile] = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """The parts of a load for raw, `too_late` and quarantine, and the account of its rows."""

    raw: PlacedPart
    late: PlacedPart
    quarantine: PlacedPart
    accounts: Accounts

    def drop(self) -> None:
        """Delete staged files that were not published."""
        _drop((self.raw, self.late, self.quarantine))


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
    settled = settled_candidate(request, states)
    todo = [d for d in request.days if d not in settled.settled]
    if not todo and not source.doubted_arrivals():  # any load repairs a ledger that others changed
        return settled
    placed = placed_again(request, states, todo)
    raw, lake = placed.raw, request.lake_session.lake
    try:
        with request.phases.phase("facts"):
            facts = day_facts(lake, states, request.table, raw.staged, raw.profiles)
    except BaseException:
        placed.drop()
        raise
    loading = _Loading(request, states, todo, placed)
    return replace(
        settled,
        profiles={**settled.profiles, **raw.profiles},
        entries={**settled.entries, **loading.entries(raw)},
        staged=raw.staged,
        commit=loading.commit,
        release=placed.drop,
        accounts={d: {"by_file": f, "facts": facts.get(d, {})} for d, f in placed.accounts.items()},
    )


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


def placed_again(request: RebuildRequest, states: States, todo: Sequence[date]) -> Placed:
    """Stage and audit the landed rows of these days. Scans nothing and commits nothing; the session of the request is
    that of the table's source. Raises LandingError where the account of the rows does not add up."""
    days = [d for d in todo if states.view.is_due(d)]
    records, contract = _named(request.lake_session, days), request.table.contract
    late, quarantine = contract_of(contract), of_source(QUARANTINE, contract.source)
    if not records:
        return Placed(PlacedPart(contract), PlacedPart(late), PlacedPart(quarantine), {d: {} for d in days})
    lateness, view = request.lake_session.lake.settings.lateness, states.view
    is_late = is_too_late(lateness, view.source(contract.name).releases)
    delivered = [c for c in contract.column_names if c not in LANDED]
    judged = _judged(request, states, days, records)
    rows = split_day_rows(judged, is_late, contract.name, delivered).persist()
    try:
        counts: dict[tuple[date, str], dict[str, int]] = defaultdict(dict)
        with request.phases.phase("read"):
            found = rows.groupBy("arrival_date", "sha256", "outcome").count().collect()
        for row in found:
            counts[row["arrival_date"], row["sha256"]][row["outcome"]] = row["count"]
        accounts = accounted(days, records, counts)
        outcomes = {o for by_outcome in counts.values() for o in by_outcome}
        wanted = ((contract, contract.name), (late, "too late"), (quarantine, QUARANTINE.name))
        frames = [
            (c, rows.where(f"outcome = '{o}'").select(*c.column_names) if o in outcomes else None) for c, o in wanted
        ]
        return Placed(*_staged_parts(request, len(days), frames), accounts)
    finally:
        free(rows)


def _named(lake_session: LakeSession, days: Sequence[date]) -> list[FileRecord]:
    """The records of the ledger that name one of these days, each content once."""
    wanted = set(days)
    live = [r for r in read_files(lake_session.lake.store, lake_session.lake.source) if not r.withdrawn]
    named = {r.sha256: r for r in reversed(live) if wanted & set(r.days)}
    if named:  # the engine reads and judges whole files, however few of their rows are wanted
        lake_session.expect(sum(r.rows for r in named.values()))
    return list(named.values())


def _judged(
    request: RebuildRequest, states: States, days: Sequence[date], records: Sequence[FileRecord]
) -> "DataFrame":
    """The rows of the landed contents for these days, with `source_file` and whether they are `due`."""
    from pyspark.sql import functions as F

    lake_session, as_of = request.lake_session, states.view.as_of
    files = stocked(lake_session, records)
    judged = read_deliveries(lake_session.spark(), files, lake_session.lake.settings)
    due = F.lit(True)
    if as_of is not None:
        due = ~F.col("usable_arrival") | (F.col("arrival_ts") < F.lit(as_of.isoformat()).cast("timestamp"))
    first, last = min(days), max(days)
    near = judged.where(F.col("arrival_date").between(F.lit(first), F.lit(last)))
    near = near.withColumns({"source_file": F.col("sha256"), "due": due})
    return near.where(F.col("arrival_date").isin(sorted(days))) if len(days) <= (last - first).days else near


def _staged_parts(
    request: RebuildRequest, days: int, wanted: "Sequence[tuple[Contract, DataFrame | None]]"
) -> tuple[PlacedPart, PlacedPart, PlacedPart]:
    """Stage and audit the rows of each table; drops all where one fails."""
    made, lake_session = list[PlacedPart](), request.lake_session
    try:
        with request.phases.phase("write"):
            refuse_changed_settings(lake_session.spark(), f"the table {wanted[0][0].name}")
            for contract, frame in wanted:
                staged = stage(lake_session.lake, contract, conform(frame, contract), days) if frame else None
                made.append(PlacedPart(contract, staged))
        with request.phases.phase("audit"):
            raw, late, quarantine = (
                replace(p, profiles=audit(lake_session.lake, p.staged.paths, p.contract)) if p.staged else p
                for p in made
            )
            return raw, late, quarantine
    except BaseException:
        _drop(made)
        raise


def _drop(parts: Iterable[PlacedPart]) -> None:
    for part in parts:
        if part.staged is not None:
            part.staged.drop()


def accounted(days: Sequence[date], records: Iterable[FileRecord], counts: Counts) -> Accounts:
    """Rows per day, file (path) and outcome; raises LandingError unless they are as many as the ledger counted."""
    accounts: Accounts = {d: {} for d in days}
    for record in records:
        for day in set(record.days) & set(accounts):
            outcomes = counts.get((day, record.sha256), {})
            if sum(outcomes.values()) != record.days[day][0]:
                raise LandingError(
                    f"the landed file {plain(record.path)}",
                    f"it has {record.days[day][0]} rows of {day}, Spark gave {sum(outcomes.values())}: {outcomes}",
                    "Nothing was written",
                    "Run `backfill-assets scan`; if it persists, keep the file and report this",
                )
            accounts[day][record.path] = dict(outcomes)
    return accounts


def _counts(accounts: Accounts) -> dict[date, dict[str, int]]:
    """Per arrival day the rows that landed and are not in raw, by where they went: counted, zeros too."""
    return {
        day: {name: sum(counts.get(outcome, 0) for counts in files.values()) for name, outcome in SET_ASIDE.items()}
        for day, files in accounts.items()
    }


@dataclass(frozen=True)
class _Loading:
    """A load whose rows are staged, and its commits."""

    request: RebuildRequest
    states: States
    todo: Sequence[date]
    placed: Placed

    def entries(self, part: PlacedPart) -> dict[date, DayEntry]:
        """The entries of a part; those of raw also count the rows that landed and went elsewhere."""
        none, name, digest = DayProfile(), self.request.table.name, self.states.digests.of
        counts = _counts(self.placed.accounts) if part is self.placed.raw else {}
        entries = dict[date, DayEntry]()
        for day in self.todo:
            found = part.profiles.get(day, none)
            counted = {**kept_counts(found, part.contract.nullable_columns), **counts.get(day, {})}
            entries[day] = DayEntry(found.rows, found.fingerprint, digest(name, day), counts=counted)
        return entries

    def commit(self) -> Published:
        """Commit quarantine, `too_late`, raw and the ledger arrivals."""
        aside = (self.placed.quarantine, self.placed.late)
        published = self._write(self.placed.raw, {p.contract.name: self._write(p, {}).version for p in aside})
        with self.request.phases.phase("ledger"):
            after = read_view(self.request.lake_session.lake, self.request.pipeline.contracts)
            said = self.request.signed(self.states, {})
            commit_arrivals(self.request.lake_session, self.request.pipeline.contracts, after, said)
        return published

    def _write(self, part: PlacedPart, inputs: Mapping[str, int]) -> Published:
        lake, contract, entries = self.request.lake_session.lake, part.contract, self.entries(part)
        before = lake.store.view(contract.name, contract.day_column)
        concerned = any(part.profiles) or any(d in before.stamps or d in before.foreign for d in self.todo)
        if part is not self.placed.raw and not concerned:  # days that have no row there and never had one
            return Published(before.version, "")
        said = self.request.signed(self.states, inputs)
        write = Write(contract, part.staged, entries, before.version, said, force=self.request.force)
        # The load lock keeps every other load out, so that nothing can have overtaken this one.
        return replace_days(lake, write, lambda days: {d: entries[d].input_digest for d in days})
