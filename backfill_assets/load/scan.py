"""The scan: taking new files of the landing folder into the stock once, and into the ledger `files` with their days.

Lives here: what is new, a copy, refused; the append to `files`; `landing accept`. Does not live here: listing, strict
parsing and comparing (`landing.files`, `landing.ingest`, `landed_changes`), counting (`counting`), loading days into
raw (`raw`). The caller holds the load lock.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from backfill_assets.core.clock import utc_now
from backfill_assets.core.errors import LandingError, SettingsError
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.scans import ScanReport
from backfill_assets.core.texts import plain
from backfill_assets.lake.files import sync_all
from backfill_assets.lake.ledger import FILES, LANDED, WITHDRAWN, FileRecord, of_source
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import stage_rows, sweep
from backfill_assets.landing.content_store import IngestedFile, StoredFile, find
from backfill_assets.landing.files import Hashes, LandedFile, StillChanging, settle
from backfill_assets.landing.mapping import UNFIT
from backfill_assets.load.counting import (
    Counted,
    count_days,
    settle_days,
    taken_again,
    taken_in,
    unless_flooding,
    with_path,
)
from backfill_assets.load.known import counting_digest, is_scanned_too_early
from backfill_assets.load.landed_changes import compare, compared, look


def scan(lake_session: LakeSession, now: datetime | None = None) -> ScanReport:
    """Take stock: append what is new to the ledger and report. Raises LandingError when counts do not add up."""
    found, listing, records = compared(lake_session)
    moment = now or utc_now()
    lapsed = _withdrawals(found.lapsed, _after(records, moment), "nothing of it was used")
    _append(lake_session, lapsed, "scan", "")
    intakes, waiting = _taken(lake_session, found.fresh)
    come = {i.sha256 for _, i in intakes}
    altered, missing = found.altered, [m for m in found.missing if m.sha256 not in come]
    blocked = {r.path for r in (*altered, *missing, *found.lapsed)} | {f.name for f, _ in intakes}
    today = counting_digest(lake_session.lake.settings)
    early = _scanned_too_early(records, intakes, moment)
    live = [r for r in records if not r.withdrawn and r.path not in blocked]
    recount = [r for r in live if r.counted_by != today or r.sha256 in early]
    landings = _record(lake_session, intakes, records, moment, recount, early)
    copies = _copies([f.name for f, _ in intakes], landings, records)
    return ScanReport(
        new={p.path: p.told for p in landings if p.is_new and p.path not in copies},
        copies=copies,
        refused={r.name: r.reason for r in listing.refused},
        waiting=waiting,
        unreadable={p.path: p.refused for p in landings if p.refused},
        altered=tuple(sorted(r.path for r in altered)),
        missing=tuple(sorted(r.path for r in missing)),
        blocked=frozenset(d for r in (*altered, *missing) for d in {*r.days, *r.used_days}),
        let_go=tuple(sorted(r.path for r in found.lapsed if not r.is_basis)),
        known=len(records),
    )


def _taken(
    lake_session: LakeSession, fresh: Sequence[LandedFile]
) -> tuple[list[tuple[LandedFile, IngestedFile]], dict[str, str]]:
    """The new files taken into the stock, and those that have to wait: path -> why."""
    taken, waiting = [], {}
    for file in fresh:
        try:
            if not settle(file):
                raise StillChanging(str(file.path))
            current = _again(file)
            taken.append((current, taken_in(lake_session, current)))
        except (StillChanging, FileNotFoundError):
            waiting[file.name] = "still being written; the next scan reads it"
    return taken, waiting


def _again(file: LandedFile) -> LandedFile:
    """The file as it is after it settled."""
    stat = os.lstat(file.path)
    return LandedFile(file.name, file.path, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class _Landing:
    """One content at one path, to be appended to the ledger with its days. `refused`: why it is one unusable row."""

    path: str
    sha256: str
    size: int
    mtime_ns: int
    rows: int
    is_new: bool = True
    bad_rows: int = 0
    refused: str | None = None

    @property
    def told(self) -> tuple[int, int]:
        """Rows and unusable rows, as the report counts them of a new file."""
        return (1, 1) if self.refused else (self.rows, self.bad_rows)


def _record(
    lake_session: LakeSession,
    intakes: Sequence[tuple[LandedFile, IngestedFile]],
    records: Sequence[FileRecord],
    moment: datetime,
    recount: Sequence[FileRecord],
    early: Collection[str],
) -> list[_Landing]:
    """Append new files, and old ones to be counted again; returns what was appended. The contents that were scanned too
    `early` have their first scan now."""
    settings = lake_session.lake.settings
    today, recorded = counting_digest(settings), _after(records, moment)
    believed = sorted((r for r in records if r.sha256 not in early), key=lambda r: r.first_scan)
    known = {r.sha256: r for r in believed if r.counted_by == today}
    seen = {r.sha256: r.first_scan for r in believed}
    again = taken_again(lake_session, [r for r in recount if r.sha256 not in known])
    files = {f.sha256: replace(f, home_day=None) for f in again}
    for file, intake in ((f, i) for f, i in intakes if i.sha256 not in known):
        found = _found(lake_session, intake, seen.get(intake.sha256, moment))
        files[intake.sha256] = with_path(lake_session, found, file.name)
    files = {sha: replace(f, first_scan=seen.get(sha, moment)) for sha, f in files.items()}
    if files:
        lake_session.expect(sum(f.rows for f in files.values()))
    counted = count_days(lake_session.spark(), list(files.values()), settings) if files else {}
    _refuse_a_select_that_fits_nothing(files, counted, known)
    landings = [_Landing(f.name, i.sha256, f.size, f.mtime_ns, i.rows) for f, i in intakes]
    landings += [
        _Landing(r.path, r.sha256, r.size, r.mtime_ns, files[r.sha256].rows if r.sha256 in files else r.rows, False)
        for r in recount
    ]
    rows: list[tuple[object, ...]] = []
    done = []
    for landing in landings:
        old, fresh = known.get(landing.sha256), unless_flooding(counted.get(landing.sha256, Counted()), landing.size)
        landing = replace(landing, refused=old.refused if old else fresh.refused)
        if old:
            days, home = dict(old.days), old.home_day
        else:
            days, home = settle_days(fresh.days, settings.start_date)
            _add_up(landing, days)
        landing = replace(landing, bad_rows=sum(bad for _, bad, _ in days.values()))
        seen_at = seen.get(landing.sha256, moment)
        common = (landing.size, landing.mtime_ns, seen_at, home, recorded, today, landing.refused)
        rows += [(LANDED, landing.path, landing.sha256, d, *counts, *common) for d, counts in sorted(days.items())]
        done.append(landing)
    sync_all([intake.parquet for _, intake in intakes], lake_session.lake.stock)
    _append(lake_session, rows, "scan", "")
    return done


def _scanned_too_early(
    records: Sequence[FileRecord], intakes: Sequence[tuple[LandedFile, IngestedFile]], now: datetime
) -> set[str]:
    """The contents whose first scan lies before the time of their file, or of the one in which they land again."""
    live = {r.sha256 for r in records if not r.withdrawn}
    ended = {r.sha256: r for r in records if r.sha256 not in live}
    again = [replace(ended[i.sha256], mtime_ns=f.mtime_ns) for f, i in intakes if i.sha256 in ended]
    return {r.sha256 for r in (*(r for r in records if not r.withdrawn), *again) if is_scanned_too_early(r, now)}


def _after(records: Sequence[FileRecord], now: datetime) -> datetime:
    """When an event is recorded: now, but after all recorded before it, with whatever clock: the newest wins."""
    return max((now, *(r.recorded_at + timedelta(microseconds=1) for r in records)))


def _copies(new: Sequence[str], landings: Sequence[_Landing], records: Sequence[FileRecord]) -> dict[str, str]:
    """The new paths whose content was known at another path already."""
    owners = {r.sha256: r.path for r in reversed(records) if not r.withdrawn}
    for landing in landings:
        owners.setdefault(landing.sha256, landing.path)
    fresh = set(new)
    return {p.path: owners[p.sha256] for p in landings if p.path in fresh and owners[p.sha256] != p.path}


def _found(lake_session: LakeSession, intake: IngestedFile, first_scan: datetime) -> StoredFile:
    found = find(lake_session.lake.stock, intake.sha256, first_scan)
    if found is None:
        raise LandingError(
            f"the stock {lake_session.lake.stock}", f"what was just put into {intake.sha256}.json is not there",
            "Nothing was recorded", "Keep other programs out of the folder, then scan again",
        )  # fmt: skip
    return found


def _refuse_a_select_that_fits_nothing(
    files: Mapping[str, StoredFile], counted: Mapping[str, Counted], known: Mapping[str, FileRecord]
) -> None:
    """A `select` over which every file fails, and under which no file was ever read, is what is wrong."""
    reasons = [counted[sha].refused or "" for sha, file in files.items() if file.refused is None and sha in counted]
    if reasons and all(r.startswith(UNFIT) for r in reasons) and all(r.refused for r in known.values()):
        raise SettingsError(
            "[source] select in lake.toml", f"it fits none of the {len(reasons)} file(s): {reasons[0]}",
            "Nothing was recorded", "Correct the expression, or remove the files; it sees the files' columns only",
        )  # fmt: skip


def _add_up(landing: _Landing, days: dict[date, tuple[int, int, int]]) -> None:
    counted = sum(r for r, _, _ in days.values())
    expected = 1 if landing.refused else landing.rows
    if counted != expected:
        raise LandingError(
            f"the landed file {plain(landing.path)}",
            f"it has {expected} rows, Spark's reader gave {counted}",
            "Nothing of it was recorded or loaded",
            "Keep the file and report this: a reader lost rows",
        )


def _append(lake_session: LakeSession, rows: Sequence[tuple[object, ...]], reason: str, note: str) -> None:
    if not rows:
        return
    lake = lake_session.lake
    store, files = lake.store, of_source(FILES, lake.source)
    staged = stage_rows(lake, files, rows)
    receipt = Receipt(staged.write_id, files.name, reason, {}, note=note)
    try:
        with store.lock(files.name):
            sweep(lake, files.name)
            store.append(files, staged, receipt)
    finally:
        staged.drop()


def accept(lake_session: LakeSession, note: str, paths: Iterable[str] = ()) -> list[str]:
    """Withdraw altered and missing contents from the ledger, so that their days follow what lies there now.

    `paths` restricts it; returns the paths withdrawn. The new content of an altered file is read by the next scan.
    """
    listing, records = look(lake_session)
    found = compare(listing, records, Hashes(lake_session.lake.stock))
    wanted = set(paths)
    chosen = [r for r in (*found.altered, *found.missing) if not wanted or r.path in wanted]
    _append(lake_session, _withdrawals(chosen, _after(records, utc_now()), note), "landing accept", note)
    return sorted(r.path for r in chosen)


def _withdrawals(records: Sequence[FileRecord], moment: datetime, note: str) -> list[tuple[object, ...]]:
    return [
        (
            WITHDRAWN, r.path, r.sha256, r.home_day, 0, 0, 0, r.size, r.mtime_ns, r.first_scan, r.home_day, moment,
            r.counted_by, note,
        )
        for r in records
    ]  # fmt: skip
