"""Tables of other programs by their place: a Delta folder as an Arrow dataset, files by a pattern.

Not here: tables of a lake (`store`), and what is done with the rows (`operations.reconcile`).
"""

import glob
import re
from pathlib import Path
from typing import Any

from backfill_assets.lake.log import LOG

FILES = re.compile(r"\.(parquet|csv|csv\.gz|tsv|txt)$")


def delta_rows(folder: str) -> tuple[int, Any] | None:
    """The newest version of the Delta table in a folder, and its rows as an Arrow dataset; None if there is none."""
    if not (Path(folder) / LOG).is_dir():
        return None
    from deltalake import DeltaTable

    table = DeltaTable(folder)
    return table.version(), table.to_pyarrow_dataset()


def data_files_at(place: str) -> list[str]:
    """The Parquet and CSV files that a path, a pattern or a folder names, sorted."""
    pattern = f"{place.rstrip('/')}/**/*" if Path(place).is_dir() else place
    found = glob.iglob(pattern, recursive=True)  # noqa: PTH207  # a pattern may be absolute
    return sorted(f for f in found if FILES.search(f))
