"""The scan: take new files of the landing folder into the content store once, and into the ledger
`files` by day.

Not here: listing, parsing and comparing (`intake.listing`, `intake.ingest`, `landed_changes`),
counting (`counting`) and loading days into raw (`raw`). Functions over all sources (`…_all`) take
each source's load lock; of the others the caller holds it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from backfill_assets.engines.loss import failing_alone
from backfill_assets.intake.column_kinds import note_kinds
from backfill_assets.intake.content_store import refuse_replaced
from backfill_assets.intake.counting import (
    Counted,
    assign_home_day,
    count_days,
    ingest_into_lake,
    recorded_contents,
    refuse_lost_rows,
    refuse_rules_that_fit_nothing,
    refuse_rules_that_leave_nothing,
    refused_if_flooded,
)
from backfill_assets.intake.declared import DeclaredTotals, declared_by_content
from backfill_assets.intake.dumps import content_faults
from backfill_assets.intake.files import (
    LandedFile,
    StillChanging,
    is_complete,
    settled_file,
    wait_until_quiet,
)
from backfill_assets.intake.forgotten import REASON as FORGOTTEN
from backfill_assets.intake.forgotten import forgotten_condition
from backfill_assets.intake.landed_changes import (
    Comparison,
    Intakes,
    ScanReport,
    copied_paths,
    counting_digest,
    counting_rules,
    current_comparison,
    deliveries_name,
    records_by_new_names,
    scanned_too_early,
)
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import (
    FILES,
    LANDED,
    LOADED_BEFORE,
    WITHDRAWN,
    FileRecord,
    ledger_of_source,
)
from backfill_assets.intake.listing import Listing
from backfill_assets.intake.table_changes import (
    first_home_day,
    future_commits,
    given_up_records,
    note_scanned,
    waiting_reasons,
)
from backfill_assets.intake.taking import taken_by_engine
from backfill_assets.intake.unsettled import count_records, with_contents
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import (
    BackfillError,
    TransientError,
    errors_of_source,
    raise_first_error,
)
from backfill_assets.kernel.core.ledgers import path_with_source
from backfill_assets.kernel.place.port import StoreRefused, load_lock
from backfill_assets.kernel.write.session import Session

PATHS = ("altered", "missing", "lapsed")  # fields of a report: paths, and values by path
BY_PATH = ("new", "refused", "waiting", "unreadable", "contradicted", "vanished", "ahead")
STILL_WRITTEN = "still being written; the next scan reads it"


def scan_all(lake_session: Session) -> ScanReport:
    """Scan every source, as `scan_each`; raises its first error, which names the others `also`."""
    report, failed = scan_each(lake_session)
    raise_first_error(failed)
    return report


def scan_each(lake_session: Session) -> tuple[ScanReport, list[BackfillError]]:
    """Scan every source; return the reports of sources that could be scanned, and an error for each
    other one. Raises TransientError of the machine, the refusal of a shared lake, and the first
    error if no source can be scanned."""
    reports, failed = dict[str, ScanReport](), list[BackfillError]()
    for lake in lake_session.lake.by_source():
        lake.refuse_shared(ledger_of_source(FILES, lake.source).name)
        try:
            alone = failing_alone(
                deliveries_name(lake)
            )  # not the lock: its folder is the lake's own
            with load_lock(lake.place, lake.source), alone, errors_of_source(lake.source):
                reports[lake.source] = scan_source(lake_session.of_source(lake.source))
        except BackfillError as error:
            if isinstance(error, TransientError) and not isinstance(error, StillChanging):
                raise
            failed.append(error)
    raise_first_error([] if reports else failed)
    return joined_reports(reports), failed


def accept_all(lake_session: Session, note: str, paths: Sequence[str] = ()) -> list[str]:
    """Withdraw altered and missing contents of every source (or of `paths`, as a scan shows them),
    as `withdraw_disputed` does."""
    followed = []
    for lake in lake_session.lake.by_source():
        prefix = path_with_source("", lake.source)
        chosen = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
        if chosen or not paths:
            with load_lock(lake.place, lake.source), errors_of_source(lake.source):
                followed += [
                    path_with_source(p, lake.source)
                    for p in withdraw_disputed(lake_session.of_source(lake.source), note, chosen)
                ]
    return followed


def scan_source(lake_session: Session, now: datetime | None = None) -> ScanReport:
    """Append new files to the ledger and report. Raises LandingError when counts do not add up."""
    comparison, listing, records = current_comparison(lake_session, to_scan=True)
    if any(
        not is_complete(m, utc_now().timestamp()) and wait_until_quiet(m) for m in listing.manifests
    ):
        comparison, listing, records = current_comparison(
            lake_session, to_scan=True
        )  # it may have read half of a manifest
    moment = now or utc_now()
    intakes, waits = _ingested_or_waiting(lake_session, comparison.fresh)
    records = with_contents(lake_session.lake, records, {i.sha256 for _, i in intakes})
    while True:
        try:
            return _record_scan(
                lake_session, (comparison, listing, records), intakes, waits, moment
            )
        except StillChanging as error:  # the other files do not wait
            changed = {f.name for f, i in intakes if i.sha256 in error.contents}
            changed |= {r.path for r in records if r.sha256 in error.contents and not r.withdrawn}
            if changed <= waits.keys():
                raise
            waits |= dict.fromkeys(changed, STILL_WRITTEN)
            intakes = [(f, i) for f, i in intakes if f.name not in changed]


def _record_scan(
    lake_session: Session,
    looked: tuple[Comparison, Listing, list[FileRecord]],
    intakes: Intakes,
    waits: Mapping[str, str],
    moment: datetime,
) -> ScanReport:
    """Count and record the intakes and the records whose rules changed, without the paths of
    `waits`, and report. Raises StillChanging, having recorded nothing, if a file that is read where
    it lies changes meanwhile."""
    comparison, listing, records = looked
    known = count_records(lake_session.lake)
    refuse_replaced(
        {i.sha256: i for _, i in intakes}.values()
    )  # of equal files the last one is read
    known_before = [(r.path, r.sha256) for r in records if not r.withdrawn]
    note_kinds(lake_session.lake.stock, [(f.name, i) for f, i in intakes], known_before)
    lapsed, landed_again = [*comparison.lapsed, *comparison.renamed], {i.sha256 for _, i in intakes}
    altered, missing = (
        comparison.altered,
        [m for m in comparison.missing if m.sha256 not in landed_again],
    )
    blocked = {r.path for r in (*altered, *missing, *lapsed, *comparison.vanished)} | {
        f.name for f, _ in intakes
    }
    blocked |= waits.keys()
    live = [r for r in records if not r.withdrawn and r.path not in blocked]
    contents = [*((r.path, r.sha256) for r in live), *((f.name, i.sha256) for f, i in intakes)]
    rules = _CountingRules(
        counting_digest(lake_session.lake.settings),
        declared_by_content(listing.declared, contents),
        scanned_too_early(records, intakes, moment),
        records_by_new_names(comparison.renamed, intakes, records),
    )
    recount = [r for r in live if r.counted_by != rules.of(r) or rules.may_differ(r, bool(intakes))]
    recorded, example = _records_to_append(lake_session, intakes, records, moment, recount, rules)
    ended, renamed_paths = (
        [r for r in lapsed if r.path not in waits],
        {r.path for r in comparison.renamed},
    )
    withdrawals = _withdrawal_events(
        ended, _moment_after(records, moment), "not used, or named otherwise by select now"
    )
    append_events(lake_session.lake, [*withdrawals, *_landing_events(recorded)], "scan", "")
    note_scanned(lake_session.lake, listing)
    new = [r for r in recorded[: len(intakes)] if r.path not in renamed_paths]
    copies = copied_paths(new, recorded, records)
    disputed = [r for r in (*comparison.contradicted, *recorded) if r.contradicted]
    return ScanReport(
        new={
            r.path: (r.rows, sum(bad for _, bad, _ in r.days.values()))
            for r in new
            if r.path not in copies
        },
        copies=copies,
        refused={r.name: r.reason for r in listing.refused},
        waiting={**waits} | waiting_reasons(comparison.held, listing.declared.absent),
        unreadable={r.path: r.refused for r in recorded if r.refused},
        contradicted={r.path: r.contradicted for r in disputed},
        ahead=future_commits([f for f, _ in intakes]),
        altered=tuple(sorted(r.path for r in altered)),
        missing=tuple(sorted(r.path for r in missing)),
        blocked=frozenset(
            d for r in (*altered, *missing, *disputed) for d in {*r.days, *r.used_days}
        ),
        vanished={r.path: frozenset(r.days) for r in comparison.vanished if r.refused is None},
        lapsed=tuple(sorted(r.path for r in comparison.lapsed if not r.may_be_in_raw)),
        known=known,
        example=example,
    )


@dataclass(frozen=True)
class _CountingRules:
    """The rules by which a scan counts contents."""

    today: str  # the digest of today's settings
    declared: Mapping[str, Sequence[DeclaredTotals]]  # per path the totals that manifests declare
    early: Collection[
        str
    ]  # contents scanned before their file's own time: their first scan becomes now
    before: Sequence[FileRecord] = ()  # the records of renamed contents, by their new names

    def of(self, record: FileRecord) -> str:
        """The ledger's name of the rules of this content."""
        return counting_rules(self.today, self.declared.get(record.sha256, ()))

    def may_differ(self, record: FileRecord, beside_others: bool) -> bool:
        """Whether the same rules may count it otherwise now: its first scan was early, or new dumps
        lie beside it."""
        return record.sha256 in self.early or (beside_others and record.is_refused_as_dump)

    def has_counted(self, record: FileRecord) -> bool:
        """Whether today's rules gave the record's days and rows, whatever was declared of it."""
        return record.counted_under == self.today and not record.is_refused_for_totals


