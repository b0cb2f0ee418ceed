"""The rows that a commit of a table of others took away and put there, as DuckDB reads them from
its data files.

Not here: which files these are (`intake.source_log`), and where the rows are kept
(`intake.table_changes`). Rows that are on both sides are none, because a rewritten file repeats
most of its rows. Of a file that stays, and of which the commit deleted rows by another deletion
vector, only the rows between both vectors are read. Columns have the names that the table gave them
at that commit, whatever they are called in its files.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.intake.deleted_rows import deleted_rows
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.log_files import DataFile
from backfill_assets.intake.log_reading import log_error
from backfill_assets.intake.select import CHANGE
from backfill_assets.intake.source_log import TableFile, content_version
from backfill_assets.intake.source_position import empty_table
from backfill_assets.intake.stored_names import column_expressions, with_later_names
from backfill_assets.kernel.core.payload import INSERTED, TAKEN_AWAY
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.embedded import sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

# Rows of a change feed that the table no longer has.
GONE_ROWS_SQL = f"{CHANGE} IN ('delete', 'update_preimage')"
NUMBER = "file_row_number"  # as DuckDB calls it
PATH, ROW = OF_PLACE = ("__own_path", "__own_row")  # of a row in the files of a commit
NTH, SIDES = "__own_nth", "__own_sides"
READ_OPTIONS = (
    f"union_by_name = true, hive_partitioning = false, filename = '{PATH}', {NUMBER} = true"
)
BOOLEAN = "BOOLEAN"  # as DuckDB calls the type
OWN_NAMES = (NUMBER, *OF_PLACE, NTH, SIDES, CHANGE)  # of columns beside those of a table


@dataclass(frozen=True)
class _Part:
    """Rows of a data file: all of them, or those with, or without, certain numbers."""

    file: DataFile
    numbers: "pa.Int64Array | None" = None
    is_without: bool = False

    @property
    def has_all(self) -> bool:
        return self.numbers is None or (self.is_without and not len(self.numbers))


def copy_changed_rows(engine: "DuckDBPyConnection", file: TableFile, target: Path) -> int:
    """Write the rows that a commit changed to a Parquet file, with what it did with each: those
    that went first, both in the order of the commit's files. Returns how many these are; raises
    FileNotFoundError where vacuum took a deletion vector, and LandingError for columns that it
    gave another type, where none holds the values before and after it."""
    import duckdb

    with ExitStack() as stack:
        types = _duckdb_types(engine, file)
        _refuse_own_names(file, types)
        gone, news = _sides_of_commit(engine, file, types, stack)
        changed = _marked_rows(INSERTED, news, types)
        if gone:
            changed = _differing_rows_query(gone, news, [*types])
        places = {str(data.path): number for number, data in enumerate(file.files)}
        listed = ", ".join(f"({sql_literal(path)}, {number})" for path, number in places.items())
        query = (
            f"SELECT changed.* EXCLUDE ({', '.join(OF_PLACE)}) FROM ({changed}) AS changed "
            f"LEFT JOIN (VALUES {listed}) AS places(path, number) ON changed.{PATH} = places.path "
            f"ORDER BY changed.{CHANGE}, places.number, changed.{ROW}"
        )
        copy = f"COPY ({query}) TO {sql_literal(str(target))} (FORMAT parquet)"
        try:
            (rows,) = engine.execute(copy).fetchall()[0]
        except duckdb.ConversionException as error:
            if altered := _altered_types(engine, file):
                raise _altered_types_error(file, altered) from error
            raise
        return int(rows)


def _refuse_own_names(file: TableFile, columns: Iterable[str]) -> None:
    """Raise LandingError for a column that is called as one beside those of the table."""
    taken = sorted(name for name in columns if name.lower() in OWN_NAMES)
    if taken:
        culprit = f"has the column {taken[0]}, a name that reading what commits changed needs"
        advice = "Have its owner rename it, or deliver files"
        raise log_error(file.table, content_version(file.name), culprit, advice)


def _sides_of_commit(
    engine: "DuckDBPyConnection", file: TableFile, types: Mapping[str, str], stack: ExitStack
) -> tuple[str, str]:
    """Queries for the rows that a commit took away ("": none), and for those that it put there."""
    after, before = _schemas_of_sides(file)
    if file.feed:
        parts = [_Part(data) for data in file.feed]
        rows = _Reader(engine, file, after, {**types, CHANGE: "VARCHAR"}, stack).query(parts)
        feed = f"SELECT * EXCLUDE ({CHANGE}) FROM ({rows})"
        return f"{feed} WHERE {GONE_ROWS_SQL}", f"{feed} WHERE NOT {GONE_ROWS_SQL}"
    gone, news = _parts_of_commit(file)
    put_there = _Reader(engine, file, after, types, stack).query(news)
    if not gone:
        return "", put_there
    return _Reader(engine, file, before, types, stack).query(gone), put_there


def _schemas_of_sides(file: TableFile) -> tuple[str, str]:
    """The schemas of the rows that a commit put there, and of those that it took away, whose
    columns are called as after it: one that gives a table back its earlier names changes rows,
    too."""
    after, before = file.schemas[0], file.schemas[-1]
    return after, with_later_names(before, after) if file.mapping else before


def _parts_of_commit(file: TableFile) -> tuple[list[_Part], list[_Part]]:
    """The rows that a commit took away, and those that it put there. A file on both sides counts by
    the rows that were deleted on one of them only."""
    before, after = ({_key(f): f for f in side} for side in (file.removed, file.added))
    gone = [_rows_of_side(file, f, after.get(_key(f))) for f in file.removed]
    return gone, [_rows_of_side(file, f, before.get(_key(f))) for f in file.added]


def _key(file: DataFile) -> str:
    return file.name or str(file.path)


def _rows_of_side(content: TableFile, file: DataFile, other: DataFile | None) -> _Part:
    """The rows that a file has on its side of a commit and, if it is on the `other` side, too, does
    not have there."""
    import pyarrow.compute as pc

    deleted = _deleted_in(content, file)
    if other is None:
        return _Part(file, deleted, is_without=True)
    deleted_there = _deleted_in(content, other)
    is_deleted_here = pc.is_in(deleted_there, value_set=deleted)
    return _Part(file, deleted_there.filter(pc.invert(is_deleted_here)))


def _deleted_in(content: TableFile, file: DataFile) -> "pa.Int64Array":
    """The numbers of the rows of a file that its deletion vector takes away."""
    import pyarrow as pa

    if file.deleted:
        return pa.array(file.deleted, pa.int64())
    return deleted_rows(content.table, file.vector)


def _marked_rows(change: str, rows: str, columns: Iterable[str]) -> str:
    """A query for the rows with what the commit did with them."""
    named = ", ".join(map(quoted_name, columns))
    return f"SELECT {sql_literal(change)} AS {CHANGE}, {named}, {', '.join(OF_PLACE)} FROM ({rows})"


def _differing_rows_query(gone: str, news: str, columns: Sequence[str]) -> str:
    """A query for the rows of either query that the other one lacks, equal ones as often as they
    are more, with what the commit did with them: the n-th row of its kind on one side is the n-th
    on the other."""
    named = ", ".join(map(quoted_name, columns))
    numbered = " UNION ALL BY NAME ".join(
        f"SELECT {sql_literal(change)} AS {CHANGE}, *, "
        f"row_number() OVER (PARTITION BY {named} ORDER BY {', '.join(OF_PLACE)}) AS {NTH} FROM "
        f"({rows})"
        for change, rows in ((TAKEN_AWAY, gone), (INSERTED, news))
    )
    sides = f"SELECT *, count(*) OVER (PARTITION BY {named}, {NTH}) AS {SIDES} FROM ({numbered})"
    return f"SELECT {CHANGE}, {named}, {', '.join(OF_PLACE)} FROM ({sides}) WHERE {SIDES} = 1"


def _duckdb_types(engine: "DuckDBPyConnection", file: TableFile) -> dict[str, str]:
    """The columns that the table has or had, with the types of DuckDB that hold their values.
    Raises LandingError where a commit made BOOLEAN of a column or another type of it: DuckDB would
    read true as the number 1."""
    altered = _altered_types(engine, file)
    if booleans := [name for name, kinds in altered.items() if BOOLEAN in kinds]:
        raise _altered_types_error(file, booleans)
    return _described_types(engine, [*map(empty_table, dict.fromkeys(_schemas_of_sides(file)))])


def _altered_types(engine: "DuckDBPyConnection", file: TableFile) -> dict[str, tuple[str, str]]:
    """The columns that have another type after a commit than before it, with both."""
    after, before = (_described_types(engine, [empty_table(s)]) for s in _schemas_of_sides(file))
    shared = {name: (kind, before.get(name, kind)) for name, kind in after.items()}
    return {name: kinds for name, kinds in shared.items() if len({*kinds}) > 1}


def _described_types(engine: "DuckDBPyConnection", tables: Sequence["pa.Table"]) -> dict[str, str]:
    """The columns of these tables with the types of DuckDB that hold the values of all of them."""
    names = [f"columns_{number}" for number, _ in enumerate(tables)]
    for name, table in zip(names, tables, strict=True):
        engine.register(name, table)
    every = " UNION ALL BY NAME ".join(f"FROM {name}" for name in names)
    try:
        described = engine.execute(f"DESCRIBE {every}").fetchall()
    finally:
        for name in names:
            engine.unregister(name)
    return {name: str(kind) for name, kind, *_ in described}


def _altered_types_error(file: TableFile, columns: Iterable[str]) -> LandingError:
    """The error for a commit that gave columns types whose values cannot be compared with those
    before it."""
    version, named = content_version(file.name), ", ".join(map(printable_text, columns))
    return log_error(
        file.table,
        version,
        f"gives another type to {named}, which does not hold the values before it",
        f"Begin with what the table holds then: first_version = {version} beside table",
    )


class _Reader:
    """Reads data files of a commit, of which the table had one schema."""

    def __init__(
        self,
        engine: "DuckDBPyConnection",
        content: TableFile,
        schema: str,
        types: Mapping[str, str],
        stack: ExitStack,
    ) -> None:
        """`types`: of the columns to read, of DuckDB; `stack`: what is registered for the queries
        goes when it ends."""
        self.engine, self.schema, self.types, self.stack = engine, schema, types, stack
        self.mapping = content.mapping

    def query(self, parts: Iterable[_Part]) -> str:
        """A query for the columns of these rows, and the place of each in its file (`OF_PLACE`)."""
        columns = {**self.types, PATH: "VARCHAR", NUMBER: "BIGINT"}
        nulls = ", ".join(f"CAST(NULL AS {k}) AS {quoted_name(n)}" for n, k in columns.items())
        queries = [f"SELECT {nulls} WHERE false", *self._queries(parts)]
        cast = [f"CAST({quoted_name(n)} AS {k}) AS {quoted_name(n)}" for n, k in self.types.items()]
        cast += [PATH, f"{NUMBER} AS {ROW}"]
        return f"SELECT {', '.join(cast)} FROM ({' UNION ALL BY NAME '.join(queries)})"

    def _queries(self, parts: Iterable[_Part]) -> Iterator[str]:
        """Queries for the rows: one for all whole files of a partition that are read as they lie,
        and one for each other file."""
        by_partition = defaultdict[tuple[tuple[str, str | None], ...], list[str]](list)
        for part in parts:
            partition = tuple(sorted(part.file.partition.items()))
            if self.mapping:
                yield self._mapped_query(part)
            elif part.has_all:
                by_partition[partition].append(str(part.file.path))
            else:
                yield f"{_plain_query(partition, [str(part.file.path)])}{self._where(part)}"
        for partition, paths in by_partition.items():
            yield _plain_query(partition, paths)

    def _mapped_query(self, part: _Part) -> str:
        """A query for the rows of a file whose columns have other names in it."""
        import pyarrow.parquet as pq

        path = str(part.file.path)
        columns = column_expressions(self.schema, self.mapping, pq.read_schema(path))
        if CHANGE in self.types:  # of a change feed, which the schema does not have
            columns[CHANGE] = quoted_name(CHANGE)
        columns |= _partition_literals(part.file.partition.items())
        named = [f"{value} AS {quoted_name(n)}" for n, value in columns.items() if n in self.types]
        read = f"read_parquet({sql_literal(path)}, {READ_OPTIONS})"
        return f"SELECT {', '.join([*named, PATH, NUMBER])} FROM {read}{self._where(part)}"

    def _where(self, part: _Part) -> str:
        """The condition for the numbers of the rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if part.has_all or part.numbers is None:
            return ""
        if not len(part.numbers):
            return " WHERE false"
        name = f"numbers_{uuid.uuid4().hex}"
        self.engine.register(name, pa.table({"number": part.numbers}))
        self.stack.callback(self.engine.unregister, name)
        listed = f"(SELECT number FROM {name})"
        if part.is_without:
            return f" WHERE {NUMBER} NOT IN {listed}"
        bounds = pc.min_max(part.numbers).as_py()
        between = f"{NUMBER} BETWEEN {bounds['min']} AND {bounds['max']}"  # skips other row groups
        return f" WHERE {between} AND {NUMBER} IN {listed}"


def _partition_literals(partition: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The values of the partition columns in SQL. Delta writes NULL as an empty text, too."""
    return {name: sql_literal(value) if value else "NULL" for name, value in partition}


def _plain_query(partition: Sequence[tuple[str, str | None]], paths: Sequence[str]) -> str:
    """A query for all rows of files of one partition, whose columns are called as the table's."""
    texts = _partition_literals(partition)
    shared = "".join(f", {text} AS {quoted_name(name)}" for name, text in texts.items())
    own = f"COLUMNS(lambda c: c NOT IN ({', '.join(map(sql_literal, texts))}))" if texts else "*"
    read = f"read_parquet([{', '.join(map(sql_literal, paths))}], {READ_OPTIONS})"
    return f"SELECT {own}{shared} FROM {read}"
