"""Whether a scan would find anything at all: known from the listing and the ledger `files`. No JVM.

Lives here: that one question, for those who need not scan where nothing landed, and by which settings files were
counted. Does not live here: the comparison (`landed_changes`), and what a scan does about what it finds (`scan`).
Imports no reader of files: where nothing landed, none is needed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from backfill_assets.core.clock import utc_now
from backfill_assets.core.digests import digest_of
from backfill_assets.core.payload import words
from backfill_assets.core.scans import FIRST_SCAN_SLACK_DAYS
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.landing.content_store import VERSION
from backfill_assets.load.landed_changes import Comparison, compared

RULES = 1  # of `deliveries`: whoever lets them refuse other rows raises it, and every file is counted again


@dataclass(frozen=True)
class LandingStatus:
    """The landing folder as it lies there against what is recorded of it; `uncounted`: files that were counted under
    other settings."""

    found: Comparison
    uncounted: bool

    @property
    def is_scanned(self) -> bool:
        """Whether a scan would record nothing: all files are recorded as they are, none is gone, all are counted."""
        return not (self.counts_rows or self.is_refused or self.found.lapsed)

    @property
    def counts_rows(self) -> bool:
        """Whether a scan would have rows counted by the engine."""
        return bool(self.found.fresh) or self.uncounted

    @property
    def is_refused(self) -> bool:
        """Whether files that days were made from are altered or gone: those days are not loaded."""
        return bool(self.found.altered or self.found.missing)


def landed(lake_session: LakeSession) -> LandingStatus:
    """The landing folder as it is now; of several sources all of theirs together. A file that is still being written
    counts as new. Raises what listing raises."""
    each = [_landed(LakeSession(lake)) for lake in lake_session.lake.by_source()]
    found = Comparison(
        [f for one in each for f in one.found.fresh],
        [r for one in each for r in one.found.altered],
        [r for one in each for r in one.found.missing],
        [r for one in each for r in one.found.lapsed],
    )
    return LandingStatus(found, any(one.uncounted for one in each))


def _landed(lake_session: LakeSession) -> LandingStatus:
    found, _, records = compared(lake_session)
    settings = lake_session.lake.settings
    return LandingStatus(found, not all(r.withdrawn or is_counted(r, settings, utc_now()) for r in records))


def is_counted(record: FileRecord, settings: LakeSettings, now: datetime) -> bool:
    """Whether the record's days and rows were counted under today's settings, by a first scan that can be true."""
    return record.counted_by == counting_digest(settings) and not is_scanned_too_early(record, now)


def is_scanned_too_early(record: FileRecord, now: datetime) -> bool:
    """Whether the first scan lies before the file's own time, which is over: the clock of that scan was behind."""
    latest = (record.first_scan + timedelta(days=FIRST_SCAN_SLACK_DAYS)).timestamp()
    return latest < record.mtime_ns / 1e9 <= now.timestamp()


def counting_digest(settings: LakeSettings) -> str:
    """Of the settings and of the intake's rules, which decide a row's day and whether it is usable."""
    source, tolerance = settings.source, settings.lateness.early_tolerance_days
    declared = [] if source.payload is None else [words(source.payload_columns)]
    return digest_of([source.format, source.select, str(settings.start_date), tolerance, VERSION, RULES, *declared])