def _ingested_or_waiting(
    lake_session: Session, fresh: Sequence[LandedFile]
) -> tuple[Intakes, dict[str, str]]:
    """The new files, taken into the content store, and the files that have to wait: path -> why."""
    taken, waits, by_engine = [], {}, taken_by_engine(lake_session, fresh)
    for file in fresh:
        try:
            taken.append(
                (
                    found := settled_file(file),
                    by_engine.get(file.name) or ingest_into_lake(lake_session, found),
                )
            )
        except (StillChanging, FileNotFoundError):
            waits[file.name] = STILL_WRITTEN
        except StoreRefused as error:  # of this object: it was listed
            waits[file.name] = f"it cannot be read: {error.culprit}"
    return taken, waits


def _records_to_append(
    lake_session: Session,
    intakes: Intakes,
    records: Sequence[FileRecord],
    moment: datetime,
    recount: Sequence[FileRecord],
    rules: _CountingRules,
) -> tuple[list[FileRecord], str]:
    """Records to append, of new files and then of files to `recount`; and why one of their rows is
    unusable."""
    settings, before = lake_session.lake.settings, rules.before
    recorded_at = _moment_after(records, moment) + timedelta(
        microseconds=1
    )  # after withdrawals of the same scan
    believed = sorted(
        (r for r in (*before, *records) if r.sha256 not in rules.early), key=lambda r: r.first_scan
    )
    known = {r.sha256: r for r in believed if rules.has_counted(r)}
    seen = {r.sha256: r.first_scan for r in believed}
    new = [
        FileRecord(
            f.name,
            i.sha256,
            f.size,
            f.mtime_ns,
            seen.get(i.sha256, moment),
            settings.start_date,
            {},
        )
        for f, i in intakes
    ]
    again = [replace(r, first_scan=seen.get(r.sha256, moment)) for r in recount]
    uncounted = [r for r in (*again, *new) if r.sha256 not in known]
    files = {
        f.sha256: replace(f, home_day=None) for f in recorded_contents(lake_session, uncounted)
    }
    if files:
        lake_session.expect(sum(f.rows for f in files.values()))
    is_gone = forgotten_condition(lake_session.lake)
    counted = (
        count_days(lake_session.spark, list(files.values()), settings, is_gone) if files else {}
    )
    refuse_rules_that_fit_nothing(list(files.values()), counted, known)
    refuse_rules_that_leave_nothing(
        counted, [r for r in (*again, *before) if r.sha256 not in known]
    )
    files |= {
        s: replace(files[s], refused=c.refused) for s, c in counted.items() if files[s].is_undecoded
    }
    disagreeing = content_faults(lake_session, [*new, *again], records, files, rules.declared)
    refuse_replaced(files.values())
    loaded, recorded = (
        {r.sha256 for r in (*before, *records) if not r.withdrawn and r.usable_rows},
        [],
    )
    for record in (*new, *again):
        old, fresh = (
            known.get(record.sha256),
            refused_if_flooded(counted.get(record.sha256, Counted()), record.size),
        )
        days, home = (
            (old.days, old.home_day)
            if old
            else assign_home_day(fresh.days, first_home_day(record, settings))
        )
        refused = (old or fresh).refused
        if old is None:
            refuse_lost_rows(record.path, 1 if refused else files[record.sha256].rows, days)
        why = "" if refused else disagreeing.get(record.sha256, "")
        if why and record.sha256 not in loaded:
            days, refused, why = {home: (1, 1, 0)}, why, ""
        judged = replace(record, days=days, home_day=home, refused=refused, contradicted=why)
        recorded.append(replace(judged, counted_by=rules.of(record), recorded_at=recorded_at))
    lake_session.lake.stock.sync_new([intake.name for _, intake in intakes if not intake.is_local])
    return recorded, next(
        (c.example for c in counted.values() if c.example not in ("", FORGOTTEN)), ""
    )


