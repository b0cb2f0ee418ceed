"""Timestamps of landed parquet files that are finer than Spark's: converted, and inexact columns named.

Lives here: INT64 nanoseconds (Spark refuses them) and INT96 (Spark reads it, also beyond the years of 64 bits of
nanoseconds, but cuts digits). Does not live here: nanoseconds inside lists and structs (`parquet_files` refuses them),
and the consequences for a column (`mapping`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.landing.parquet_files import WINDOW_ROWS, grouped

NANOS_PER_MICRO = 1_000


def in_microseconds(landed: Path, target: Path) -> tuple[Path, dict[str, str]]:
    """Return the parquet for Spark (`landed`, or `target` in its place) and its inexact columns with reasons."""
    with pq.ParquetFile(landed) as source:
        leaves = [source.schema.column(i) for i in range(len(source.schema))]
        old = [c.path for c in leaves if c.physical_type == "INT96"]
        top = [f.name for f in source.schema_arrow if f.name not in old and _is_nanos(f.type)]
        inexact = _cut_int96(landed, old) if old else {}
        if not top:
            return landed, inexact
        inexact |= _convert(source, target, top)
    landed.unlink()
    return target, inexact


def _is_nanos(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns"


def _convert(source: Any, target: Path, names: Sequence[str]) -> dict[str, str]:
    """Write the rows in the same order, the named columns in microseconds."""
    fields = [pa.field(f.name, pa.timestamp("us", f.type.tz)) if f.name in names else f for f in source.schema_arrow]
    wanted, cut = pa.schema(fields), dict.fromkeys(names, 0)
    partial = target.with_suffix(f".{os.getpid()}.partial")
    with pq.ParquetWriter(partial, wanted) as writer:
        for table in grouped(source):
            for name in names:
                nanos = table.column(name).cast(pa.int64())
                whole = pc.multiply(pc.divide(nanos, NANOS_PER_MICRO), NANOS_PER_MICRO)
                cut[name] += pc.sum(pc.not_equal(nanos, whole)).as_py() or 0
            writer.write_table(table.cast(wanted, safe=False))
    partial.replace(target)
    return _reasons(cut)


def _cut_int96(landed: Path, paths: Sequence[str]) -> dict[str, str]:
    """Read both units and compare: they agree unless digits are cut, even if 64 bits of nanoseconds wrap."""
    top = list(dict.fromkeys(path.split(".")[0] for path in paths))
    cut = dict.fromkeys(top, 0)
    with (
        pq.ParquetFile(landed, coerce_int96_timestamp_unit="us") as micros,
        pq.ParquetFile(landed, coerce_int96_timestamp_unit="ns") as nanos,
    ):
        pairs = zip(
            micros.iter_batches(WINDOW_ROWS, columns=paths, use_threads=False),
            nanos.iter_batches(WINDOW_ROWS, columns=paths, use_threads=False),
            strict=True,
        )
        for coarse, fine in pairs:
            for name in (n for n in top if pa.types.is_timestamp(coarse.schema.field(n).type)):
                whole = pc.multiply(coarse.column(name).cast(pa.int64()), NANOS_PER_MICRO)
                cut[name] += pc.sum(pc.not_equal(fine.column(name).cast(pa.int64()), whole)).as_py() or 0
    return _reasons(cut)


def _reasons(cut: dict[str, int]) -> dict[str, str]:
    why = "of the file has digits below the microsecond, which would be cut off in {} of its rows"
    return {name: why.format(rows) for name, rows in cut.items() if rows}
