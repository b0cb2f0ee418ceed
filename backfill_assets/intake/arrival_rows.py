"""The rows of the ledger `arrivals` as SQL of DuckDB, and who runs it where raw's files lie.

That is DuckDB, or the lake's engine by a translation (`engines.engine_sql`). Not here: which days a
load touches, and their commit (`arrivals`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.auditor import file_rows, is_audited_by_engine
from backfill_assets.engines.engine_sql import EngineRows
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.payload import LANDED
from backfill_assets.kernel.core.readings import LACKING_END, NAME_END, SEPARATOR, Sets
from backfill_assets.kernel.tables.embedded import (
    duckdb_cursor,
    file_batches,
    rows_query,
    sql_literal,
)
from backfill_assets.kernel.tables.fingerprints import PIECES, hash_pieces, part_hashes, row_hash
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.query_files import fill_by_batches, stage_query
from backfill_assets.kernel.tables.staging import Staged, begin_staging, fill_staging
from backfill_assets.kernel.write.audit import ROW
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class RawDeliveries:
    """The deliveries in raw's files, and queries over them, by DuckDB over copies on this machine.

    `parts`: sets of columns with a fingerprint of their own
    (`kernel.core.readings.fingerprint_in`). `by_key`: SQL of the event day that a key names
    ("NULL": it names none).
    """

    lake_session: Session
    raw: Contract
    parts: Sets
    by_key: str = "NULL"

    @property
    def lake(self) -> Lake:
        """The lake of raw."""
        return self.lake_session.lake

    @contextmanager
    def rows(
        self,
        version: int,
        days: Collection[date] | None,
        narrow: Callable[[str], str] = str,
        *,
        altered: bool = False,
        kept: bool = False,
    ) -> Iterator[str]:
        """A query for `narrow` of the deliveries in the files of a version (`store.data_files`),
        valid while the block runs (`embedded.materialized`)."""
        files = self.lake.store.data_files(self.raw, version, days, altered=altered)
        with materialized_rows(
            self.lake, files, self.raw, lambda rows: narrow(self.of(rows)), kept
        ) as query:
            yield query

    def of(self, rows: str) -> str:
        """A query for the deliveries of a query for rows of raw: key, arrival and event day, how
        late, and the pieces of the hash of each set of columns as `piece_0`, … The event time of a
        delete is ignored."""
        delivered = [c for c in self.raw.columns if c.name not in LANDED]
        hashes = {ROW: row_hash(delivered), **part_hashes(self.raw, self.parts)}
        hashed = ", ".join(f"{text} AS {name}" for name, text in hashes.items())
        every = list[str]()
        for name in hashes:
            every += hash_pieces(name)
        of_hashes = ", ".join(f"{piece} AS piece_{i}" for i, piece in enumerate(every))
        event_day = "CAST(make_timestamp(epoch_us(event_ts)) AS DATE)"
        lateness = "epoch_us(arrival_ts) - epoch_us(event_ts)"
        return (
            "SELECT event_key, arrival_date, "
            f"coalesce(CASE WHEN op = 'upsert' THEN {event_day} END, {self.by_key}) AS event_date, "
            f"CASE WHEN op = 'upsert' THEN {lateness} END AS late, {of_hashes} "
            f"FROM (SELECT *, {hashed} FROM ({rows}))"
        )

    def fetched(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with duckdb_cursor(self.lake) as engine:
            return engine.execute(query).fetchall()

    def stage(self, ledger: Contract, query: str) -> Staged:
        """The rows of a query, staged."""
        return stage_query(self.lake, ledger, query)


@dataclass
class RawDeliveriesByEngine(RawDeliveries):
    """Deliveries of a landed table as the lake's engine reads them, where the files lie; only rows
    of the ledger come to this process."""

    frames: "dict[str, DataFrame]" = field(default_factory=dict)

    @contextmanager
    def rows(
        self,
        version: int,
        days: Collection[date] | None,
        narrow: Callable[[str], str] = str,
        *,
        altered: bool = False,
        kept: bool = False,
    ) -> Iterator[str]:
        """As `RawDeliveries.rows`; the query selects from frames of this object."""
        files = self.lake.store.files(self.raw, version, days, altered=altered)
        frame = f"deliveries_{len(self.frames)}"
        self.frames[frame] = file_rows(self.lake_session.spark(), files, self.raw)
        yield narrow(self.of(f"SELECT * FROM {frame}"))

    def fetched(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._engine_rows().fetched(query)

    def stage(self, ledger: Contract, query: str) -> Staged:
        """The rows of a query, staged."""
        with fill_staging(self.lake, ledger) as staged:
            batches = self._engine_rows().frame(query).toArrow().to_reader()
            fill_by_batches(self.lake, ledger, batches, staged)
        return staged

    def _engine_rows(self) -> EngineRows:
        return EngineRows(self.lake_session.spark(), **self.frames)


def raw_deliveries(
    lake_session: Session,
    raw: Contract,
    parts: Sets,
    version: int,
    days: Collection[date],
    by_key: str = "NULL",
) -> RawDeliveries:
    """The deliveries of raw as they are to be read where these days of a version are: by the engine
    where it would count these files (`[audit]`)."""
    files = lake_session.lake.store.files(raw, version, days, altered=True)
    made = (
        RawDeliveriesByEngine if is_audited_by_engine(lake_session, raw, files) else RawDeliveries
    )
    return made(lake_session, raw, parts, by_key)


def ledger_rows(
    arrived: str, placed: str | None, parts: Sets, lacking: Collection[date] = ()
) -> str:
    """SQL selecting the ledger's rows for the arrival days of `arrived`, which selects their
    deliveries: each key of an arrival day counts for all event days that the key has.

    `placed` selects, as `keys_with_days` does, from all rows with the keys of `arrived`, or more
    (None: of `arrived`). `lacking`: the arrival days whose files lack a column of raw's, which
    reads as NULL: their fingerprints say so (`LACKING_END`). `parts`: sets of columns with a
    fingerprint of their own.
    """
    # Of the whole row first, then of each set.
    pieces = [f"piece_{i}" for i in range(PIECES * (1 + len(parts)))]
    per_key = ", ".join(f"sum({p}) AS {p}" for p in pieces)
    near = keys_with_days("SELECT * FROM arrived")
    if placed:
        near = f"SELECT * FROM ({placed}) SEMI JOIN arrived USING (event_key)"
    return f"""
