"""The embedded engine (DuckDB): queries over Parquet files, in pieces, spilling what memory does
not hold.

Also tables of other programs by their place. Not here: the questions (`audit`, `query_files`,
`intake.arrivals`, `reconcile.reconcile`), and queries over whole versions of tables of a lake
(`store`).
"""

import atexit
import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError, ContractBroken
from backfill_assets.kernel.log.file_names import file_fault
from backfill_assets.kernel.log.log import LOG
from backfill_assets.kernel.log.log_bounds import log_fault
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import duckdb_name
from backfill_assets.kernel.tables.data_files import folder_of
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.folder import LakeFolder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"  # beyond it DuckDB spills; the Spark server's heap is the lake's larger share
# Folder of spilled data; what a killed process left there DuckDB 2 removes when another one spills.
SPILL = Path(".staging", ".spill")
# Files: of 256 each start of a statement begins to show (a quarter more CPU), of 1,024 the memory.
AT_ONCE = 512
# Bytes of files: quantiles keep each number that they are of, and do not spill.
BYTES_AT_ONCE = 128 << 20


@contextlib.contextmanager
def duckdb_cursor(lake: LakeFolder) -> "Iterator[DuckDBPyConnection]":
    """A cursor of this process's engine, in UTC, which spills below the lake's folder and never
    fetches an extension.

    Temporary tables are the cursor's own. All cursors of a process share `MEMORY`. Raises
    BackfillError where a query needs more and cannot spill it.
    """
    import duckdb

    with _shared_engine(str(lake.root / SPILL), os.getpid()).cursor() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        try:
            yield engine
        except duckdb.OutOfMemoryException as error:
            raise BackfillError(
                f"the lake {lake.address}",
                f"a query over its files needs more memory than the {MEMORY} that it may use "
                f"({error})",
                "Nothing was written",
                "Load or rebuild fewer days at once, for example a month",
            ) from error


@lru_cache(maxsize=2)
def _shared_engine(spill: str, _process: int) -> "DuckDBPyConnection":
    """Kept, because starting one costs more than the audit of a day; it keeps no data of files.
    Closed before the interpreter ends: DuckDB's binding otherwise lists leaks on stderr."""
    atexit.register(_shared_engine.cache_clear)
    return _opened_engine(spill)


def new_engine(root: Path) -> "DuckDBPyConnection":
    """A separate engine, in UTC, which lives as long as the results read from it; `root` need not
    be a lake yet."""
    engine = _opened_engine(str(root / SPILL))
    engine.execute("SET TimeZone = 'UTC'")
    return engine


