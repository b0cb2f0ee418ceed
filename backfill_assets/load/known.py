"""Whether a scan would find anything at all: known from the listing and the ledger `files`. No JVM.

Lives here: that one question, for those who need not scan where nothing landed, and by which settings files were
counted. Does not live here: the comparison (`compare`), and what a scan does about what it finds (`scan`). Imports no
reader of files: where nothing landed, none is needed.
"""

from backfill_assets.core.digests import digest_of
from backfill_assets.core.payload import words
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.landing.hashes import Hashes
from backfill_assets.landing.stock import VERSION
from backfill_assets.load.compare import compare, look


def is_scanned(lake_session: LakeSession) -> bool:
    """Whether every landed file is recorded as it lies there, none is gone, and all are counted by today's settings.

    A file that is still being written is not recorded. Of several sources all are asked. Raises what listing raises.
    """
    return all(_is_scanned(LakeSession(lake)) for lake in lake_session.lake.by_source())


def _is_scanned(lake_session: LakeSession) -> bool:
    listing, records = look(lake_session)
    hashes = Hashes(lake_session.lake.stock)
    found = compare(listing, records, hashes)
    hashes.keep()
    if found.fresh or found.altered or found.missing or found.lapsed:
        return False
    return all(r.withdrawn or is_counted(r, lake_session.lake.settings) for r in records)


def is_counted(record: FileRecord, settings: LakeSettings) -> bool:
    """Whether the record's days and rows were counted under today's settings."""
    return record.counted_by == counting_digest(settings)


def counting_digest(settings: LakeSettings) -> str:
    """Of the settings and of the intake's rules, which decide a row's day and whether it is usable."""
    source, tolerance = settings.source, settings.lateness.early_tolerance_days
    declared = [] if source.payload is None else [words(source.payload_columns)]
    return digest_of([source.format, source.select, str(settings.start_date), tolerance, VERSION, *declared])
