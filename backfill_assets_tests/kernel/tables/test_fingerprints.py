"""Fingerprints as text and as SQL: sums with dots, quoted names, an order of columns that does not
matter. Not here: fingerprints of files that Spark wrote (`test_frame_files_conform`)."""

import hashlib
import struct
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.profiles import SCHEME
from backfill_assets.kernel.tables.fingerprints import number_bucket
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand


def test_the_number_of_the_scheme_belongs_to_how_fingerprints_are_made(lake: Lake) -> None:
    """If the fingerprint of these rows moves, raise `kernel.core.profiles.SCHEME`: receipts keep
    those they have."""
    rows = [
        {"entity": e, "value": v, "event_date": day(0)}
        for e, v in (("A", 1), ("B", None), ("é'|", -7))
    ]
    found = audit_files(lake, stage_by_hand(lake, STAGING, rows).paths, STAGING)[day(0)]
    assert (SCHEME, found.fingerprint) == (2, "21882129376DC6DB.1BAAA3E82848E7C0")


EVERY = (
    Column("day", "DATE", "d"),
    Column("flag", "BOOLEAN", "f"),
    Column("n", "INT", "n"),
    Column("x", "DOUBLE", "x"),
    Column("total", "DECIMAL(18,2)", "t"),
    Column("raw", "BINARY", "r"),
    Column("tags", "ARRAY<STRING>", "t"),
    Column("sizes", "ARRAY<DOUBLE>", "s"),
    Column("none", "ARRAY<INT>", "n", nullable=True),
)
ROW = {
    "day": date(1970, 1, 3),
    "flag": True,
    "n": -7,
    "x": 1.5,
    "total": Decimal("-0.50"),
    "raw": b"\x00\xff",
    "tags": ["é", None, ""],
    "sizes": [-0.0, float("nan")],
    "none": None,
}


def test_a_row_of_every_type_is_the_text_that_it_is_said_to_be(tmp_path: Path) -> None:
    """Computed here by hand, from the words of the module, in the order of the columns' names."""
    bits = struct.unpack("<q", struct.pack("<d", 1.5))[0]
    text = f"2|true|-7|-|00FF|[0,{0x7FF8000000000000}]|[2:é,-,0:]|-0.5|{bits}"
    made, lake = Contract("t", "t", EVERY, "day", (), ()), bare_lake(tmp_path)
    assert audit_files(lake, stage_by_hand(lake, made, [ROW]).paths, made)[
        date(1970, 1, 3)
    ].fingerprint == hashed(text)


FAR_DAYS = (-(2**31), -(2**31) + 1, -(2**31) + 2, -719529, 0, 3663500, 2**31 - 2, 2**31 - 1)
FAR_MOMENTS = (
    -(2**63),
    -(2**63) + 1,
    -(2**63) + 2,
    -62_200_000_000_000_000,
    0,
    2**63 - 2,
    2**63 - 1,
)


def test_a_date_or_time_of_any_year_is_its_number_also_those_that_duckdb_takes_for_infinite(
    tmp_path: Path,
) -> None:
    """Each pair on a day of its own: the days 0, 1, … since 1970."""
    columns = (
        Column("day", "DATE", "d"),
        Column("due", "DATE", "d"),
        Column("until", "TIMESTAMP", "u"),
    )
    made, lake = Contract("t", "t", columns, "day", (), ()), bare_lake(tmp_path)
    pairs = list(product(FAR_DAYS, FAR_MOMENTS))
    on = [date(1970, 1, 1) + timedelta(days=n) for n in range(len(pairs))]
    staged = stage_by_hand(lake, made, [{"day": d, "due": d, "until": None} for d in on])
    for file, (days, moment) in zip(staged.files, pairs, strict=True):
        due = pa.array([days], pa.int32()).cast(pa.date32())
        until = pa.array([moment], pa.int64()).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"due": due, "until": until}), Path(file.path))
    expected = {
        d: hashed(f"{n}|{due}|{until}")
        for n, (d, (due, until)) in enumerate(zip(on, pairs, strict=True))
    }
    assert {
        d: profile.fingerprint for d, profile in audit_files(lake, staged.paths, made).items()
    } == expected


def hashed(text: str) -> str:
    digits = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return ".".join(f"{int(digits[i : i + 15], 16):X}" for i in (0, 15))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("BIGINT", "0", 0),
        ("BIGINT", "7", 3),
        ("BIGINT", "-8", -4),
        ("BIGINT", "-9223372036854775808", -64),
        ("BIGINT", "NULL", None),
        ("BOOLEAN", "true", 1),
        ("DECIMAL(9,2)", "3.99", 2),
        ("DOUBLE", "-0.5", 0),
        ("DOUBLE", "'NaN'", None),
        ("DOUBLE", "'inf'", 63),
    ],
)
def test_the_bucket_of_a_number_counts_bits_of_its_whole_part(
    kind: str, value: str, expected: int | None
) -> None:
    column = Column("n", kind, "a number", nullable=True)
    query = f"SELECT {number_bucket(column)} FROM (SELECT CAST({value} AS {kind}) AS n)"
    assert duckdb.execute(query).fetchall() == [(expected,)]
