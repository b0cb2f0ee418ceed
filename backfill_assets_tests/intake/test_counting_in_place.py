"""Landed Parquet that nobody decoded in advance: what ends the engine, or its query, is refused,
and others are read. Not here: what happens to such files later (`end_to_end.test_in_place`)."""

import io
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.scan import scan_source
from backfill_assets_tests.end_to_end.worlds import (
    encoded,
    in_place,
    land,
    land_bytes,
    make_world,
    span,
)
from backfill_assets_tests.intake.test_limited_decoding import SKEWED
from backfill_assets_tests.oracle import Rules, delivery

pytestmark = [
    pytest.mark.long,
    pytest.mark.on_spark(
        "Sail's rows are numbered by this process, for which a child decodes them"
    ),
]

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-20"), date(2024, 3, 20))


def with_more(column: pa.Array, **how: object) -> bytes:
    """A file of one delivery with a further column."""
    table = pq.read_table(io.BytesIO(encoded("parquet", [delivery(7, "2024-03-05 10:00")])))
    sink = io.BytesIO()
    pq.write_table(table.append_column("more", column), sink, **how)
    return sink.getvalue()


def flipped(content: bytes, value: bytes) -> bytes:
    """The file with a bit of a value flipped."""
    assert content.count(value)
    return content.replace(value, bytes([value[0] ^ 1]) + value[1:])


HOSTILE = {
    "bomb": SKEWED,
    "list": with_more(
        pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), pa.array([False] * 3))
    ),
    "flipped": flipped(
        with_more(
            pa.array(["needle in a page"]),
            write_page_checksum=True,
            use_dictionary=False,
            compression="none",
        ),
        b"needle in a page",
    ),
    "cut": with_more(pa.array(["x"]))[:-9],
    "long": with_more(pa.array(["y" * (3 << 20)]), use_dictionary=False),
}
FIVE = [delivery(n, f"2024-03-06 10:0{n}") for n in range(5)]


def test_what_ends_the_engine_or_its_query_is_refused_by_name_and_no_other(
    spark: object, tmp_path: Path
) -> None:
    world = in_place(make_world(tmp_path, RULES, "parquet"))
    for name, content in HOSTILE.items():
        land_bytes(world, f"{name}.parquet", content)
    table = pq.read_table(io.BytesIO(encoded("parquet", FIVE)))
    pq.write_table(
        table.append_column("%s", pa.array(["x", "y" * (2 << 20), "x", None, "z"])),
        sink := io.BytesIO(),
    )
    land_bytes(world, "one.parquet", sink.getvalue())
    land(world, "good.parquet", [delivery(1, "2024-03-05 10:00")])
    report = scan_source(world.open()[0])
    assert report.new == dict.fromkeys([f"{n}.parquet" for n in HOSTILE], (1, 1)) | {
        "good.parquet": (1, 0),
        "list.parquet": (1, 0),
        "one.parquet": (5, 1),
    }
    why = {name.partition(".")[0]: text for name, text in report.unreadable.items()}
    assert why.keys() == HOSTILE.keys() - {"list"}
    assert "the engine ended over them twice" in why["bomb"]
    assert "FAILED_READ_FILE" in why["flipped"]
    assert "not a whole parquet file" in why["cut"]
    assert "'more' has values of more than the limit" in why["long"]
    world.backfill(span(RULES), "raw")
    assert sorted(row["seq"] for row in world.content("raw")) == [0, 1, 2, 3, 4, 7]
    (kept,) = (row["reason"] for row in world.content("quarantine") if row["row_number"] == 2)
    assert kept == "'%s' has a value of 2097152 bytes, more than the limit of 1048576"
