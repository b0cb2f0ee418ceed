"""Fingerprints as text and as SQL: sums with dots, quoted names, an order of columns that does not matter.

Tested here: `lake.fingerprints`. Not tested here: fingerprints of files that Spark wrote (`test_writing_conform`).
"""

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
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.profiles import SCHEME
from backfill_assets.lake.audit import audit
from backfill_assets.lake.fingerprints import PIECES, bucket, fingerprint_text
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand

sums = st.lists(st.integers(0, 2**90), min_size=PIECES, max_size=PIECES)


def test_the_number_of_the_scheme_belongs_to_how_fingerprints_are_made(tmp_path: Path) -> None:
    """If the fingerprint of these rows moves, raise `core.profiles.SCHEME`: receipts keep those they have."""
    lake = bare_lake(tmp_path)
    rows = [{"entity": e, "value": v, "event_date": day(0)} for e, v in (("A", 1), ("B", None), ("é'|", -7))]
    found = audit(lake, stage_by_hand(lake, STAGING, rows).paths, STAGING)[day(0)]
    assert (SCHEME, found.fingerprint) == (2, "21882129376DC6DB.1BAAA3E82848E7C0")


@given(sums, sums)
def test_different_sums_have_different_texts(one: list[int], other: list[int]) -> None:
    assert (fingerprint_text(one) == fingerprint_text(other)) == (one == other)


EVERY = (
    Column("day", "DATE", "d"), Column("flag", "BOOLEAN", "f"), Column("n", "INT", "n"), Column("x", "DOUBLE", "x"),
    Column("total", "DECIMAL(18,2)", "t"), Column("raw", "BINARY", "r"), Column("tags", "ARRAY<STRING>", "t"),
    Column("sizes", "ARRAY<DOUBLE>", "s"), Column("none", "ARRAY<INT>", "n", nullable=True),
)  # fmt: skip
ROW = {
    "day": date(1970, 1, 3), "flag": True, "n": -7, "x": 1.5, "total": Decimal("-0.50"), "raw": b"\x00\xff",
    "tags": ["é", None, ""], "sizes": [-0.0, float("nan")], "none": None,
}  # fmt: skip


def test_a_row_of_every_type_is_the_text_that_it_is_said_to_be(tmp_path: Path) -> None:
    """Computed here by hand, from the words of the module, in the order of the columns' names."""
    bits = struct.unpack("<q", struct.pack("<d", 1.5))[0]
    text = f"2|true|-7|-|00FF|[0,{0x7FF8000000000000}]|[2:é,-,0:]|-0.5|{bits}"
    digits = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    expected = ".".join(f"{int(digits[i : i + 15], 16):X}" for i in (0, 15))
    made = Contract("t", "t", EVERY, "day", (), ())
    lake = bare_lake(tmp_path)
    assert audit(lake, stage_by_hand(lake, made, [ROW]).paths, made)[date(1970, 1, 3)].fingerprint == expected


FAR_DAYS = (-(2**31), -(2**31) + 1, -(2**31) + 2, -719529, 0, 3663500, 2**31 - 2, 2**31 - 1)
FAR_MOMENTS = (-(2**63), -(2**63) + 1, -(2**63) + 2, -62_200_000_000_000_000, 0, 2**63 - 2, 2**63 - 1)


def test_a_date_or_time_of_any_year_is_its_number_also_those_that_duckdb_takes_for_infinite(tmp_path: Path) -> None:
    """Each pair on a day of its own: the days 0, 1, … since 1970."""
    columns = (Column("day", "DATE", "d"), Column("due", "DATE", "d"), Column("until", "TIMESTAMP", "u"))
    made, lake = Contract("t", "t", columns, "day", (), ()), bare_lake(tmp_path)
    pairs = list(product(FAR_DAYS, FAR_MOMENTS))
    on = [date(1970, 1, 1) + timedelta(days=n) for n in range(len(pairs))]
    staged = stage_by_hand(lake, made, [{"day": d, "due": d, "until": None} for d in on])
    for file, (days, moment) in zip(staged.files, pairs, strict=True):
        due = pa.array([days], pa.int32()).cast(pa.date32())
        until = pa.array([moment], pa.int64()).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"due": due, "until": until}), Path(file.path))
    expected = {d: far_fingerprint(n, *pair) for n, (d, pair) in enumerate(zip(on, pairs, strict=True))}
    assert {d: profile.fingerprint for d, profile in audit(lake, staged.paths, made).items()} == expected


def far_fingerprint(day: int, due: int, until: int) -> str:
    digits = hashlib.md5(f"{day}|{due}|{until}".encode(), usedforsecurity=False).hexdigest()
    return ".".join(f"{int(digits[i : i + 15], 16):X}" for i in (0, 15))


def test_the_scale_of_a_decimal_and_the_width_of_a_whole_number_do_not_show(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    found = set()
    for kind, value in (("INT", 100), ("BIGINT", 100), ("DECIMAL(9,0)", Decimal(100)), ("DECIMAL(38,9)", Decimal(100))):
        made = Contract("t", "t", (Column("day", "DATE", "d"), Column("v", kind, "v")), "day", (), ())
        staged = stage_by_hand(lake, made, [{"day": day(0), "v": value}])
        found.add(audit(lake, staged.paths, made)[day(0)].fingerprint)
    assert len(found) == 1


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
def test_the_bucket_of_a_number_is_how_many_bits_its_whole_part_has(
    kind: str, value: str, expected: int | None
) -> None:
    column = Column("n", kind, "a number", nullable=True)
    query = f"SELECT {bucket(column)} FROM (SELECT CAST({value} AS {kind}) AS n)"
    assert duckdb.execute(query).fetchall() == [(expected,)]
