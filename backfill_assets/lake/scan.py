"""The scan: comparing the landing folder with the ledger `files`, and reading new files once to learn their days.

Lives here: what is new, a copy, altered, missing; the append to `files`; `landing accept`. Does not live here: listing
and strict parsing (`landing`, `intake`), loading days into raw (`lake.load`). The caller holds the load lock.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import LandingError
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.scans import ScanReport
from backfill_assets.lake.committer import commit_files, ensure_table
from backfill_assets.lake.deliveries import StockFile, read_deliveries
from backfill_assets.lake.intake import Intake, take
from backfill_assets.lake.landing import LandedFile, Listing, StillChanging, list_landing, settle, sha256_of
from backfill_assets.lake.ledger import FILES, LANDED, WITHDRAWN, FileRecord, read_files
from backfill_assets.lake.lock import table_lock
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.spark import Workshop
from backfill_assets.lake.staging import stage_rows
from backfill_assets.lake.stock import find, put

Days = dict[date | None, tuple[int, int, int]]


def look(workshop: Workshop) -> tuple[Listing, list[FileRecord]]:
    """The landing folder and the ledger, side by side. No JVM."""
    source, lake = workshop.lake.settings.source, workshop.lake
    return list_landing(source.files, lake.root, source.format), read_files(lake.table_path(FILES.name))


@dataclass(frozen=True)
class Comparison:
    """The landing folder against the ledger. `lapsed`: records without usable rows whose file changed or vanished."""

    fresh: list[LandedFile]
    altered: list[FileRecord]
    missing: list[FileRecord]
    lapsed: list[FileRecord]


def compare(listing: Listing, records: Sequence[FileRecord]) -> Comparison:
    """What is new, altered, missing. Hashes only files whose size or time changed; no JVM.

    A record none of whose rows was usable is no basis of raw: its file may change or vanish freely. A missing file is
    not missing while the same content lies at another path.
    """
    here = {f.name: f for f in listing.files}
    live = [r for r in records if not r.withdrawn]
    altered, gone, same = [], [], set()
    for record in live:
        file = here.get(record.path)
        if file is None:
            gone.append(record)
        elif (file.size, file.mtime_ns) == (record.size, record.mtime_ns) or _sha(file) == record.sha256:
            same.add(record.path)
        else:
            altered.append(record)
    taken = same | {r.path for r in altered if r.usable_rows}
    present = {r.sha256 for r in live if r.path in same}
    return Comparison(
        fresh=[f for f in listing.files if f.name not in taken],
        altered=[r for r in altered if r.usable_rows],
        missing=[r for r in gone if r.usable_rows and r.sha256 not in present],
        lapsed=[r for r in (*altered, *gone) if not r.usable_rows or (r in gone and r.sha256 in present)],
    )


def _sha(file: LandedFile) -> str:
    try:
        return sha256_of(file)
    except StillChanging:
        return ""


def scan(workshop: Workshop, now: datetime | None = None) -> ScanReport:
    """Take stock: append what is new to the ledger and report. Raises LandingError when counts do not add up."""
    listing, records = look(workshop)
    found = compare(listing, records)
    moment = now or datetime.now(UTC)
    _append(workshop, _withdrawals(found.lapsed, moment, "nothing of it was used"), "scan", "")
    waiting: dict[str, str] = {}
    intakes: list[tuple[LandedFile, Intake]] = []
    for file in found.fresh:
        try:
            if not settle(file):
                raise StillChanging(str(file.path))
            current = _again(file)
            intakes.append((current, take(current, workshop.lake.settings.source.format, workshop.lake.stock)))
        except (StillChanging, FileNotFoundError):
            waiting[file.name] = "still being written; the next scan reads it"
    altered, missing = found.altered, [m for m in found.missing if m.sha256 not in {i.sha256 for _, i in intakes}]
    blocked = {r.path for r in (*altered, *missing, *found.lapsed)} | {f.name for f, _ in intakes}
    today = _counting_digest(workshop.lake.settings)
    recount = [r for r in records if not r.withdrawn and r.counted_by != today and r.path not in blocked]
    copies = _record(workshop, intakes, records, moment, recount)
    return ScanReport(
        new={f.name: (i.rows, i.bad_rows) for f, i in intakes if f.name not in copies},
        copies=copies,
        refused={r.name: r.reason for r in listing.refused},
        waiting=waiting,
        unreadable={f.name: i.unreadable for f, i in intakes if i.unreadable},
        altered=tuple(sorted(r.path for r in altered)),
        missing=tuple(sorted(r.path for r in missing)),
        blocked=frozenset(d for r in (*altered, *missing) for d in r.days),
        known=len(records) + len(intakes),
    )


def _again(file: LandedFile) -> LandedFile:
    """The file as it is after it settled."""
    stat = os.lstat(file.path)
    return LandedFile(file.name, file.path, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class _Landing:
    """One content at one path, to be appended to the ledger with its days."""

    path: str
    sha256: str
    size: int
    mtime_ns: int
    rows: int


def _record(
    workshop: Workshop,
    intakes: Sequence[tuple[LandedFile, Intake]],
    records: Sequence[FileRecord],
    moment: datetime,
    recount: Sequence[FileRecord],
) -> dict[str, str]:
    """Append new files, and old ones counted under other settings; returns the copies (path -> path of the same)."""
    settings = workshop.lake.settings
    today = _counting_digest(settings)
    for _, intake in intakes:
        put(workshop.lake.stock, intake, settings.source.format)
    landings = [_Landing(f.name, i.sha256, f.size, f.mtime_ns, i.rows) for f, i in intakes]
    landings += [_Landing(r.path, r.sha256, r.size, r.mtime_ns, r.rows) for r in recount]
    known = {r.sha256: r for r in records if r.counted_by == today}
    seen = {r.sha256: r.first_scan for r in sorted(records, key=lambda r: r.first_scan, reverse=True)}
    asked = {p.sha256: seen.get(p.sha256, moment) for p in landings if p.sha256 not in known}
    counted = _count_days(workshop, asked, {r.sha256: r for r in recount})
    rows: list[tuple[object, ...]] = []
    for landing in landings:
        if landing.sha256 in known:
            days, home = dict(known[landing.sha256].days), known[landing.sha256].home_day
        else:
            days, home = _settle_days(counted.get(landing.sha256, {}), settings.start_date)
            _add_up(landing, days)
        common = (landing.size, landing.mtime_ns, seen.get(landing.sha256, moment), home, moment, today, None)
        rows += [(LANDED, landing.path, landing.sha256, d, *counts, *common) for d, counts in sorted(days.items())]
    _append(workshop, rows, "scan", "")
    return _copies([f.name for f, _ in intakes], landings, records)


def _copies(new: Sequence[str], landings: Sequence[_Landing], records: Sequence[FileRecord]) -> dict[str, str]:
    """The new paths whose content was known at another path already."""
    owners = {r.sha256: r.path for r in reversed(records) if not r.withdrawn}
    for landing in landings:
        owners.setdefault(landing.sha256, landing.path)
    return {p.path: owners[p.sha256] for p in landings if p.path in new and owners[p.sha256] != p.path}


def is_counted(record: FileRecord, settings: LakeSettings) -> bool:
    """Whether the record's days and rows were counted under today's settings."""
    return record.counted_by == _counting_digest(settings)


def _counting_digest(settings: LakeSettings) -> str:
    """Of the settings that decide a row's day and whether it is usable."""
    source, tolerance = settings.source, settings.lateness.early_tolerance_days
    return digest_of([source.format, source.select, str(settings.start_date), tolerance])