def _landing_events(recorded: Iterable[FileRecord]) -> list[tuple[object, ...]]:
    named = (
        (r, r.refused or (LOADED_BEFORE + r.contradicted if r.contradicted else None))
        for r in recorded
    )
    return [
        _ledger_event(LANDED, r, d, counts, note)
        for r, note in named
        for d, counts in sorted(r.days.items())
    ]


def _moment_after(records: Sequence[FileRecord], now: datetime) -> datetime:
    """Now, but after all events recorded so far, because the newest wins whatever the clock
    says."""
    return max((now, *(r.recorded_at + timedelta(microseconds=1) for r in records)))


def withdraw_disputed(lake_session: Session, note: str, paths: Iterable[str] = ()) -> list[str]:
    """Withdraw disputed contents from the ledger, so that their days follow the files and manifests
    of today.

    `paths` restricts it; returns the paths withdrawn. The next scan reads the new content of an
    altered file.
    """
    (comparison, _, records), wanted = current_comparison(lake_session), set(paths)
    chosen = [r for r in comparison.disputed if not wanted or r.path in wanted]
    chosen += [
        r for r in comparison.vanished if r.path in wanted
    ]  # never all at once: raw has their rows
    moment, (lost, others) = _moment_after(records, utc_now()), given_up_records(chosen, records)
    landings = _landing_events(replace(r, recorded_at=moment) for r in lost)
    events = [*_withdrawal_events(others, moment, note), *landings]
    append_events(lake_session.lake, events, "landing accept", note)
    return sorted(r.path for r in chosen)


