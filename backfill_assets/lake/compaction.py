"""Compaction: a day, or a ledger, in many small files gets one, a too large file becomes several. No row changes.

Not here: which tables (`operations.maintain`). The commit says `dataChange: false` and names no day, so that every
reader of a log takes it as nothing new; the files before stay as long as a rollback may need them. Several small files
arise where Spark writes a day in several tasks, and where an upsert keeps rows.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from backfill_assets.lake.store import changed_by_others

MIB = 1 << 20
TOO_LARGE = 2  # times the wanted size: a file ends with a row group, and is often somewhat larger
AT_ONCE_BYTES = 2 << 30  # what one commit rewrites: about a minute's work, lost if it is stopped
MOST_LEDGER_FILES = 64  # beyond it, every command spends tenths of a second to open them
Layout = Mapping[str, Sequence[LiveFile]]  # by the value of the partition column; "": of a table without one


def uneven_files(lake: Lake, contract: Contract, file_bytes: int) -> Layout:
    """The days in more files than their bytes need, or in a file that is too large, with their files; a ledger that is
    appended to, in too many files, as a whole. Reads the log.

    None of what another program wrote, of days that a rollback holds, and of ledgers that are laid out by month.
    """
    found = defaultdict[str, list[LiveFile]](list)
    for file in files_of(lake, contract):
        found[file.partition or ""].append(file)
    if not contract.partition_column:
        many = {value: of for value, of in found.items() if len(of) > MOST_LEDGER_FILES}
        return many if many and not changed_by_others(lake.table_path(contract.name)) else {}
    if contract.partition_column != contract.day_column:
        return {}
    view = lake.store.view(contract.name, contract.day_column)
    stays = {str(d) for d, s in view.stamps.items() if d not in view.foreign and s.entry.built is not Built.HELD}
    return {v: of for v, of in sorted(found.items()) if v in stays and _is_uneven([f.size for f in of], file_bytes)}


def _is_uneven(sizes: Sequence[int], file_bytes: int) -> bool:
    return len(sizes) > ceil(sum(sizes) / file_bytes) or max(sizes) > TOO_LARGE * file_bytes


def compact(lake: Lake, contract: Contract, file_bytes: int) -> Layout:
    """Write uneven files again in files of about so many bytes, some days per commit; gives those that changed.

    Writers go on meanwhile: a day that was written since is left alone. Raises Altered for a file that is gone or
    altered, BackfillError where the new files do not hold the rows of the old ones; then these days are as they were.
    """
    uneven, done, together = uneven_files(lake, contract, file_bytes), dict[str, Sequence[LiveFile]](), list[str]()
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
            adds, removes = (
                [f for f in staged.files if (f.partition or "") in stay],
                [f for of in stay.values() for f in of],
            )
            if not stay:
                staged.drop()
                return {}
            note = f"{len(removes)} files made {len(adds)}, no row changed"
            staged.tried = True
            rewrite_files(path, contract, Receipt(staged.write_id, contract.name, REASON, {}, note=note), adds, removes)
            staged.keep({str(f.path) for f in adds})
    return stay


def _write(lake: Lake, contract: Contract, staged: Staged, value: str, old: Sequence[str], file_bytes: int) -> None:
    """Write the rows of some files of one partition again, and compare them with the rows that these hold."""
    then, folder = as_written(contract, old[0]), staged.folder
    folder = folder / f"{contract.partition_column}={value}" if contract.partition_column else folder
    files.make_folder(folder)
    names = ", ".join(quoted(c) for c in then.column_names if c != contract.partition_column)
    rows = f"SELECT {names} FROM read_parquet([{', '.join(map(literal, old))}], hive_partitioning = false)"
    size = f"FILE_SIZE_BYTES {file_bytes}, ROW_GROUP_SIZE_BYTES {file_bytes}"
    how = f"FORMAT parquet, COMPRESSION zstd, {size}, FILENAME_PATTERN 'part-{{i}}', OVERWRITE_OR_IGNORE"
    with connection(lake) as engine:
        engine.execute(f"COPY ({rows}) TO {literal(str(folder))} ({how})")
    compare_rows(lake, contract, old, [str(f.path) for f in found_files(folder, "")])


def compare_rows(lake: Lake, contract: Contract, old: Sequence[str], new: Sequence[str]) -> None:
    """Raise BackfillError unless the new files hold the rows of the old ones; the columns of each are alike."""
    before, after = (
        {day: (p.rows, p.fingerprint) for day, p in audit(lake, paths, as_written(contract, paths[0])).items()}
        for paths in (old, new)
    )
    if before != after:
        day = next((d for d in before if before[d] != after.get(d)), None)
        raise BackfillError(
            f"the table {contract.name}", f"the rows of {day or 'some day'}, written again, are not those that it has",
            "Nothing was written", "Keep the message and report it",
        )  # fmt: skip