def _count_days(workshop: Workshop, seen: Mapping[str, datetime], records: Mapping[str, FileRecord]) -> dict[str, Days]:
    """Rows, bad rows and usable rows per content and arrival day (None: no usable arrival time), read once by Spark.

    `seen` says when each content was first scanned; `records` are those that may have to be taken into the stock again.
    """
    from pyspark.sql import functions as F

    if not seen:
        return {}
    files = [
        replace(stocked(workshop, records[sha]), home_day=None, first_scan=first)
        if sha in records
        else find(workshop.lake.stock, sha, first)
        for sha, first in seen.items()
    ]
    judged = read_deliveries(workshop.session(), [f for f in files if f is not None], workshop.lake.settings)
    counts = judged.groupBy("sha256", "arrival_date").agg(
        F.count(F.lit(1)).alias("rows"), F.count("reason").alias("bad_rows")
    )
    found: dict[str, Days] = defaultdict(dict)
    for row in counts.collect():
        found[row["sha256"]][row["arrival_date"]] = (row["rows"], row["bad_rows"], row["rows"] - row["bad_rows"])
    return found


def _settle_days(counted: Days, start: date) -> tuple[dict[date, tuple[int, int, int]], date]:
    """Rows without a usable arrival time go to the file's earliest usable day, else to the lake's first day."""
    days = {d: c for d, c in counted.items() if d is not None}
    home = min(days, default=start)
    homeless = counted.get(None)
    if homeless:
        before = days.get(home, (0, 0, 0))
        days[home] = (before[0] + homeless[0], before[1] + homeless[1], before[2])
    return days or {home: (0, 0, 0)}, home