def follow_rewritten_files(lake_session: Session, records: Sequence[FileRecord], note: str) -> None:
    """Follow landed files that the lake itself rewrote: the present content at these records' paths
    replaces theirs.

    It keeps their first scan, so that the remaining rows are judged as before. Safe to repeat after
    an interruption.
    """
    replaced, (_, listing, known) = {r.path: r for r in records}, current_comparison(lake_session)
    intakes, _ = _ingested_or_waiting(
        lake_session, [f for f in listing.files if f.name in replaced]
    )
    heirs = [replace(replaced[f.name], sha256=i.sha256, counted_by="") for f, i in intakes]
    contents = declared_by_content(listing.declared, [(f.name, i.sha256) for f, i in intakes])
    rules, now = (
        _CountingRules(counting_digest(lake_session.lake.settings), contents, ()),
        utc_now(),
    )
    known = with_contents(lake_session.lake, known, {i.sha256 for _, i in intakes})
    recorded, _ = _records_to_append(lake_session, intakes, [*known, *heirs], now, [], rules)
    ended = _withdrawal_events(records, _moment_after([*known, *recorded], now), note)
    append_events(lake_session.lake, [*_landing_events(recorded), *ended], "forget", note)


def _withdrawal_events(
    records: Sequence[FileRecord], moment: datetime, note: str
) -> list[tuple[object, ...]]:
    return [
        _ledger_event(WITHDRAWN, replace(r, recorded_at=moment), r.home_day, (0, 0, 0), note)
        for r in records
    ]


def _ledger_event(
    event: str, record: FileRecord, day: date, counts: tuple[int, int, int], note: str | None
) -> tuple[object, ...]:
    """A row of the ledger."""
    return (
        event,
        record.path,
        record.sha256,
        day,
        *counts,
        record.size,
        record.mtime_ns,
        record.first_scan,
        record.home_day,
        record.recorded_at,
        record.counted_by,
        note,
    )


def joined_reports(reports: Mapping[str, ScanReport]) -> ScanReport:
    """The scans of a lake's sources, by name, as one report; each path after the name of its
    source."""
    fields: dict[str, Any] = {name: {} for name in BY_PATH}
    fields |= dict.fromkeys(PATHS, ())
    copies, blocked, known, example = dict[str, str](), frozenset[date](), 0, ""
    for source, report in reports.items():
        for name in BY_PATH:
            for path, value in getattr(report, name).items():
                fields[name][path_with_source(path, source)] = value
        for name in PATHS:
            fields[name] += tuple(path_with_source(path, source) for path in getattr(report, name))
        for path, original in report.copies.items():
            copies[path_with_source(path, source)] = path_with_source(original, source)
        blocked |= report.blocked
        known += report.known
        if report.example and not example:
            example = path_with_source(report.example, source)
    return ScanReport(**fields, copies=copies, blocked=blocked, known=known, example=example)
