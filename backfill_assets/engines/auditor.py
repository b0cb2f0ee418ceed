"""Auditors: who counts the rows of staged files, DuckDB in this process or the lake's engine where
the files lie.

Not here: what is counted, and by DuckDB (`audit`), how a fingerprint is made (`fingerprints`),
judging (`gates`). The engine's figures equal DuckDB's to the last bit. No row comes to this
process: per day its figures, and the texts of columns that have at most 32 on it, of which receipts
keep 16.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.engine_fingerprints import (
    bucket,
    comparable,
    part_hashes,
    pieces,
    row_hash,
)
from backfill_assets.engines.engine_paths import engine_path
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.mapping import quoted
from backfill_assets.kernel.core.column_types import ColumnType
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import ContractBroken, SettingsError
from backfill_assets.kernel.core.profiles import VALUES_KEPT, key_name
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.log.log import FILE_DIGEST_CHARS
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.data_files import GLOB_SIGNS, PlainFiles, read_plain
from backfill_assets.kernel.tables.embedded import connection
from backfill_assets.kernel.tables.fingerprints import PIECES, Found, frequent_texts
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, StagedFile
from backfill_assets.kernel.write.audit import ROW, Measured, Profiles, audit, described_columns
from backfill_assets.kernel.write.rules import broken_on_engine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Auditor = Callable[[Staged, Contract, Sets], Profiles]  # as `audit.audit` of the staged files
HALF_BITS = 30  # of a piece: sums of halves stay within 64 bits below 2^33 rows a day
FEW_TEXTS = 2 * VALUES_KEPT
# An engine that counts few texts of a day about right never takes 32 or fewer of them for more than
# this.
CERTAINLY_MANY = 2 * FEW_TEXTS
FETCHED = 64  # reading a byte of a bucket costs so many times what reading one of a folder does
MOST_DIGESTED = 512 << 20  # bytes of a file: a task holds all of it
TEXTS = "few_texts"  # their name in DuckDB
ESTIMATED = (
    f"SELECT day, which, approx_count_distinct(text) FILTER (WHERE s = 1) FROM {TEXTS} GROUP BY ALL"
)


def auditor_of(lake_session: LakeSession, staged: Staged, contract: Contract) -> Auditor:
    """The auditor of staged files of a table, as `[audit]` says. By `auto` the engine counts where
    it computes on other machines and the files are large (in a bucket: a `FETCHED`th of that): on
    this one it takes as much CPU as DuckDB, and Spark five times as much.

    Raises SettingsError for `engine = "engine"` where only DuckDB can judge the table.
    """
    lake = lake_session.lake
    if lake.settings.audit.engine == "engine" and (
        why_not := _why_not_by_engine(contract, staged.table)
    ):
        raise SettingsError(
            '[audit] engine = "engine"',
            f"the table {contract.name} can be audited by DuckDB only: {why_not}",
            "Nothing was written",
            'Set engine = "auto", by which DuckDB audits this table and the engine others',
        )
    by_engine = is_for_engine(lake_session, contract, staged.files)
    return partial(audit_by_engine, lake_session) if by_engine else partial(_audit_by_duckdb, lake)


def is_for_engine(
    lake_session: LakeSession, contract: Contract, files: Sequence[StagedFile]
) -> bool:
    """Whether the engine, not DuckDB, counts the rows of these files of one table, as `auditor_of`
    says."""
    wanted = lake_session.lake.settings.audit.engine
    if not files or wanted == "duckdb" or _why_not_by_engine(contract, files[0].table):
        return False
    return wanted == "engine" or _are_large(lake_session, files)


def _are_large(lake_session: LakeSession, files: Iterable[StagedFile]) -> bool:
    """Whether files are so large that an engine of other machines counts them sooner than this
    one."""
    if lake_session.engine.computes_here:
        return False
    size, least = sum(f.size for f in files), lake_session.lake.settings.audit.engine_from_mib << 20
    return size >= least or (size >= least // FETCHED and lake_session.is_at_bucket())


def _audit_by_duckdb(lake: Lake, staged: Staged, contract: Contract, parts: Sets) -> Profiles:
    return audit(lake, staged.paths, contract, parts)


def _why_not_by_engine(contract: Contract, table: Place) -> str:
    """Why an engine may not give DuckDB's figures of a table's files; empty where it does."""
    if contract.partition_column not in ("", contract.day_column):
        return f"its files are laid out by {contract.partition_column}"
    if any(sign in table.uri() for sign in GLOB_SIGNS):
        return f"Spark takes {table.uri()} for a pattern"
    unlike = [r for r in contract.rules if not broken_on_engine(contract, r)]
    return (
        f"engines may judge the rule {unlike[0].name} ({unlike[0].expression}) differently"
        if unlike
        else ""
    )


def audit_by_engine(
    lake_session: LakeSession, staged: Staged, contract: Contract, parts: Sets
) -> Profiles:
    """Profiles as `audit.audit` gives them of these files, counted by the lake's engine, which
    takes their digests as well if it computes on other machines. Raises ContractBroken for text
    that is not UTF-8, and what the engine raises.
    """
    if not staged.files:
        return {}
    if not lake_session.engine.computes_here:
        take_digests(lake_session.spark(), staged)
    lake, day = lake_session.lake, quoted(contract.day_column)
    described = described_columns(lake, contract)
    hashes = {ROW: row_hash(contract.columns), **part_hashes(contract, parts)}
    rows = rows_of(lake_session.spark(), staged.files, contract)
    hashed = _with(rows, hashes)
    counted = _counted(_with(hashed, pieces(hashes)), day, _aggregates(contract, hashes, described))
    figures = {on: _as_duckdb_gives(found, contract, hashes) for on, found in counted.items()}
    for on, place, bucket_of, n in _histograms(rows, day, contract):
        figures[on][f"histogram {contract.measured_columns[place]}"][bucket_of] = n
    repeated = _per_day(
        _groups(rows, contract, contract.key, "count(1) > 1", "count(1) - 1"), "sum(n)"
    )
    groups = {
        r.name: _per_day(_groups(rows, contract, r.per, broken_on_engine(contract, r)), "sum(n)")
        for r in contract.group_rules
    }
    most = {
        key_name(k): _per_day(_of_known_keys(rows, contract, k), "max(n)") for k in contract.read_by
    }
    texts = _frequent(lake, hashed, day, described, figures)
    return Measured(figures, repeated if contract.key else {}, groups, most, texts).profiles(
        contract, parts
    )


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


def rows_of(
    session: "SparkSession", files: Iterable[StagedFile], contract: Contract
) -> "DataFrame":
    """The rows of files of a table; those in the folder of NULL lack the day's column, and so get
    NULL."""
    columns, by = tuple((c.name, c.kind.spark) for c in contract.columns), contract.partition_column
    paths = [(f.partition, engine_path(session, f.table, f.name)) for f in files]
    dated = tuple(path for value, path in paths if not by or value is not None)
    undated = tuple(path for value, path in paths if by and value is None)
    rows = read_plain(session, PlainFiles(dated, columns, by))
    return rows.union(read_plain(session, PlainFiles(undated, columns, ""))) if undated else rows


def _with(rows: "DataFrame", expressions: Mapping[str, str]) -> "DataFrame":
    from pyspark.sql import functions as F

    return rows.withColumns({name: F.expr(text) for name, text in expressions.items()})


def _aggregates(
    contract: Contract, hashes: Iterable[str], described: Iterable[str]
) -> dict[str, str]:
    """The aggregates of a day by the names of `audit`'s; of each sum of pieces the halves, and
    `bytes`: texts that are not UTF-8, which DuckDB refuses to read."""
    names = [(h, i) for h in hashes for i in range(PIECES)]
    figures = {"rows": "count(1)"}
    figures |= {f"high {h} {i}": f"sum(shiftright({h}_{i}, {HALF_BITS}))" for h, i in names}
    figures |= {f"low {h} {i}": f"sum({h}_{i} & {(1 << HALF_BITS) - 1}L)" for h, i in names}
    figures |= {f"nulls {c}": f"count(1) - count({quoted(c)})" for c in contract.column_names}
    summed = map(contract.column, contract.summed_columns)
    figures |= {
        f"sum {c.name}": f"sum(CAST({quoted(c.name)} AS DECIMAL(38,{c.kind.scale})))"
        for c in summed
    }
    figures |= {
        f"breaks {r.name}": f"count_if({broken_on_engine(contract, r)})" for r in contract.row_rules
    }
    sampled = f"CASE WHEN {ROW} < '1' THEN {{}} END"
    figures |= {
        f"distinct {c}": f"approx_count_distinct({sampled.format(quoted(c))})" for c in described
    }
    wrong = {c.name: _is_no_text(quoted(c.name), c.kind) for c in contract.columns}
    return figures | {
        f"bytes {name}": f"count_if({condition})" for name, condition in wrong.items() if condition
    }


def _is_no_text(value: str, kind: ColumnType) -> str:
    """The condition that a text, or one of an array, is not UTF-8; empty for other types."""
    if kind.element is not None:
        inner = _is_no_text("e", kind.element)
        return inner and f"exists({value}, e -> {inner})"
    return f"{value} IS NOT NULL AND NOT is_valid_utf8({value})" if kind.kind == "STRING" else ""


def _counted(
    rows: "DataFrame", day: str, aggregates: Mapping[str, str]
) -> dict[date | None, dict[str, Any]]:
    from pyspark.sql import functions as F

    expressions = (F.expr(text).alias(name) for name, text in aggregates.items())
    found = rows.groupBy(F.expr(day).alias("__on")).agg(*expressions).collect()
    return {on: dict(zip(aggregates, cells, strict=True)) for on, *cells in found}


def _as_duckdb_gives(
    found: Mapping[str, Any], contract: Contract, hashes: Iterable[str]
) -> dict[str, Any]:
    """A day's figures in the types and by the names of `audit`'s, histograms still empty."""
    if wrong := [c for c in contract.column_names if found.get(f"bytes {c}")]:
        raise ContractBroken(
            f"the table {contract.name}",
            f"what was computed cannot be read back: {wrong[0]} holds bytes that are no UTF-8",
            "Nothing was written",
            "Correct the transform (text must be UTF-8), then run again",
        )
    names = [f"{h} {i}" for h in hashes for i in range(PIECES)]
    prints = {n: (int(found[f"high {n}"]) << HALF_BITS) + int(found[f"low {n}"]) for n in names}
    whole = [f"sum {c}" for c in contract.summed_columns if not contract.column(c).kind.scale]
    sums = {name: int(found[name]) for name in whole if found[name] is not None}
    return {**found, **prints, **sums, **{f"histogram {c}": {} for c in contract.measured_columns}}


def _histograms(rows: "DataFrame", day: str, contract: Contract) -> Iterable[Sequence[Any]]:
    """Day, place among the measured columns, bucket and rows."""
    from pyspark.sql import functions as F

    if not contract.measured_columns:
        return ()
    buckets = F.array(*(F.expr(bucket(contract.column(c))) for c in contract.measured_columns))
    found = rows.select(F.expr(day).alias("day"), F.posexplode(buckets).alias("place", "bucket"))
    return found.where("bucket IS NOT NULL").groupBy("day", "place", "bucket").count().collect()


def _groups(
    rows: "DataFrame", contract: Contract, by: Iterable[str], having: str, n: str = "1"
) -> "DataFrame":
    """Day (`day`) and the number `n` of each group of a day's rows for which `having` holds."""
    from pyspark.sql import functions as F

    keys = [
        F.expr(comparable(contract.column(c))).alias(f"__{i}")
        for i, c in enumerate(dict.fromkeys(by))
    ]
    grouped = rows.groupBy(F.expr(quoted(contract.day_column)).alias("day"), *keys)
    return grouped.agg(F.expr(having).alias("__has"), F.expr(n).alias("n")).where("__has")


