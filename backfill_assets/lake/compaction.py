"""Compaction: a day in many small files gets one, a day in a too large file several. No row, receipt or state changes.

Not here: which tables (`operations.maintain`), and ledgers (`housekeeping.gather`). The commit says `dataChange: false`
and names no day, so that every reader of a log takes it as nothing new; the files before stay as long as a rollback
may need them. Several small files arise where Spark writes a day in several tasks, and where an upsert keeps rows.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from math import ceil

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Built, Receipt
from backfill_assets.lake import files
from backfill_assets.lake.audit import as_written, audit
from backfill_assets.lake.committer import rewrite_files
from backfill_assets.lake.data_files import files_of, refuse_altered
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.housekeeping import REASON
from backfill_assets.lake.log import LiveFile
from backfill_assets.lake.staging import Staged, filling, found_files

MIB = 1 << 20
TOO_LARGE = 2  # times the wanted size: a file ends with a row group, and is often somewhat larger
AT_ONCE_BYTES = 2 << 30  # what one commit rewrites: about a minute's work, lost if it is stopped
Layout = Mapping[date, Sequence[LiveFile]]


def uneven_days(lake: Lake, contract: Contract, file_bytes: int) -> Layout:
    """The days in more files than their bytes need, or in a file that is too large, with their files; reads the log.

    None of days that another program wrote or a rollback holds, and of tables that are not laid out by day.
    """
    if contract.partition_column != contract.day_column:
        return {}
    view, found = lake.store.view(contract.name, contract.day_column), defaultdict[date, list[LiveFile]](list)
    for file in files_of(lake, contract):
        day = date.fromisoformat(file.partition) if file.partition else date.min
        if day in view.stamps and day not in view.foreign and view.stamps[day].entry.built is not Built.HELD:
            found[day].append(file)
    return {day: of for day, of in sorted(found.items()) if _is_uneven([f.size for f in of], file_bytes)}


def _is_uneven(sizes: Sequence[int], file_bytes: int) -> bool:
    return len(sizes) > ceil(sum(sizes) / file_bytes) or max(sizes) > TOO_LARGE * file_bytes


def compact(lake: Lake, contract: Contract, file_bytes: int) -> Layout:
    """Write the uneven days again in files of about so many bytes, some days per commit; gives those that changed.

    Writers go on meanwhile: a day that was written since is left alone. Raises Altered for a file that is gone or
    altered, BackfillError where the new files do not hold the rows of the old ones; then these days are as they were.
    """
    uneven, done, together = uneven_days(lake, contract, file_bytes), dict[date, Sequence[LiveFile]](), list[date]()
    for number, day in enumerate(uneven, 1):
        together.append(day)
        if number == len(uneven) or sum(f.size for d in together for f in uneven[d]) >= AT_ONCE_BYTES:
            done |= _compacted(lake, contract, {d: uneven[d] for d in together}, file_bytes)
            together = []
    return done


def _compacted(lake: Lake, contract: Contract, days: Layout, file_bytes: int) -> Layout:
    path = lake.table_path(contract.name)
    refuse_altered(path, [f for of in days.values() for f in of])
    with filling(lake, contract) as staged:
        for day, of in days.items():
            _write(lake, contract, staged, day, [str(path / f.path) for f in of], file_bytes)
        staged.files = found_files(staged.folder, contract.partition_column)
        with lake.store.lock(contract.name):
            live = set(files_of(lake, contract))
            stay = {day: of for day, of in days.items() if live.issuperset(of)}
            adds, removes = [f for f in staged.files if f.day in stay], [f for of in stay.values() for f in of]
            if not stay:
                staged.drop()
                return {}
            note = f"{len(removes)} files of {len(stay)} day(s) made {len(adds)}, no row changed"
            staged.tried = True
            rewrite_files(path, contract, Receipt(staged.write_id, contract.name, REASON, {}, note=note), adds, removes)
            staged.keep({str(f.path) for f in adds})
    return stay


def _write(lake: Lake, contract: Contract, staged: Staged, day: date, old: Sequence[str], file_bytes: int) -> None:
    """Write the rows of a day's files again, and compare them with the rows that these hold."""
    then, folder = as_written(contract, old[0]), staged.folder / f"{contract.partition_column}={day}"
    files.make_folder(folder)
    names = ", ".join(quoted(c) for c in then.column_names if c != contract.partition_column)
    rows = f"SELECT {names} FROM read_parquet([{', '.join(map(literal, old))}], hive_partitioning = false)"
    size = f"FILE_SIZE_BYTES {file_bytes}, ROW_GROUP_SIZE_BYTES {file_bytes}"
    how = f"FORMAT parquet, COMPRESSION zstd, {size}, FILENAME_PATTERN 'part-{{i}}', OVERWRITE_OR_IGNORE"
    with connection(lake) as engine:
        engine.execute(f"COPY ({rows}) TO {literal(str(folder))} ({how})")
    new = [str(f.path) for f in found_files(folder, "")]
    before, after = (_contents(lake, then, paths) for paths in (old, new))
    if before != after:
        raise BackfillError(
            f"the table {contract.name}", f"the rows of {day}, written to fewer files, are not those that it has",
            "Nothing was written", "Keep the message and report it",
        )  # fmt: skip


def _contents(lake: Lake, contract: Contract, paths: Collection[str]) -> dict[date | None, tuple[int, str]]:
    return {day: (p.rows, p.fingerprint) for day, p in audit(lake, list(paths), contract).items()}
