"""One odd parquet file beside a good one: the scan refuses it by name, and records the good one.
Not here: what each part of the intake says of such a file (`test_landed_rows`)."""

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.scan import scan_source
from backfill_assets_tests.end_to_end.worlds import World, land, land_bytes, make_world
from backfill_assets_tests.oracle import Rules, delivery

pytestmark = pytest.mark.users_do

RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-20"), date(2024, 3, 20))
FAR = pa.array([9_000_000_000_000_000_000], pa.int64()).view(pa.timestamp("ms"))
NEAR = pa.array([1], pa.timestamp("ms"))


def _listed(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


# A further column, in the file before or not, and whether the file is read for all of it.
ODD: dict[str, tuple[Callable[[], pa.Array], bool]] = {
    "milliseconds beyond microseconds": (lambda: FAR, False),
    "such in a list": (lambda: _listed(FAR), False),
    "milliseconds in a struct": (lambda: pa.StructArray.from_arrays([NEAR], ["at"]), True),
    "a list of two million": (
        lambda: _listed(pa.array([False]).take(pa.array([0] * 2_000_000))),
        False,
    ),
}


def _with(world: World, name: str, column: pa.Array) -> None:
    path = land(world, name, [delivery(7, "2024-03-05 10:00")])
    table = pq.read_table(path).append_column("more", column)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    land_bytes(world, name, sink.getvalue().to_pybytes())


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_stops_nothing_else(spark: object, tmp_path: Path, kind: str) -> None:
    made, is_read = ODD[kind]
    world = make_world(tmp_path, RULES, "parquet")
    _with(world, "alike.parquet", NEAR)
    _with(world, "odd.parquet", made())
    land(world, "good.parquet", [delivery(1, "2024-03-05 10:00")])
    report = scan_source(world.open()[0])
    assert report.new == {
        "alike.parquet": (1, 0),
        "good.parquet": (1, 0),
        "odd.parquet": (1, 0 if is_read else 1),
    }
    assert list(report.unreadable) == ([] if is_read else ["odd.parquet"])