WITH arrived AS ({arrived}),
days AS (SELECT DISTINCT event_key, event_date FROM ({near}) WHERE event_date IS NOT NULL),
several AS (SELECT event_key AS moved_key FROM days GROUP BY 1 HAVING count(*) > 1),
per_key AS (SELECT arrival_date, event_key, count(*) AS rows, {per_key} FROM arrived GROUP BY 1, 2),
counted AS (SELECT arrival_date, event_date, sum(rows) AS deliveries, count(*) AS keys,
                   count(moved_key) AS moved_keys,
                   {_fingerprint_expression(pieces, parts, lacking)} AS fingerprint
            FROM per_key JOIN days USING (event_key) LEFT JOIN several ON event_key = moved_key
            GROUP BY 1, 2),
latest AS (SELECT arrival_date, event_date, max(late) AS most
           FROM arrived WHERE late IS NOT NULL GROUP BY 1, 2)
SELECT arrival_date, event_date, CAST(deliveries AS BIGINT) AS deliveries, keys, moved_keys,
       CAST(floor(most / 1000000) AS BIGINT) AS greatest_lateness_s, fingerprint,
       substring(CAST(arrival_date AS STRING), 1, 7) AS arrival_month
FROM counted LEFT JOIN latest USING (arrival_date, event_date)"""


def _fingerprint_expression(sums: Sequence[str], parts: Sets, lacking: Collection[date]) -> str:
    """The expression of the text that `kernel.core.readings.fingerprint_in` reads, over the sums of
    each fingerprint."""
    texts = list[str]()
    for first in range(0, len(sums), PIECES):
        pair = [f"CAST(sum({piece}) AS STRING)" for piece in sums[first : first + PIECES]]
        texts.append(f"concat_ws('.', {', '.join(pair)})")
    of_parts = sorted(zip(parts, texts[1:], strict=True))
    named = [f"'{name}{NAME_END}' || {text}" for name, text in of_parts]
    usual = f"concat_ws('{SEPARATOR}', {', '.join((texts[0], *named))})"
    if not lacking:
        return usual
    days = ", ".join(f"DATE '{d}'" for d in sorted(lacking))
    return f"CASE WHEN arrival_date IN ({days}) THEN {usual} || '{LACKING_END}' ELSE {usual} END"


def keys_with_days(rows: str) -> str:
    """SQL selecting key, arrival day and event day (NULL: of a delete) of a query for
    deliveries."""
    return f"SELECT event_key, arrival_date, event_date FROM ({rows})"


def rows_of_keys(rows: str, *others: str) -> str:
    """SQL selecting the `rows` whose key occurs in one of the other queries."""
    keys = " UNION ALL ".join(f"SELECT event_key FROM ({query})" for query in others)
    return f"SELECT * FROM ({rows}) SEMI JOIN ({keys}) USING (event_key)"


def days_of_moved_keys(before: str, after: str, others: str) -> str:
    """SQL selecting the arrival days of all keys whose set of event days differs between `before`
    and `after`.

    `before` and `after` select from the loaded days then and now, as `keys_with_days` does;
    `others` from all other days.
    """
    return f"""
