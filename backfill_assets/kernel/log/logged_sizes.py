"""Names and sizes of a table's data files by the newest checkpoint and the commits behind it.

Here: what is plain to read, for who looks at all files of many tables. Not here: tables with other
checkpoints, or without one, which delta-rs opens (`kernel.tables.data_files.live_files`).
"""

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.kernel.log.log import HINT, LOG, checkpoint_name, file_changes
from backfill_assets.kernel.place.port import Place

COLUMNS = ("add.path", "add.size")
FURTHER = "sidecar"  # a column of checkpoints that may name further files


def logged_sizes(table: Place, version: int) -> dict[str, int] | None:
    """Bytes by path below the table of the data files of a version of a table in a folder.

    None if there is no checkpoint in one file, or it cannot be read, or a path has signs that a log
    writes as others. Raises BackfillError at a torn commit behind the checkpoint. Reads no vectors
    of deleted rows.
    """
    kept = table.read_json(f"{LOG}/{HINT}").get("version")
    if not isinstance(kept, int) or kept > version:
        return None
    with suppress(OSError, pa.ArrowException):
        found = _kept_sizes(table, kept)
        if found is None:
            return None
        for later in range(kept + 1, version + 1):
            for change in file_changes(table, later):
                if change.is_added:
                    found[change.path] = change.size
                else:
                    found.pop(change.path, None)
        return found
    return None


def _kept_sizes(table: Place, version: int) -> dict[str, int] | None:
    """The sizes by the checkpoint at a version, as `logged_sizes`."""
    checkpoint = pq.ParquetFile(table.local(checkpoint_name(version)))
    added = checkpoint.read(columns=[*COLUMNS, FURTHER], use_threads=False)
    if FURTHER in added.column_names and added[FURTHER].null_count < added.num_rows:
        return None
    paths, sizes = (pc.struct_field(added["add"], n).drop_null().to_pylist() for n in (0, 1))
    if len(paths) != len(sizes) or any("%" in path for path in paths):
        return None
    return dict(zip(paths, sizes, strict=True))
