"""Conforming a frame to its contract, and its profile per day in one pass of Spark.

Lives here: schema comparison, fingerprints, NULL and duplicate counts, samples of offending keys. Does not live here:
judging them (`core.gates`). A missing column would be written as NULL without a word by Delta, hence the comparison.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.profiles import DayProfile, fingerprint_text
from backfill_assets.core.texts import shortened

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SPARK_NAMES = {"BIGINT": "bigint", "INT": "int", "STRING": "string", "TIMESTAMP": "timestamp", "DATE": "date"}
WIDENING = {("int", "bigint"), ("smallint", "bigint"), ("tinyint", "bigint"), ("smallint", "int"), ("tinyint", "int")}
SALTS = (1, 2)
LOW_HALF = 0xFFFFFFFF
SAMPLE_KEYS = 10
SAMPLE_KEY_CHARS = 200


def conform(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """The frame's columns in the contract's order and types; raises ContractBroken listing every difference.

    Widening of whole numbers is allowed; a missing, an additional or an otherwise typed column is not.
    """
    from pyspark.sql import functions as F

    got = dict(frame.dtypes)
    wanted = {c.name: SPARK_NAMES[c.type] for c in contract.columns}
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


def hash_halves(columns: Sequence[str]) -> "list[Column]":
    """Per row, low and high halves of two salted 64-bit hashes over `columns` and their NULL mask (4 columns)."""
    from pyspark.sql import functions as F

    bits = [F.when(F.col(c).isNull(), F.lit(1 << i)).otherwise(F.lit(0)) for i, c in enumerate(columns)]
    mask = bits[0]
    for bit in bits[1:]:
        mask = mask + bit
    halves = []
    for salt in SALTS:
        hashed = F.xxhash64(F.lit(salt), mask.cast("bigint"), *(F.col(c) for c in columns))
        halves += [hashed.bitwiseAND(F.lit(LOW_HALF)), F.shiftrightunsigned(hashed, 32)]
    return halves


def profile(frame: "DataFrame", contract: Contract) -> Mapping[date | None, DayProfile]:
    """The profile of every day that occurs in a conformed frame (None: rows whose day is NULL). One Spark job."""
    from pyspark.sql import functions as F

    columns = sorted(contract.column_names)
    numbers = [c.name for c in contract.columns if c.type in ("BIGINT", "INT") and c.name not in contract.key]
    keys = [F.col(c) for c in dict.fromkeys((contract.day_column, *contract.key))]
    per_key = frame.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("__rows"),
        *(F.sum(h).alias(f"__half_{i}") for i, h in enumerate(hash_halves(columns))),
        *(F.count_if(F.col(c).isNull()).alias(f"__null_{c}") for c in columns),
        *(F.sum(F.col(c).cast("decimal(20,0)")).alias(f"__sum_{c}") for c in numbers),
    )
    totals = [F.sum("__rows").alias("rows"), F.sum(F.col("__rows") - 1).alias("duplicates")]
    totals += [F.sum(f"__half_{i}").alias(f"half_{i}") for i in range(2 * len(SALTS))]
    totals += [F.sum(f"__null_{c}").alias(f"null_{c}") for c in columns]
    totals += [F.sum(f"__sum_{c}").alias(f"sum_{c}") for c in numbers]
    found = per_key.groupBy(F.col(contract.day_column).alias("day")).agg(*totals).collect()
    return {
        row["day"]: DayProfile(
            rows=row["rows"],
            fingerprint=fingerprint_text([row[f"half_{i}"] for i in range(2 * len(SALTS))]),
            nulls={c: row[f"null_{c}"] for c in columns if row[f"null_{c}"]},
            duplicates=row["duplicates"],
            sums={c: int(row[f"sum_{c}"] or 0) for c in numbers},
        )
        for row in found
    }


def sample_keys(frame: "DataFrame", contract: Contract, day: date | None, rule: str) -> list[str]:
    """Up to ten keys (as text, cut to 200 characters) of the rows of `day` that break `rule`.

    A rule is `unique_key`, `not_null`, else any rows. Keys go into events and alerts: a key of a megabyte must not.
    """
    from pyspark.sql import functions as F

    keys = list(dict.fromkeys(contract.key))
    rows = frame.where(F.col(contract.day_column).eqNullSafe(F.lit(day).cast("date")))
    if rule == "unique_key":
        rows = rows.groupBy(*keys).agg(F.count(F.lit(1)).alias("__rows")).where(F.col("__rows") > 1)
    elif rule == "not_null":
        broken = F.lit(False)
        for column in contract.required_columns:
            broken = broken | F.col(column).isNull()
        rows = rows.where(broken)
    text = F.substring(F.to_json(F.struct(*keys)), 1, SAMPLE_KEY_CHARS + 1)  # cut there: the rest is not fetched
    return [
        shortened(r[0], SAMPLE_KEY_CHARS)
        for r in rows.select(text.alias("key")).orderBy("key").limit(SAMPLE_KEYS).collect()
    ]
