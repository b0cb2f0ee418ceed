"""The rows of a data file of an Iceberg table at a snapshot, as a plain Parquet file of a mirror.

Not here: which files a snapshot has, and the mirror's log (`mirror`). pyiceberg reads the rows, so
that those that a delete file or a deletion vector takes away are none, and columns are found by
their numbers. A copy is named by what decides its rows: other deletes make another copy.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.iceberg.mirrored_columns import MirroredColumns
from backfill_assets.kernel.core.digests import digest_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table


def copy_name(task: "FileScanTask", schema: "Schema", columns: MirroredColumns) -> str:
    """The name in a mirror of the copy of a data file with the deletes that a scan applies."""
    deletes = sorted(
        [d.file_path, str(getattr(d, "content_offset", ""))] for d in task.delete_files
    )
    # Values of a column that a file lacks, and parts of columns, which files name.
    defaults = {f.field_id: str(f.initial_default) for f in schema.fields if f.initial_default}
    parts = sorted(key for key in columns.names if " " in key)
    return f"{digest_of([task.file.file_path, deletes, defaults, parts])[:40]}.parquet"


def write_rows(
    table: "Table",
    task: "FileScanTask",
    schema: "Schema",
    columns: MirroredColumns,
    target: Path,
) -> None:
    """Write the rows of a data file to a Parquet file, with the columns of a mirror. Raises what
    pyiceberg raises over a file that is gone or of no readable form."""
    import pyarrow.parquet as pq
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    shape = _stored_shape(schema_to_pyarrow(schema, include_field_ids=False), columns)
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    with pq.ParquetWriter(target, shape, compression="zstd") as writer:
        for batch in scan.to_record_batches([task]):
            kept = batch.select([*columns.stored]).rename_columns([*columns.stored.values()])
            writer.write_batch(kept.cast(shape))


def _stored_shape(shape: "pa.Schema", columns: MirroredColumns) -> "pa.Schema":
    """The columns of a mirror's files."""
    import pyarrow as pa

    return pa.schema([pa.field(there, shape.field(n).type) for n, there in columns.stored.items()])


def statistics(target: Path, columns: MirroredColumns) -> str:
    """The statistics of a copy in Delta's JSON: its rows, and the least and greatest day of each
    column of days, by which inputs know which days it may hold."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(target)
    days = {columns.stored[f["name"]] for f in columns.fields if f["type"] == "date"}
    least, greatest = dict[str, str](), dict[str, str]()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for chunk in map(row_group.column, range(row_group.num_columns)):
            known, name = chunk.statistics, chunk.path_in_schema
            if name in days and known is not None and known.has_min_max:
                low, high = str(known.min), str(known.max)
                least[name] = min(low, least.get(name, low))
                greatest[name] = max(high, greatest.get(name, high))
    told: Mapping[str, Any] = {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": greatest,
    }
    return json.dumps(told)