def _of_known_keys(rows: "DataFrame", contract: Contract, key: Iterable[str]) -> "DataFrame":
    known = " AND ".join(f"{quoted(c)} IS NOT NULL" for c in key)
    return _groups(rows.where(known), contract, key, "count(1) > 0", "count(1)")


def _per_day(groups: "DataFrame", aggregate: str) -> dict[date | None, int]:
    from pyspark.sql import functions as F

    return {
        day: int(n) for day, n in groups.groupBy("day").agg(F.expr(aggregate).alias("n")).collect()
    }


def _frequent(
    lake: Lake,
    hashed: "DataFrame",
    day: str,
    described: Sequence[str],
    figures: Mapping[date | None, dict[str, Any]],
) -> dict[str, Found]:
    """The frequent texts as DuckDB finds them: it is given the texts of columns that have few, and
    estimates these."""
    few = [
        c
        for c in described
        if any(on and f[f"distinct {c}"] <= CERTAINLY_MANY for on, f in figures.items())
    ]
    if not described:
        return {}
    with connection(lake) as duckdb:
        estimates: dict[tuple[date, int], int] = {}
        if few:
            duckdb.register(
                TEXTS, _few_texts(hashed, day, [c if c in few else None for c in described])
            )
            estimates = {(on, place): n for on, place, n in duckdb.execute(ESTIMATED).fetchall()}
        counted: dict[str, dict[date | None, tuple[int, int]]] = {c: {} for c in described}
        for on, f in figures.items():
            for place, c in enumerate(described):
                n = f["rows"] - f[f"nulls {c}"]
                counted[c][on] = (n, estimates.get((on, place), FEW_TEXTS + 1) if on and n else 0)
        return frequent_texts(duckdb, lambda _: f"SELECT day, which, text, n FROM {TEXTS}", counted)


def _few_texts(hashed: "DataFrame", day: str, columns: Sequence[str | None]) -> "pa.Table":
    """Day, place of a column, text, rows and whether one is in the sample, where a day has at most
    `FEW_TEXTS`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    texts = F.array(*(F.expr(quoted(c) if c else "CAST(NULL AS STRING)") for c in columns))
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
