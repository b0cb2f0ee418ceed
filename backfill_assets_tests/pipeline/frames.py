"""Frames: the way from the oracle's Arrow tables into Spark and back, and the comparison. Here:
zones at the border (zone-less means UTC), what of an input a contract asks for, and a comparison
that names the smallest case which differs. Not here: what the right answer is (`oracle`)."""

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets_tests.pipeline.worlds import World

if TYPE_CHECKING:  # as in `built_in`
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]
SHOWN_ROWS = 5


def to_spark(spark: "SparkSession", table: Any, partitions: int = 2) -> "DataFrame":
    """An Arrow table as a frame of so many partitions; its zone-less times are UTC."""
    zoned = pa.schema(
        [
            pa.field(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type)
            for f in table.schema
        ]
    )
    return spark.createDataFrame(table.cast(zoned)).repartition(partitions)


def in_parts(world: World, build: Callable[[DayRange], "DataFrame"]) -> "DataFrame":
    """The days of the world, each computed in the range of the world that it belongs to."""
    return reduce(lambda one, other: one.unionAll(other), map(build, world.parts))


def without_zone(table: Any) -> Any:
    """An Arrow table whose times, which must be UTC, have lost their zone."""
    zones = {f.type.tz for f in table.schema if pa.types.is_timestamp(f.type)}
    if not zones <= {None, "UTC"}:
        raise AssertionError(f"times in the zones {zones}")
    plain = [
        f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(plain))


def rows_of(table: Any) -> list[Row]:
    """The rows of an Arrow table, sorted, NULLs first; times without their zone."""
    columns = [column.to_pylist() for column in without_zone(table).columns]
    return sorted(
        zip(*columns, strict=True), key=lambda row: [(cell is not None, cell) for cell in row]
    )


def assert_shaped(frame: "DataFrame", contract: Contract) -> None:
    """The frame has exactly the contract's columns, in its order and with its types."""
    assert [(f.name, f.dataType.simpleString().upper()) for f in frame.schema] == [
        (c.name, c.type) for c in contract.columns
    ]


def assert_same(
    found: "DataFrame", wanted: Any, contract: Contract, world: World | None = None
) -> None:
    """The frame has the contract's shape and exactly the rows of `wanted` (Arrow), each as often as
    there."""
    assert_shaped(found, contract)
    there, here = rows_of(wanted), rows_of(found.toArrow())
    if there == here:
        return
    lost, strange = _without(there, here), _without(here, there)
    said = [
        f"{contract.name} {contract.column_names}: {len(lost)} rows lacking, {len(strange)} that "
        "do not belong"
    ]
    if world is not None:
        said += _smallest_case(lost + strange, world)
    raise AssertionError(
        "\n".join([*said, *_listed("lacking", lost), *_listed("not belonging", strange)])
    )


def _without(rows: list[Row], others: list[Row]) -> list[Row]:
    left = list(others)
    kept = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            kept.append(row)
    return kept


def _listed(title: str, rows: list[Row]) -> list[str]:
    return [f"{title}: {row}" for row in rows[:SHOWN_ROWS]]


def _smallest_case(different: list[Row], world: World) -> list[str]:
    cases = {str(row[0]).split("/")[0] for row in different}
    case = min(cases, key=lambda c: (len(world.of_case(c)), c))
    shown = [f"  {row}" for row in different if str(row[0]).split("/")[0] == case]
    return [
        f"{world.rules} in {[str(p) for p in world.parts]}, case {case}:",
        *map(str, world.of_case(case)),
        *shown,
    ]
