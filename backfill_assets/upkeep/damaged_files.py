"""Data files that are gone, altered or unreadable, and an audit of the days that have none of them.

Not here: the log, receipts, and bytes that changed without a change of size (`upkeep.inspection`),
and the findings that name such days (`upkeep.doctor_tables`).
"""

from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import LiveFile
from backfill_assets.kernel.tables.data_files import (
    files_of_days,
    files_of_version,
    gone_or_altered,
    local_paths,
)
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import Profiles, audit_files


def audit_readable(
    lake: Lake, contract: Contract, days: Collection[date] | None, decoded: bool = False
) -> tuple[Profiles, Sequence[str]]:
    """Profiles of days of a table (None: all) without damaged files, and the other days (of a table
    that is not laid out by day: the files), ascending. `decoded`: Arrow reads every file to find
    damaged ones."""
    damaged_files = _damaged_files(lake, contract, days, decoded)
    try:
        profiles = audit_files(lake, undamaged_files(lake, contract, days, damaged_files), contract)
    except (BackfillError, OSError):
        if decoded:
            raise
        return audit_readable(lake, contract, days, decoded=True)
    return profiles, sorted({f.partition or f.path for f in damaged_files})


def _damaged_files(
    lake: LakeFolder, contract: Contract, days: Collection[date] | None, decoded: bool
) -> list[LiveFile]:
    """Data files of days (None: all) that are gone or have another size; if `decoded`, or that
    Arrow cannot read."""
    path = lake.table_place(contract.name)
    live = files_of_days(files_of_version(lake, contract), contract, days)
    lost = gone_or_altered(path, live)
    if not decoded:
        return lost
    whole = [f for f in live if f not in lost]
    return lost + [f for f in whole if not _is_readable(path.local(f.path))]


def undamaged_files(
    lake: LakeFolder, contract: Contract, days: Collection[date] | None, lost: Collection[LiveFile]
) -> list[str]:
    """Paths of the data files of days (None: all), without those that one partition has in common
    with a lost one."""
    left_out = {file.partition for file in lost}
    live = files_of_days(files_of_version(lake, contract), contract, days)
    whole = [file for file in live if file.partition not in left_out]
    return local_paths(lake.table_place(contract.name), whole)


def _is_readable(file: Path) -> bool:
    import pyarrow.parquet as pq

    try:
        pq.ParquetFile(file).read()
    except Exception:  # noqa: BLE001  # whatever a damaged file causes
        return False
    return True
