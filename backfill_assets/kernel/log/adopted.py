"""Where the lake's history of an adopted table begins: the mark in its log, and the files that the
table had then.

Not here: adopting a table (`adopting`). The commits before belong to others: they may be cleaned,
and nobody here reads them. The mark is a name beside the commits, which every listing of the log
shows; no reader of Delta looks at it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

LOG = "_delta_log"
# Begins the name of a file, beside the commits, that ends with the first version.
ADOPTION_MARK = ".adopted."
# Not one that is being written, or was by a killed process.
WHOLE_MARK = re.compile(rf"{re.escape(ADOPTION_MARK)}\d{{20}}")
JUDGE = "judge"  # the reason of receipts for days that others wrote
ADOPTION = "backfill_assets.adopted"  # key of commitInfo: this commit adopted the table


def adoption_mark(version: int) -> str:
    """The name, in the log of a table, of the mark that its history here begins with a version."""
    return f"{ADOPTION_MARK}{version:020d}"


def first_version(names: Iterable[str]) -> int:
    """The version with which a table's history begins, by the names in its log: 0 unless the table
    was adopted."""
    marks = [name for name in names if WHOLE_MARK.fullmatch(name)]
    return max((int(mark.removeprefix(ADOPTION_MARK)) for mark in marks), default=0)


def flat_file_name(path: str) -> str:
    """The name that a file gets in the folder of its day: its first one, without folders."""
    return path.replace("/", "-")


def adopted_files(uri: str, version: int) -> Iterator[dict[str, Any]]:
    """The data files of a table at a version, as actions that add them: what a reader of its
    history begins with."""
    from deltalake import DeltaTable

    added = DeltaTable(uri, version=version).get_add_actions(flatten=True)
    for file in added.to_struct_array().to_pylist():
        values = {
            name.removeprefix("partition."): None if value is None else str(value)
            for name, value in file.items()
            if name.startswith("partition.")
        }
        rows = file.get("num_records")
        stats = {} if rows is None else {"numRecords": rows}
        yield {
            "add": {
                "path": file["path"],
                "size": file["size_bytes"],
                "partitionValues": values,
                "dataChange": False,
                "stats": json.dumps(stats),
            }
        }
