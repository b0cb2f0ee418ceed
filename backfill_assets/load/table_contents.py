"""Contents of a Delta table that others write, taken into the content store: links to data files, and changed rows.

Not here: what commits brought (`lake.source_log`) and reading the store (`landed_rows`). Changed rows of a commit are
the rows that it took from the table and the rows that it put there, without what is in both: a rewritten file repeats
most of its rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_assets.core.place import Place
from backfill_assets.engine.server import engine_named
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.source_log import CHANGES, DataFile, TableFile
from backfill_assets.lake.source_position import empty_table
from backfill_assets.landing.content_store import StoredFile, copy_name, discard_described, find, put, scratch
from backfill_assets.landing.files import at_hand, landed_object
from backfill_assets.landing.ingest import refer, table_rules
from backfill_assets.landing.select import CHANGE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GONE = f"{CHANGE} IN ('delete', 'update_preimage')"  # rows of a change feed that the table no longer has


def take_in(lake: LakeFolder, file: TableFile, is_local: bool = False) -> StoredFile:
    """Take a content into the lake's content store, unless it is there; raises FileNotFoundError if vacuum took it. An
    appended object is fetched; `is_local`: its bytes stay on this machine."""
    is_changed = file.name.endswith(f"/{CHANGES}")
    is_local = is_local and file.place is not None and not is_changed
    new = StoredFile(file.sha256, lake.stock, copy_name(file.sha256, "delta"))
    known = find(lake.stock, file.sha256, rules=table_rules())
    if known is not None:
        return replace(known, is_local=is_local)
    if not file.is_readable:
        raise FileNotFoundError(file.name)
    with ExitStack() as stack:
        here = _at_hand(file, lake.stock, stack)
        if is_changed:
            return _changed(lake, here, new)
        (data,) = here.added
        partition = {n: (file.partition_types[n], value) for n, value in data.partition.items()}
        is_undecoded = engine_named(lake.settings.spark.engine).has_row_metadata
        new = replace(new, partition=partition, is_undecoded=is_undecoded, is_local=is_local)
        return refer(data.path, file.size, new, is_fetched=bool(data.name))


def _at_hand(file: TableFile, store: Place, stack: ExitStack) -> TableFile:
    """The content with the paths of its data files; objects are fetched beside the content store, until the stack
    ends."""
    if (place := file.place) is None:
        return file
    wanted = (file.feed, (), ()) if file.feed else ((), file.added, file.removed)
    feed, added, removed = (tuple(_fetched(data, place, store, stack) for data in files) for files in wanted)
    return replace(file, feed=feed, added=added, removed=removed)


def _fetched(data: DataFile, place: Place, store: Place, stack: ExitStack) -> DataFile:
    token = place.token(data.name)
    if token is None:
        raise FileNotFoundError(data.name)
    here = stack.enter_context(at_hand(landed_object(place, data.name, token), store))
    return replace(data, path=here.path)


def _changed(lake: LakeFolder, file: TableFile, new: StoredFile) -> StoredFile:
    """Write the changed rows of a commit: those that went first, both in the order of their values."""
    discard_described(lake.stock, file.sha256)
    with connection(lake) as engine, scratch(lake.stock) as folder:
        types = _types(engine, file)
        if file.feed:
            feed = _rows(file.feed, {**types, CHANGE: "VARCHAR"})
            gone, news = (f"SELECT * EXCLUDE ({CHANGE}) FROM ({feed}) WHERE {sign} {GONE}" for sign in ("", "NOT"))
        else:
            gone, news = (_rows(files, types) for files in (file.removed, file.added))
        kept = f"SELECT 'delete' AS {CHANGE}, * FROM (({gone}) EXCEPT ALL ({news}))"
        came = f"SELECT 'insert' AS {CHANGE}, * FROM (({news}) EXCEPT ALL ({gone}))"
        query = f"{kept} UNION ALL {came} ORDER BY ALL"
        copy = folder / "changed.parquet"
        (rows,) = engine.execute(f"COPY ({query}) TO {literal(str(copy))} (FORMAT parquet)").fetchall()[0]
        return put(replace(new, rows=int(rows)), table_rules(), copy)


def _types(engine: "DuckDBPyConnection", file: TableFile) -> dict[str, str]:
    """The columns that the table has or had, with the types of DuckDB that hold their values."""
    names = [f"columns_{number}" for number, _ in enumerate(file.schemas)]
    for name, table in zip(names, map(empty_table, file.schemas), strict=True):
        engine.register(name, table)
    every = " UNION ALL BY NAME ".join(f"FROM {name}" for name in names)
    found = {name: str(kind) for name, kind, *_ in engine.execute(f"DESCRIBE {every}").fetchall()}
    for name in names:
        engine.unregister(name)
    return found


def _rows(files: Sequence[DataFile], types: dict[str, str]) -> str:
    """A query for these columns of all rows of the files."""
    by_partition = defaultdict[tuple[tuple[str, str | None], ...], list[str]](list)
    for file in files:
        by_partition[tuple(sorted(file.partition.items()))].append(literal(str(file.path)))
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in types.items())
    parts = [f"SELECT {nothing} WHERE false"]
    for partition, paths in by_partition.items():
        texts = {name: literal(value) if value else "NULL" for name, value in partition}
        shared = "".join(f", {text} AS {quoted(name)}" for name, text in texts.items())
        own = f"COLUMNS(lambda c: c NOT IN ({', '.join(map(literal, texts))}))" if texts else "*"
        read = f"read_parquet([{', '.join(paths)}], union_by_name = true, hive_partitioning = false)"
        parts.append(f"SELECT {own}{shared} FROM {read}")
    columns = ", ".join([f"CAST({quoted(n)} AS {kind}) AS {quoted(n)}" for n, kind in types.items()])
    return f"SELECT {columns} FROM ({' UNION ALL BY NAME '.join(parts)})"
