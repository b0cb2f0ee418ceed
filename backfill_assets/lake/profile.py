"""Conforming a frame to its contract, and choosing who audits what was staged.

Lives here: schema comparison, the same figures as `audit` by Spark. Does not live here: judging them
(`lake.gates`). A missing column would be written as NULL without a word by Delta, hence the comparison.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.readings import Sets
from backfill_assets.engine.confs import SAIL
from backfill_assets.lake.audit import audit
from backfill_assets.lake.fingerprints import (
    PIECES,
    Dialect,
    bucket,
    fingerprint_text,
    part_hashes,
    part_texts,
    pieces,
    row_hash,
)
from backfill_assets.lake.rules import breaking, breaking_groups
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.type_names import spark_name
from backfill_assets.lake.writing import read_staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WIDENING = {("int", "bigint"), ("smallint", "bigint"), ("tinyint", "bigint"), ("smallint", "int"), ("tinyint", "int")}
AUDIT_BYTES = 8 * 2**30  # of compressed Parquet; the embedded engine reads some hundred MB a second


def conform(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """The frame's columns in the contract's order and types; raises ContractBroken listing every difference.

    Widening of whole numbers is allowed; a missing, an additional or an otherwise typed column is not.
    """
    from pyspark.sql import functions as F

    got = dict(frame.dtypes)
    wanted = {c.name: spark_name(c.kind) for c in contract.columns}
    differences = [f"column {n} is missing" for n in wanted if n not in got]
    differences += [f"column {n} is not in the contract" for n in got if n not in wanted]
    differences += [
        f"column {n} is {got[n]}, not {t}"
        for n, t in wanted.items()
        if n in got and got[n] != t and (got[n], t) not in WIDENING
    ]
    if differences:
        raise ContractBroken(
            f"the table {contract.name}",
            "; ".join(differences),
            "Nothing was written",
            "Correct the transform or its contract, then run again",
        )
    return frame.select(*(F.col(n).cast(t).alias(n) for n, t in wanted.items()))


def audited(
    lake_session: LakeSession,
    contract: Contract,
    staged: Staged,
    parts: Sets | None = None,
    most_bytes: int = AUDIT_BYTES,
) -> Mapping[date | None, DayProfile]:
    """The profile of every day of the staged files: by the embedded engine, by Spark what is too large. `parts`: sets
    of columns whose fingerprints are taken, too.

    Sail is no cluster: it has no more memory than the embedded engine, which spills, and no bits of a DOUBLE.
    """
    if staged.size <= most_bytes or lake_session.engine.engine == SAIL:
        return audit(lake_session.lake, staged.paths, contract, parts)
    return profile(read_staged(lake_session.spark(), contract, staged), contract, parts)


def profile(frame: "DataFrame", contract: Contract, parts: Sets | None = None) -> Mapping[date | None, DayProfile]:
    """The profile of every day that occurs in a conformed frame (None: rows whose day is NULL), equal to `audit`'s.

    Figures per day come from one aggregation per day, repeated keys from a narrow one of their own.
    """
    from pyspark.sql import functions as F

    columns, day = contract.column_names, F.col(contract.day_column)
    numbers = contract.summed_columns
    wide = "decimal(38,0)"
    hashes = part_hashes(contract, parts or {}, Dialect.SPARK) | {"__md5": row_hash(contract.columns, Dialect.SPARK)}
    hashed = frame.withColumns({name: F.expr(text) for name, text in hashes.items()})
    figures = [F.count(F.lit(1)).alias("rows")]
    for name in hashes:
        summed = enumerate(pieces(name, Dialect.SPARK))
        figures += [F.sum(F.expr(p).cast(wide)).alias(f"{name}_piece_{i}") for i, p in summed]
    figures += [F.count_if(F.col(c).isNull()).alias(f"null_{c}") for c in columns]
    scales = {c: contract.column(c).kind.scale for c in numbers}
    figures += [F.sum(F.col(c).cast(f"decimal(38,{s})")).alias(f"sum_{c}") for c, s in scales.items()]
    broken = breaking(contract, Dialect.SPARK)
    figures += [F.count_if(F.expr(b)).alias(f"breaks_{name}") for name, b in broken.items()]
    found = hashed.groupBy(day.alias("day")).agg(*figures).collect()
    keys = [F.col(c) for c in dict.fromkeys((contract.day_column, *contract.key))]
    per_key = frame.groupBy(*keys).agg((F.count(F.lit(1)) - 1).alias("__more")).where("__more > 0")
    repeated = {r["day"]: r["n"] for r in per_key.groupBy(day.alias("day")).agg(F.sum("__more").alias("n")).collect()}
    groups = {rule: _broken_groups(frame, *how) for rule, how in breaking_groups(contract, Dialect.SPARK).items()}
    histograms = _histograms(frame, contract)
    return {
        row["day"]: DayProfile(
            rows=row["rows"],
            fingerprint=fingerprint_text([int(row[f"__md5_piece_{i}"]) for i in range(PIECES)]),
            nulls={c: row[f"null_{c}"] for c in columns if row[f"null_{c}"]},
            duplicates=repeated.get(row["day"], 0),
            sums={c: (row[f"sum_{c}"] or 0) if s else int(row[f"sum_{c}"] or 0) for c, s in scales.items()},
            broken={name: row[f"breaks_{name}"] for name in broken if row[f"breaks_{name}"]}
            | {rule: days[row["day"]] for rule, days in groups.items() if row["day"] in days},
            histograms=histograms.get(row["day"], {}),
            parts=part_texts(
                tuple(parts or {}),
                [row[f"__part_{n}_piece_{i}"] for n in range(len(parts or {})) for i in range(PIECES)],
            ),
        )
        for row in found
    }


def _broken_groups(frame: "DataFrame", columns: Sequence[str], broken: str) -> dict[date | None, int]:
    """Per day, the first of the columns, how many groups break a rule."""
    from pyspark.sql import functions as F

    found = frame.groupBy(*columns).agg(F.expr(broken).alias("__broken")).where("__broken")
    days = found.groupBy(F.col(columns[0]).alias("__day")).agg(F.count(F.lit(1)).alias("n"))
    return {r["__day"]: r["n"] for r in days.collect()}


def _histograms(frame: "DataFrame", contract: Contract) -> dict[date | None, dict[str, dict[int, int]]]:
    """Per day and measured column the rows by bucket: a grouping of its own, as wide as the days have buckets."""
    from pyspark.sql import functions as F

    measured = contract.measured_columns
    if not measured:
        return {}
    pairs = ", ".join(f"'{c}', {bucket(contract.column(c), Dialect.SPARK)}" for c in measured)
    stacked = frame.select(
        F.col(contract.day_column).alias("__day"), F.expr(f"stack({len(measured)}, {pairs}) AS (__column, __bucket)")
    )
    counted = stacked.where("__bucket IS NOT NULL").groupBy("__day", "__column", "__bucket").count().collect()
    found: dict[date | None, dict[str, dict[int, int]]] = {}
    for row in counted:
        found.setdefault(row["__day"], {}).setdefault(row["__column"], {})[row["__bucket"]] = row["count"]
    return found