def _opened_engine(spill: str) -> "DuckDBPyConnection":
    """A new engine that spills to the folder `spill`, in `MEMORY`. It fetches nothing from the
    network, gives rows in no order, and reads a file again that was replaced under its name."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": MEMORY,
        "threads": str(os.cpu_count() or 1),
        "temp_directory": spill,
        "preserve_insertion_order": "false",
        "enable_external_file_cache": "false",
    }
    return duckdb.connect(config=config)


def rows_query(files: Sequence[str], contract: Contract) -> str:
    """A query for the contract's columns, in its types, of all rows of these files.

    The partition column comes from the names of the folders, as in Delta's layout; NULL is their
    word for no value. A column that a file lacks, because the table got it later, is NULL; one that
    the contract has no more is left out.
    """
    return _rows_of_files(files, _declared_types(contract), _columns_of_folders(contract))


def side_queries(
    engine: "DuckDBPyConnection", contract: Contract, *sides: Sequence[str]
) -> list[tuple[str, dict[str, str]]]:
    """For each of two sets of files of a table, a query for the columns that any of its files has,
    and their types: the contract's columns come first, in its types. A set without a file has the
    columns of the other."""
    laid_out = _columns_of_folders(contract)
    declared = _declared_types(contract)
    found = [_types_of_files(engine, contract, files) for files in sides]
    queries = []
    for files, own, other in zip(sides, found, reversed(found), strict=True):
        types = own or other or declared
        queries.append((_rows_of_files(files, types, laid_out), types))
    return queries


def _types_of_files(
    engine: "DuckDBPyConnection", contract: Contract, files: Sequence[str]
) -> dict[str, str]:
    """The types of the columns that any of these files has: the contract's come first, in its
    types."""
    if not files:
        return {}
    listed = f"{_list_of(files)}, union_by_name = true, hive_partitioning = false"
    kinds = _described_types(engine, f"read_parquet({listed})")
    present = {*kinds, *_columns_of_folders(contract)}
    types = {c: kind for c, kind in _declared_types(contract).items() if c in present}
    for name, kind in kinds.items():
        types.setdefault(name, kind)
    return types


def _described_types(engine: "DuckDBPyConnection", rows: str) -> dict[str, str]:
    """The types of the columns of a relation, by their names."""
    return {name: kind for name, kind, *_ in engine.execute(f"DESCRIBE FROM {rows}").fetchall()}


def _list_of(files: Iterable[str]) -> str:
    """Paths as a list in SQL."""
    return f"[{', '.join(map(sql_literal, files))}]"


def _declared_types(contract: Contract) -> dict[str, str]:
    return {c.name: duckdb_name(c.kind) for c in contract.columns}


def _columns_of_folders(contract: Contract) -> list[str]:
    return [contract.partition_column] if contract.partition_column else []


def _rows_of_files(files: Sequence[str], types: Mapping[str, str], laid_out: Sequence[str]) -> str:
    """A query for these columns, cast to these types of DuckDB (by the columns' names), of all rows
    of the files. The columns `laid_out` come from the names of the folders; a column that all files
    lack is NULL; without files the query has no rows."""
    nulls, cast = [], []
    for name, kind in types.items():
        column = quoted_name(name)
        nulls.append(f"CAST(NULL AS {kind}) AS {column}")
        cast.append(f"CAST({column} AS {kind}) AS {column}")
    # No row, and every column: one that all files lack is NULL by it.
    no_rows = f"SELECT {', '.join(nulls)} WHERE false"
    if not files:
        return no_rows
    layout = "hive_partitioning = false"
    if laid_out:
        named = ", ".join(f"{quoted_name(c)}: VARCHAR" for c in laid_out)
        layout = f"hive_partitioning = true, hive_types = {{{named}}}"
    # The least and greatest number that a file names say nothing of NaN: without `can_have_nan`
    # DuckDB denies it.
    of_files = f"{_list_of(files)}, union_by_name = true, can_have_nan = true, {layout}"
    rows = f"SELECT * FROM read_parquet({of_files})"
    return f"SELECT {', '.join(cast)} FROM ({no_rows} UNION ALL BY NAME {rows})"


def sql_literal(text: str) -> str:
    """A text as DuckDB's SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


@contextlib.contextmanager
def explaining_unreadable(contract: Contract) -> Iterator[None]:
    """Turn DuckDB's errors into OSError where the machine is at fault (a full disk), else into
    ContractBroken."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        raise OSError(str(error)) from error
    except duckdb.Error as error:
        raise ContractBroken(
            f"the table {contract.name}",
            f"what was computed cannot be read back: {str(error).splitlines()[0]}",
            "Nothing was written",
            "Correct the transform (text must be UTF-8, types those of the contract), then run "
            "again",
        ) from error


def file_batches(
    files: Sequence[str],
    contract: Contract,
    at_once: int = AT_ONCE,
    bytes_at_once: float = math.inf,
) -> Iterator[list[str]]:
    """The files in batches of at most `at_once` and `bytes_at_once`, all files of a day in one
    batch (which may be larger for it). `BYTES_AT_ONCE` is for queries that do not spill.

    All files come at once for a table that is not laid out by its day column, because any may hold
    a day. DuckDB keeps some 40 KiB per file of a statement: 3,650 files take 138 MiB, in batches of
    512 they take 45, in the same CPU time.
    """
    if not contract.is_by_day:
        yield from [list(files)] if files else []
        return
    batch, size = list[str](), 0
    for _, of_day in groupby(sorted(files, key=folder_of), key=folder_of):
        same_day = list(of_day)
        more = sum(map(_bytes_of, same_day))
        if batch and (len(batch) + len(same_day) > at_once or size + more > bytes_at_once):
            yield batch
            batch, size = [], 0
        batch += same_day
        size += more
    if batch:
        yield batch


def _bytes_of(path: str) -> int:
    """The size of a file; 0 if it is gone, of which the statement that reads it tells."""
    with contextlib.suppress(OSError):
        return Path(path).stat().st_size
    return 0


def is_delta(folder: Place) -> bool:
    """Whether a Delta table lies at the place."""
    return bool(folder.names(LOG))


def why_not_delta(folder: Place) -> tuple[str, str]:
    """What lies at a place without a Delta table, and a way out, as parts of an error."""
    if any(name.endswith(".metadata.json") for name in folder.names("metadata")):
        culprit = f"an Iceberg table lies in {folder}, and no reader of it exists for this Spark"
        return (
            culprit,
            "Have its owner write it as Delta, or its rows as Parquet files: [source] files = …",
        )
    return (
        f"no Delta table lies in {folder}: it has no {LOG}",
        "Correct its place, or put the table back",
    )


def delta_rows(
    engine: "DuckDBPyConnection",
    folder: Place,
    version: int | None = None,
    *,
    is_lakes: bool = False,
) -> tuple[int, str]:
    """A version (None: the newest) of the Delta table at a place, and a query for its rows from its
    plain files. `is_lakes`: its log is the lake's.

    Raises BackfillError if these alone do not give its rows.
    """
    if why := log_fault(folder, version):
        raise _unreadable_table(folder, why)
    try:
        table = DeltaTable(folder.uri(), version=version)
        # It refuses what is not in the files: deleted rows, renamed columns.
        rows = table.to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        raise _unreadable_table(folder, " ".join(str(error).split())) from error
    engine.register("rows_of_delta", rows)
    types = _described_types(engine, "rows_of_delta")
    engine.unregister("rows_of_delta")
    names = [fragment.path for fragment in rows.get_fragments()]
    if why := file_fault(folder, names, is_lakes=is_lakes):
        raise _unreadable_table(folder, f"its log {why}")
    files = [str(folder.local(name)) for name in names]
    laid_out = table.metadata().partition_columns
    if not all(f"/{column}=" in f for f in files for column in laid_out):
        raise _unreadable_table(folder, f"the paths of its files do not hold {', '.join(laid_out)}")
    return table.version(), _rows_of_files(files, types, laid_out)


def _unreadable_table(folder: Place, culprit: str) -> BackfillError:
    return BackfillError(
        f"the Delta table {folder.uri()}",
        culprit,
        "It was not read",
        "Write its rows to Parquet files first",
    )
