"""Auditors: who counts the rows of staged files, DuckDB in this process or the lake's engine where
the files lie.

Not here: what is counted, and by DuckDB (`audit`), how a fingerprint is made (`fingerprints`),
judging (`gates`). The engine's figures equal DuckDB's to the last bit. No row comes to this
process: per day its figures, and the texts of columns that have at most 32 on it, of which receipts
keep 16.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.engine_paths import engine_path
from backfill_assets.engines.engine_sql import EngineRows
from backfill_assets.engines.engine_sql import Found as Answered
from backfill_assets.engines.frame_files import stage_added_rows
from backfill_assets.engines.machine_audit import MachinesAuditor, total_bytes
from backfill_assets.engines.rules_alike import is_judged_alike
from backfill_assets.engines.settings import audit_of
from backfill_assets.engines.table_frames import GLOB_SIGNS, PlainFiles, read_plain
from backfill_assets.kernel.core.column_types import ColumnType, quoted_column
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import ContractBroken, SettingsError
from backfill_assets.kernel.core.profiles import VALUES_KEPT
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.log.log import FILE_DIGEST_CHARS
from backfill_assets.kernel.tables.embedded import AT_ONCE, duckdb_cursor
from backfill_assets.kernel.tables.fingerprints import (
    Found,
    frequent_texts,
    grouping_key,
    number_bucket,
    quoted_name,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, StagedFile
from backfill_assets.kernel.write.audit import (
    ROW,
    Figures,
    Profiles,
    RowAudit,
    described_columns,
)
from backfill_assets.kernel.write.session import Auditor, DuckDBAuditor, Session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FEW_TEXTS = 2 * VALUES_KEPT
# An engine that counts few texts of a day about right never takes 32 or fewer of them for more than
# this.
CERTAINLY_MANY = 2 * FEW_TEXTS
# Reading a byte of a bucket costs so many times what reading one of a folder does.
BUCKET_READ_COST = 64
MOST_DIGESTED = 512 << 20  # bytes of a file: a task holds all of it
FEW_TEXTS_TABLE = "few_texts"  # their name in DuckDB
ESTIMATE_QUERY = (
    "SELECT day, which, approx_count_distinct(text) FILTER (WHERE s = 1) "
    f"FROM {FEW_TEXTS_TABLE} GROUP BY ALL"
)


def chosen_auditor(
    lake_session: Session,
    contract: Contract,
    files: Sequence[StagedFile],
    *,
    is_duckdbs: bool = False,
) -> Auditor:
    """The auditor of files of a table, as `[audit]` says. By `auto` the engine counts where it
    computes on other machines and the files are large (in a bucket: a `BUCKET_READ_COST`th of
    that): on this one it takes as much CPU as DuckDB, and Spark five times as much. What only
    DuckDB answers alike (`is_duckdbs`: the caller's own queries), it answers on the engine's
    machines where these reach the bucket.

    Raises SettingsError for `engine = "engine"` where only DuckDB can judge the table, and this
    process would have to.
    """
    lake = lake_session.lake
    place = lake.table_place(contract.name).uri()
    why_not = _obstacle_to_engine(contract, place)
    if _is_asked(lake_session, files):
        if not (why_not or is_duckdbs):
            return EngineAuditor(lake_session)
        if not lake_session.computes_here and lake_session.is_at_bucket():
            is_readable = not _layout_obstacle(contract, place)
            rows = EngineAuditor(lake_session) if is_readable else DuckDBAuditor(lake)
            return MachinesAuditor(lake_session, rows)
    if why_not and not is_duckdbs and audit_of(lake.settings).engine == "engine":
        raise SettingsError(
            '[audit] engine = "engine"',
            f"the table {contract.name} can be audited by DuckDB only: {why_not}",
            "Nothing was written",
            'Set engine = "auto", by which DuckDB audits this table and the engine others',
        )
    return DuckDBAuditor(lake)


@dataclass(frozen=True)
class EngineAuditor:
    """The auditor that asks a session's engine, which reads the files where they lie."""

    session: Session

    def profiles(self, contract: Contract, staged: Staged, parts: Sets) -> Profiles:
        """As the port says."""
        return audit_by_engine(self.session, staged, contract, parts)

    def keep_rows(
        self, contract: Contract, staged: Staged, version: int, days: Sequence[date]
    ) -> dict[date, int]:
        """As the port says."""
        lake, spark = self.session.lake, self.session.spark()
        stands = file_rows(spark, lake.store.files(contract, version, days), contract)
        comes = file_rows(spark, staged.files, contract)
        engine = EngineRows(spark, stands=stands, comes=comes)
        lacking = engine.frame(_lacking_rows_query(contract))
        added = stage_added_rows(lacking, lake, contract, staged, len(days))
        staged.files = (*staged.files, *added)
        counts = file_rows(spark, added, contract).groupBy(contract.day_column).count()
        return dict(counts.collect())

    def answers(
        self,
        contract: Contract,
        query: Callable[..., str],
        *sides: Sequence[StagedFile],
        where: str = "true",
        at_once: int = AT_ONCE,
    ) -> Iterator[Answered]:
        """Yield the names and rows of what `query` finds, once for all files, whatever `at_once`
        says: the engine spills what does not fit. `query` gets one query for the rows of each side,
        narrowed by `where`."""
        spark = self.session.spark()
        frames = {f"side_{n}": file_rows(spark, side, contract) for n, side in enumerate(sides)}
        rows = (f"SELECT * FROM {name} WHERE {where}" for name in frames)
        yield EngineRows(spark, **frames).found(query(*rows))

    def rows_by(self, contract: Contract, staged: Staged, column: str) -> list[tuple[Any, ...]]:
        """As the port says."""
        rows = file_rows(self.session.spark(), staged.files, contract)
        return [tuple(row) for row in rows.groupBy(contract.day_column, column).count().collect()]


def is_audited_by_engine(
    lake_session: Session, contract: Contract, files: Sequence[StagedFile]
) -> bool:
    """Whether the engine, not DuckDB, counts the rows of these files of one table: the choice of
    `chosen_auditor`."""
    is_asked = _is_asked(lake_session, files)
    return is_asked and not _obstacle_to_engine(contract, files[0].table.uri())


def _is_asked(lake_session: Session, files: Sequence[StagedFile]) -> bool:
    """Whether the engine is to count the rows of these files, if it can."""
    wanted = audit_of(lake_session.lake.settings).engine
    if not files or wanted == "duckdb":
        return False
    if wanted == "engine":
        return True
    return not lake_session.computes_here and is_for_engine(lake_session, total_bytes(files))


def is_for_engine(lake_session: Session, size: int) -> bool:
    """Whether files of so many bytes are read sooner by an engine of other machines than by this
    one."""
    if lake_session.computes_here:
        return False
    least = audit_of(lake_session.lake.settings).engine_from_mib << 20
    return size >= least or (size >= least // BUCKET_READ_COST and lake_session.is_at_bucket())


def _obstacle_to_engine(contract: Contract, place: str) -> str:
    """Why an engine may not give DuckDB's figures of the files of a table at a place; empty where
    it does."""
    if why_not := _layout_obstacle(contract, place):
        return why_not
    unlike = [r for r in contract.rules if not is_judged_alike(contract, r)]
    return (
        f"engines may judge the rule {unlike[0].name} ({unlike[0].expression}) differently"
        if unlike
        else ""
    )


def _layout_obstacle(contract: Contract, place: str) -> str:
    """Why an engine may not find the rows of a table's files at a place as DuckDB does."""
    if contract.partition_column not in ("", contract.day_column):
        return f"its files are laid out by {contract.partition_column}"
    if any(sign in place for sign in GLOB_SIGNS):
        return f"Spark takes {place} for a pattern"
    return ""


def audit_by_engine(
    lake_session: Session, staged: Staged, contract: Contract, parts: Sets
) -> Profiles:
    """Profiles as `audit.audit_files` gives them of these files, counted by the lake's engine,
    which takes their digests as well if it computes on other machines. Raises ContractBroken for
    text that is not UTF-8, and what the engine raises.
    """
    if not staged.files:
        return {}
    session, lake = lake_session.spark(), lake_session.lake
    if not lake_session.computes_here:
        take_digests(session, staged)
    engine = EngineRows(session, side=file_rows(session, staged.files, contract))
    described = described_columns(lake, contract)
    rows = "SELECT * FROM side"
    counter = RowAudit(engine.fetched, rows, contract, parts, described, as_key=grouping_key)
    figures = counter.day_figures(_unreadable_texts(contract))
    _refuse_unreadable(contract, figures)
    _add_histograms(engine, contract, figures)
    hashed = engine.frame(counter.hashed)
    texts = _frequent_texts(lake, hashed, counter, figures)
    return counter.profiles(figures, texts)


def take_digests(session: "SparkSession", staged: Staged) -> None:
    """Let an engine on other machines take the digests of the files that fit a task's memory."""
    wanted = [
        engine_path(session, f.table, f.name) for f in staged.files if f.size <= MOST_DIGESTED
    ]
    if not wanted:
        return
    digest = f"left(sha2(content, 256), {FILE_DIGEST_CHARS})"
    found = session.read.format("binaryFile").load(wanted).selectExpr("path", digest).collect()
    by_name = {staged.name + path.rpartition(staged.name)[2]: of_bytes for path, of_bytes in found}
    staged.files = tuple(replace(f, engine_digest=by_name.get(f.name, "")) for f in staged.files)


def file_rows(
    session: "SparkSession", files: Iterable[StagedFile], contract: Contract
) -> "DataFrame":
    """The rows of files of a table; those in the folder of NULL lack the day's column, and so get
    NULL."""
    columns = tuple((c.name, c.kind.spark) for c in contract.columns)
    dated, undated = list[str](), list[str]()
    for file in files:
        is_undated = bool(contract.partition_column) and file.partition is None
        paths = undated if is_undated else dated
        paths.append(engine_path(session, file.table, file.name))
    rows = read_plain(session, PlainFiles(tuple(dated), columns, contract.partition_column))
    if not undated:
        return rows
    return rows.union(read_plain(session, PlainFiles(tuple(undated), columns, "")))


def _unreadable_texts(contract: Contract) -> dict[str, str]:
    """Aggregates by the names of columns, of texts that are not UTF-8: DuckDB refuses to read
    them."""
    aggregates = dict[str, str]()
    for column in contract.columns:
        condition = _invalid_text_condition(quoted_name(column.name), column.kind)
        if condition:
            aggregates[f"bytes {column.name}"] = f"count(*) FILTER (WHERE {condition})"
    return aggregates


def _invalid_text_condition(value: str, kind: ColumnType) -> str:
    """The condition that a text, or one of an array, is not UTF-8; empty for other types."""
    if kind.kind == "STRING":
        return f"{value} IS NOT NULL AND NOT is_valid_utf8({value})"
    inner = "" if kind.element is None else _invalid_text_condition("e", kind.element)
    return inner and f"array_length(list_filter({value}, lambda e: {inner})) > 0"


def _refuse_unreadable(contract: Contract, figures: Figures) -> None:
    """Raise ContractBroken naming the first column whose texts are not UTF-8."""
    for found in figures.values():
        if wrong := [c for c in contract.column_names if found.get(f"bytes {c}")]:
            raise ContractBroken(
                f"the table {contract.name}",
                f"what was computed cannot be read back: {wrong[0]} holds bytes that are no UTF-8",
                "Nothing was written",
                "Correct the transform (text must be UTF-8), then run again",
            )


def _add_histograms(engine: EngineRows, contract: Contract, figures: Figures) -> None:
    """Count the rows per day, measured column and bucket: engines have no aggregate that gives a
    histogram."""
    from pyspark.sql import functions as F

    measured = contract.measured_columns
    for found in figures.values():
        found.update((f"histogram {c}", {}) for c in measured)
    if not measured:
        return
    buckets = ", ".join(number_bucket(contract.column(c)) for c in measured)
    day = quoted_name(contract.day_column)
    of_rows = engine.frame(f"SELECT {day} AS day, [{buckets}] AS buckets FROM side")
    exploded = of_rows.select("day", F.posexplode("buckets").alias("place", "bucket"))
    counts = exploded.where("bucket IS NOT NULL").groupBy("day", "place", "bucket").count()
    for on, place, bucket_of, n in counts.collect():
        figures[on][f"histogram {measured[place]}"][bucket_of] = n


def _frequent_texts(
    lake: Lake, hashed: "DataFrame", counter: RowAudit, figures: Figures
) -> dict[str, Found]:
    """The frequent texts as DuckDB finds them: it is given the texts of columns that have few, and
    estimates these."""
    described = counter.described
    if not described:
        return {}
    by_day = [found for day, found in figures.items() if day is not None]
    few = {c for c in described if any(f[f"distinct {c}"] <= CERTAINLY_MANY for f in by_day)}
    with duckdb_cursor(lake) as duckdb:
        estimates: dict[tuple[date | None, int], int] = {}
        if few:
            day = quoted_column(counter.contract.day_column)
            columns = [c if c in few else None for c in described]
            duckdb.register(FEW_TEXTS_TABLE, _text_counts(hashed, day, columns))
            estimates = {
                (on, place): n for on, place, n in duckdb.execute(ESTIMATE_QUERY).fetchall()
            }
        counted: dict[str, dict[date | None, tuple[int, int]]] = {}
        for place, (column, of_days) in enumerate(counter.counted_texts(figures).items()):
            counted[column] = {}
            for on, (n, _) in of_days.items():
                has_texts = on is not None and n > 0
                texts = estimates.get((on, place), FEW_TEXTS + 1) if has_texts else 0
                counted[column][on] = n, texts
        return frequent_texts(
            duckdb, lambda _: f"SELECT day, which, text, n FROM {FEW_TEXTS_TABLE}", counted
        )


def _text_counts(hashed: "DataFrame", day: str, columns: Sequence[str | None]) -> "pa.Table":
    """Day, place of a column, text, rows and whether one is in the sample, where a day has at most
    `FEW_TEXTS`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    texts = F.array(*(F.expr(quoted_column(c) if c else "CAST(NULL AS STRING)") for c in columns))
    sampled = F.expr(f"CASE WHEN {ROW} < '1' THEN 1 ELSE 0 END").alias("sampled")
    exploded = hashed.select(
        F.expr(day).alias("day"), sampled, F.posexplode(texts).alias("which", "text")
    )
    known = exploded.where("day IS NOT NULL AND text IS NOT NULL")
    counts = F.expr("count(1)").alias("n"), F.expr("max(sampled)").alias("s")
    by_text = known.groupBy("day", "which", "text").agg(*counts)
    several = by_text.withColumn(
        "texts", F.count(F.lit(1)).over(Window.partitionBy("day", "which"))
    )
    table: pa.Table = (
        several.where(f"texts <= {FEW_TEXTS}").select("day", "which", "text", "n", "s").toArrow()
    )
    return table


def _lacking_rows_query(contract: Contract) -> str:
    """The query of the rows of `stands` whose day and key `comes` lacks."""
    by = dict.fromkeys((contract.day_column, *contract.key))
    keys = [f"{grouping_key(contract.column(c))} AS __key_{i}" for i, c in enumerate(by)]
    same = " AND ".join(
        f"stood.__key_{i} IS NOT DISTINCT FROM came.__key_{i}" for i in range(len(keys))
    )
    return (
        f"SELECT {', '.join(map(quoted_name, contract.column_names))} "
        f"FROM (SELECT *, {', '.join(keys)} FROM stands) AS stood "
        f"ANTI JOIN (SELECT {', '.join(keys)} FROM comes) AS came ON {same}"
    )