def _add_up(landing: _Landing, days: dict[date, tuple[int, int, int]]) -> None:
    counted = sum(r for r, _, _ in days.values())
    if counted != landing.rows:
        raise LandingError(
            f"the landed file {landing.path}",
            f"it has {landing.rows} rows, Spark's reader gave {counted}",
            "Nothing of it was recorded or loaded",
            "Keep the file and report this: a reader lost rows",
        )


def _append(workshop: Workshop, rows: Sequence[tuple[object, ...]], reason: str, note: str) -> None:
    if not rows:
        return
    lake = workshop.lake
    path = lake.table_path(FILES.name)
    staged = stage_rows(lake, FILES, rows)
    receipt = Receipt(staged.write_id, FILES.name, reason, {}, note=note)
    try:
        with table_lock(lake.locks, FILES.name):
            ensure_table(path, FILES, lake.settings.retention.rollback_days)
            commit_files(path, FILES, receipt, staged.files, ())
        staged.keep(staged.paths)
    finally:
        staged.drop()


def accept(workshop: Workshop, note: str, paths: Iterable[str] = ()) -> list[str]:
    """Withdraw altered and missing contents from the ledger, so that their days follow what lies there now.

    `paths` restricts it; returns the paths withdrawn. The new content of an altered file is read by the next scan.
    """
    listing, records = look(workshop)
    found = compare(listing, records)
    wanted = set(paths)
    chosen = [r for r in (*found.altered, *found.missing) if not wanted or r.path in wanted]
    _append(workshop, _withdrawals(chosen, datetime.now(UTC), note), "landing accept", note)
    return sorted(r.path for r in chosen)


def stocked(workshop: Workshop, record: FileRecord) -> StockFile:
    """The record's content in the stock, taken again from the landing where the stock was deleted."""
    lake = workshop.lake
    found = find(lake.stock, record.sha256, record.first_scan, record.home_day)
    if found is not None:
        return found
    listing, _ = look(workshop)
    for file in (f for f in listing.files if f.name == record.path):
        intake = take(file, lake.settings.source.format, lake.stock)
        put(lake.stock, intake, lake.settings.source.format)
    found = find(lake.stock, record.sha256, record.first_scan, record.home_day)
    if found is None:
        raise LandingError(
            f"the landed file {record.path}",
            "its content is neither in the stock nor in the landing folder",
            "Nothing was written",
            "Put the file back, then run again",
        )
    return found


def _withdrawals(records: Sequence[FileRecord], moment: datetime, note: str) -> list[tuple[object, ...]]:
    return [
        (
            WITHDRAWN,
            r.path,
            r.sha256,
            r.home_day,
            0,
            0,
            0,
            r.size,
            r.mtime_ns,
            r.first_scan,
            r.home_day,
            moment,
            r.counted_by,
            note,
        )
        for r in records
    ]
