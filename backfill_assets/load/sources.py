"""What is done to each source of a lake in turn, under its own load lock: scanning, following what
changed, letting late rows count.

Lives here: the order of the sources, their locks, and telling them as one. Does not live here: a scan itself (`scan`),
and loading days (`raw`), which concerns one source.
"""

from collections.abc import Mapping, Sequence
from datetime import date

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import telling_source
from backfill_assets.core.scans import ScanReport, shown, summed, together
from backfill_assets.lake.files import load_lock
from backfill_assets.lake.home import Lake
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.too_late import release, waiting
from backfill_assets.load.scan import accept, scan

Late = Mapping[tuple[date, date], int]  # rows kept in `too_late` per (arrival day, event day)


def scan_all(lake_session: LakeSession) -> ScanReport:
    """Take stock of every source; raises as `scan` does, when those before are recorded."""
    found = {}
    for lake in lake_session.lake.by_source():
        with load_lock(lake.locks, lake.source), telling_source(lake.source):
            found[lake.source] = scan(LakeSession(lake))
    return together(found)


def accept_all(lake_session: LakeSession, note: str, paths: Sequence[str] = ()) -> list[str]:
    """Withdraw altered and missing contents of every source (or of `paths`, as a scan tells them), as `accept` does."""
    followed = []
    for lake in lake_session.lake.by_source():
        before = shown("", lake.source)
        asked = [path.removeprefix(before) for path in paths if path.startswith(before)]
        if asked or not paths:
            with load_lock(lake.locks, lake.source), telling_source(lake.source):
                followed += [shown(p, lake.source) for p in accept(LakeSession(lake), note, asked)]
    return followed


def late_rows(lake: Lake, days: DayRange) -> Late:
    """What is kept back of these event days, of whichever source."""
    return summed([waiting(one, days.start, days.last) for one in lake.by_source()])


def let_late_rows_count(lake_session: LakeSession, days: DayRange, note: str) -> Late:
    """Release what is kept back of these event days, as `release` does, and return it."""
    found = []
    for lake in lake_session.lake.by_source():
        with load_lock(lake.locks, lake.source):
            found.append(release(LakeSession(lake), days.start, days.last, note))
    return summed(found)
