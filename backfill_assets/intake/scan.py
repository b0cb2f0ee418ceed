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
from backfill_assets.intake.content_store import StoredFile, refuse_replaced
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
from backfill_assets.intake.forgotten import FORGOTTEN_REASON, forgotten_condition
from backfill_assets.intake.landed_changes import (
    Intakes,
    LandingLook,
    ScanReport,
    copied_paths,
    counting_digest,
    counting_rules,
    deliveries_name,
    look_at_landing,
    records_by_new_names,
    scanned_too_early,
)
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import (
    FILES,
    LANDED,
    LOADED_BEFORE,
    NO_ROWS,
    REFUSED_WHOLE,
    WITHDRAWN,
    FileRecord,
    RowCounts,
    ledger_of_source,
    path_with_source,
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
from backfill_assets.kernel.place.port import StoreRefused, load_lock
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.session import Session

# Fields of a report: those with paths, and those with values by path.
PATH_FIELDS = ("altered", "missing", "lapsed")
FIELDS_BY_PATH = ("new", "refused", "waiting", "unreadable", "contradicted", "vanished", "ahead")
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
            alone = failing_alone(deliveries_name(lake))
            # The lock is outside of `alone`: its folder is the lake's own.
            with load_lock(lake.place, lake.source), alone, errors_of_source(lake.source):
                reports[lake.source] = scan_source(lake_session.of_source(lake.source))
        except BackfillError as error:
            # A file that still changes is of one source; other such errors are of the machine.
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
                withdrawn = withdraw_disputed(lake_session.of_source(lake.source), note, chosen)
            followed += [path_with_source(path, lake.source) for path in withdrawn]
    return followed


def scan_source(lake_session: Session, now: datetime | None = None) -> ScanReport:
    """Append new files to the ledger and report. Raises LandingError when counts do not add up."""
    look = look_at_landing(lake_session, to_scan=True)
    if _has_waited_for_manifest(look.listing):
        look = look_at_landing(lake_session, to_scan=True)  # it may have read half of a manifest
    moment = now or utc_now()
    intakes, waits = _ingested_or_waiting(lake_session, look.comparison.fresh)
    landed = {intake.sha256 for _, intake in intakes}
    look = replace(look, records=with_contents(lake_session.lake, look.records, landed))
    while True:
        try:
            return _record_scan(lake_session, look, intakes, waits, moment)
        except StillChanging as error:  # the other files do not wait
            changed = {f.name for f, i in intakes if i.sha256 in error.contents}
            live = [record for record in look.records if not record.withdrawn]
            changed |= {record.path for record in live if record.sha256 in error.contents}
            if changed <= waits.keys():
                raise
            waits |= dict.fromkeys(changed, STILL_WRITTEN)
            intakes = [(f, i) for f, i in intakes if f.name not in changed]


def _has_waited_for_manifest(listing: Listing) -> bool:
    """Wait for a manifest that is still being written; whether there was one, and it is written
    now."""
    for manifest in listing.manifests:
        is_still_written = not is_complete(manifest, utc_now().timestamp())
        if is_still_written and wait_until_quiet(manifest):
            return True
    return False


def _record_scan(
    lake_session: Session,
    look: LandingLook,
    intakes: Intakes,
    waits: Mapping[str, str],
    moment: datetime,
) -> ScanReport:
    """Count and record the intakes and the records whose rules changed, without the paths of
    `waits` (path -> why), and report. Raises StillChanging, having recorded nothing, if a file that
    is read where it lies changes meanwhile."""
    lake, comparison, records = lake_session.lake, look.comparison, look.records
    known = count_records(lake)
    by_content = {intake.sha256: intake for _, intake in intakes}
    refuse_replaced(by_content.values())  # of equal files the last one is read
    known_before = [(r.path, r.sha256) for r in records if not r.withdrawn]
    note_kinds(lake.stock, [(file.name, intake) for file, intake in intakes], known_before)
    # A missing file whose content lands again at another path was moved.
    missing = [m for m in comparison.missing if m.sha256 not in by_content]
    live = _undisputed_records(look, missing, {*waits, *(file.name for file, _ in intakes)})
    rules = _rules_of_scan(lake.settings, look, intakes, live, moment)
    recount = [r for r in live if r.counted_by != rules.of(r) or rules.may_differ(r, bool(intakes))]
    recorded, example = _records_to_append(lake_session, intakes, records, moment, recount, rules)
    ended = [r for r in (*comparison.lapsed, *comparison.renamed) if r.path not in waits]
    withdrawals = _withdrawal_events(
        ended, _moment_after(records, moment), "not used, or named otherwise by select now"
    )
    append_events(lake, [*withdrawals, *_landing_events(recorded)], "scan", "")
    note_scanned(lake, look.listing)
    report = _report_of(look, intakes, recorded, missing)
    return replace(report, waiting={**waits, **report.waiting}, known=known, example=example)


def _undisputed_records(
    look: LandingLook, missing: Sequence[FileRecord], other_paths: Collection[str]
) -> list[FileRecord]:
    """The records whose files lie there as recorded, and so may be counted again; without those at
    `other_paths`, which are new or wait. `missing`: of the look, without contents that landed at
    another path."""
    found = look.comparison
    apart = (*found.altered, *missing, *found.lapsed, *found.renamed, *found.vanished)
    blocked = {record.path for record in apart}.union(other_paths)
    return [r for r in look.records if not r.withdrawn and r.path not in blocked]


def _rules_of_scan(
    settings: LakeSettings,
    look: LandingLook,
    intakes: Intakes,
    live: Sequence[FileRecord],
    moment: datetime,
) -> "_CountingRules":
    """The rules by which a scan at a `moment` counts the intakes and the `live` records."""
    contents = [(record.path, record.sha256) for record in live]
    contents += [(file.name, intake.sha256) for file, intake in intakes]
    return _CountingRules(
        today=counting_digest(settings),
        declared=declared_by_content(look.listing.declared, contents),
        early=scanned_too_early(look.records, intakes, moment),
        before=records_by_new_names(look.comparison.renamed, intakes, look.records),
    )


def _report_of(
    look: LandingLook,
    intakes: Intakes,
    recorded: Sequence[FileRecord],
    missing: Sequence[FileRecord],
) -> ScanReport:
    """The report of a scan that recorded these records, those of the intakes first. It names
    neither the files that wait because they change, nor how many were known before."""
    comparison, listing = look.comparison, look.listing
    renamed_paths = {r.path for r in comparison.renamed}
    new = [r for r in recorded[: len(intakes)] if r.path not in renamed_paths]
    copies = copied_paths(new, recorded, look.records)
    disputed = [r for r in (*comparison.contradicted, *recorded) if r.contradicted]
    blocked = set[date]()
    for record in (*comparison.altered, *missing, *disputed):
        blocked |= {*record.days, *record.used_days}
    return ScanReport(
        new={r.path: (r.rows, r.bad_rows) for r in new if r.path not in copies},
        copies=copies,
        refused={r.name: r.reason for r in listing.refused},
        waiting=waiting_reasons(comparison.held, listing.declared.absent),
        unreadable={r.path: r.refused for r in recorded if r.refused},
        contradicted={r.path: r.contradicted for r in disputed},
        ahead=future_commits([file for file, _ in intakes]),
        altered=tuple(sorted(r.path for r in comparison.altered)),
        missing=tuple(sorted(r.path for r in missing)),
        blocked=frozenset(blocked),
        vanished={r.path: frozenset(r.days) for r in comparison.vanished if r.refused is None},
        lapsed=tuple(sorted(r.path for r in comparison.lapsed if not r.may_be_in_raw)),
    )


@dataclass(frozen=True)
class _CountingRules:
    """The rules by which a scan counts contents."""

    today: str  # the digest of today's settings
    declared: Mapping[str, Sequence[DeclaredTotals]]  # per path the totals that manifests declare
    # contents scanned before their file's own time: their first scan becomes now
    early: Collection[str]
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
    taken, waits = list[tuple[LandedFile, StoredFile]](), dict[str, str]()
    by_engine = taken_by_engine(lake_session, fresh)
    for file in fresh:
        try:
            settled = settled_file(file)
            content = by_engine.get(file.name) or ingest_into_lake(lake_session, settled)
            taken.append((settled, content))
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
    unusable. `records`: of the ledger at the same paths and of the same contents."""
    settings, earlier = lake_session.lake.settings, (*rules.before, *records)
    believed = [r for r in earlier if r.sha256 not in rules.early]  # by their first scans
    believed.sort(key=lambda record: record.first_scan)
    known = {r.sha256: r for r in believed if rules.has_counted(r)}  # of which nothing is read
    first_scans = {r.sha256: r.first_scan for r in believed}
    new = _new_records(intakes, first_scans, moment, settings.start_date)
    again = [replace(r, first_scan=first_scans.get(r.sha256, moment)) for r in recount]
    to_count = [r for r in (*again, *new) if r.sha256 not in known]
    files, counted = _counted_contents(lake_session, to_count)
    refuse_rules_that_fit_nothing(list(files.values()), counted, known)
    counted_before = [r for r in (*again, *rules.before) if r.sha256 not in known]
    refuse_rules_that_leave_nothing(counted, counted_before)
    for sha256, found in counted.items():
        if files[sha256].is_undecoded:  # whether it can be read is known only now
            files[sha256] = replace(files[sha256], refused=found.refused)
    faults = content_faults(lake_session, [*new, *again], records, files, rules.declared)
    refuse_replaced(files.values())
    loaded = {r.sha256 for r in earlier if not r.withdrawn and r.usable_rows}
    verdicts = _Verdicts(
        settings, known=known, counted=counted, files=files, faults=faults, loaded=loaded
    )
    # After withdrawals of the same scan.
    recorded_at = _moment_after(records, moment) + timedelta(microseconds=1)
    recorded = list[FileRecord]()
    for record in (*new, *again):
        judged = verdicts.judged(record)
        recorded.append(replace(judged, counted_by=rules.of(record), recorded_at=recorded_at))
    lake_session.lake.stock.sync_new([intake.name for _, intake in intakes if not intake.is_local])
    examples = (c.example for c in counted.values() if c.example not in ("", FORGOTTEN_REASON))
    return recorded, next(examples, "")


def _new_records(
    intakes: Intakes, first_scans: Mapping[str, datetime], moment: datetime, start: date
) -> list[FileRecord]:
    """The records of new files before their rows are counted; of a content without a first scan
    that is `moment`."""
    return [
        FileRecord(
            path=file.name,
            sha256=intake.sha256,
            size=file.size,
            mtime_ns=file.mtime_ns,
            first_scan=first_scans.get(intake.sha256, moment),
            home_day=start,
            days={},
        )
        for file, intake in intakes
    ]


def _counted_contents(
    lake_session: Session, records: Sequence[FileRecord]
) -> tuple[dict[str, StoredFile], dict[str, Counted]]:
    """The contents of these records in the content store, and their counts; both by content."""
    lake, files = lake_session.lake, dict[str, StoredFile]()
    for file in recorded_contents(lake_session, records):
        files[file.sha256] = replace(file, home_day=None)  # it follows from the counts
    if files:
        lake_session.expect(sum(file.rows for file in files.values()))
    forgotten_sql = forgotten_condition(lake)  # raises also where nothing is to be counted
    if not files:
        return {}, {}
    counted = count_days(lake_session.spark, list(files.values()), lake.settings, forgotten_sql)
    return files, counted


@dataclass(frozen=True)
class _Verdicts:
    """What a scan and earlier ones found out about contents, by content."""

    settings: LakeSettings
    known: Mapping[str, FileRecord]  # records that today's rules have counted already
    counted: Mapping[str, Counted]  # by this scan
    files: Mapping[str, StoredFile]  # the contents that this scan counted
    faults: Mapping[str, str]  # why a manifest, or the dump before it, refuses a content
    loaded: Collection[str]  # contents with usable rows, which raw may have

    def judged(self, record: FileRecord) -> FileRecord:
        """The record with its days, and why it is refused or contradicted. A content with a fault
        is refused whole, unless raw may have its rows: then it is contradicted. Raises LandingError
        where a reader lost rows."""
        days: Mapping[date, RowCounts]
        known = self.known.get(record.sha256)
        if known is not None:
            days, home, refused = known.days, known.home_day, known.refused
        else:
            counted = refused_if_flooded(self.counted.get(record.sha256, Counted()), record.size)
            days, home = assign_home_day(counted.days, first_home_day(record, self.settings))
            refused = counted.refused
            rows = 1 if refused else self.files[record.sha256].rows
            refuse_lost_rows(record.path, rows, days)
        fault = "" if refused else self.faults.get(record.sha256, "")
        if fault and record.sha256 not in self.loaded:
            days, refused, fault = {home: REFUSED_WHOLE}, fault, ""
        return replace(record, days=days, home_day=home, refused=refused, contradicted=fault)


def _landing_events(recorded: Iterable[FileRecord]) -> list[tuple[object, ...]]:
    """The rows of the ledger for records, one per arrival day, with the note why a file is refused
    or contradicted."""
    events = list[tuple[object, ...]]()
    for record in recorded:
        note = record.refused
        if not note and record.contradicted:
            note = LOADED_BEFORE + record.contradicted
        for day, count in sorted(record.days.items()):
            events.append(_ledger_event(LANDED, record, day, count, note or None))
    return events


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
    look, wanted = look_at_landing(lake_session), set(paths)
    chosen = [r for r in look.comparison.disputed if not wanted or r.path in wanted]
    # Vanished ones only by name, never all at once: raw has their rows.
    chosen += [r for r in look.comparison.vanished if r.path in wanted]
    moment = _moment_after(look.records, utc_now())
    lost, others = given_up_records(chosen, look.records)
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
    lake, now = lake_session.lake, utc_now()
    replaced, look = {r.path: r for r in records}, look_at_landing(lake_session)
    files = [file for file in look.listing.files if file.name in replaced]
    intakes, _ = _ingested_or_waiting(lake_session, files)
    # The records of today's contents, with the first scans of those that they replace.
    heirs = [replace(replaced[f.name], sha256=i.sha256, counted_by="") for f, i in intakes]
    contents = [(file.name, intake.sha256) for file, intake in intakes]
    declared = declared_by_content(look.listing.declared, contents)
    rules = _CountingRules(counting_digest(lake.settings), declared, early=())
    known = with_contents(lake, look.records, {sha256 for _, sha256 in contents})
    recorded, _ = _records_to_append(
        lake_session, intakes, [*known, *heirs], now, recount=[], rules=rules
    )
    ended = _withdrawal_events(records, _moment_after([*known, *recorded], now), note)
    append_events(lake_session.lake, [*_landing_events(recorded), *ended], "forget", note)


def _withdrawal_events(
    records: Sequence[FileRecord], moment: datetime, note: str
) -> list[tuple[object, ...]]:
    """The rows of the ledger that withdraw these records."""
    return [
        _ledger_event(WITHDRAWN, replace(r, recorded_at=moment), r.home_day, NO_ROWS, note)
        for r in records
    ]


def _ledger_event(
    event: str, record: FileRecord, day: date, count: RowCounts, note: str | None
) -> tuple[object, ...]:
    """A row of the ledger, in the order of the columns of `FILES`."""
    return (
        event,
        record.path,
        record.sha256,
        day,
        count.rows,
        count.bad,
        count.usable,
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
    fields: dict[str, Any] = {name: {} for name in FIELDS_BY_PATH}
    fields |= dict.fromkeys(PATH_FIELDS, ())
    copies, blocked = dict[str, str](), frozenset[date]()
    known, example = 0, ""
    for source, report in reports.items():
        for name in FIELDS_BY_PATH:
            for path, value in getattr(report, name).items():
                fields[name][path_with_source(path, source)] = value
        for name in PATH_FIELDS:
            fields[name] += tuple(path_with_source(path, source) for path in getattr(report, name))
        for path, original in report.copies.items():
            copies[path_with_source(path, source)] = path_with_source(original, source)
        blocked |= report.blocked
        known += report.known
        if report.example and not example:
            example = path_with_source(report.example, source)
    return ScanReport(**fields, copies=copies, blocked=blocked, known=known, example=example)