WITH old AS ({before}), new AS ({after}),
keys AS (SELECT event_key FROM old UNION SELECT event_key FROM new),
near AS (SELECT * FROM ({others}) SEMI JOIN keys USING (event_key)),
then_days AS (SELECT event_key, event_date FROM old UNION SELECT event_key, event_date FROM near),
now_days AS (SELECT event_key, event_date FROM new UNION SELECT event_key, event_date FROM near),
gone AS (SELECT * FROM then_days WHERE event_date IS NOT NULL EXCEPT SELECT * FROM now_days),
come AS (SELECT * FROM now_days WHERE event_date IS NOT NULL EXCEPT SELECT * FROM then_days),
changed AS (SELECT event_key FROM gone UNION SELECT event_key FROM come),
all_rows AS (SELECT * FROM new UNION ALL SELECT * FROM near)
SELECT DISTINCT arrival_date FROM all_rows SEMI JOIN changed USING (event_key)"""


@contextmanager
def materialized_rows(
    lake: LakeFolder,
    files: Sequence[str],
    contract: Contract,
    narrow: Callable[[str], str] = str,
    kept: bool = False,
) -> Iterator[str]:
    """A query for `narrow` of the rows of these files, valid while the block runs.

    `narrow` makes a query from a query and treats every day by itself, because it runs on each
    batch of files. The result of more than one batch, or that is to be read several times (`kept`),
    lies in a staging that is never published.
    """
    batches = list(file_batches(files, contract))
    if len(batches) <= 1 and not (kept and batches):
        yield narrow(rows_query(files, contract))
        return
    staged = begin_staging(lake, contract)
    try:
        copies = list[str]()
        with duckdb_cursor(lake) as engine:
            for number, batch in enumerate(batches):
                copies.append(sql_literal(str(staged.folder / f"{number}.parquet")))
                engine.execute(
                    f"COPY ({narrow(rows_query(batch, contract))}) TO {copies[-1]} (FORMAT parquet)"
                )
        yield f"SELECT * FROM read_parquet([{', '.join(copies)}], hive_partitioning = false)"
    finally:
        staged.drop()
