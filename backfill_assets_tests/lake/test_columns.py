"""Types by the names of each engine, and that files of every type fit the contract they were made from.

Tested here: `lake.columns`. Not tested here: values (`test_writing_conform`).
"""

import json
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.core.column_types import PLAIN_KINDS, read_type
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.lake.columns import (
    arrow_type,
    column_types,
    columns_misfit,
    delta_schema,
    file_statistics,
    read_footer,
    type_of_arrow,
)

KINDS = (*PLAIN_KINDS, "DECIMAL(18,2)", *(f"ARRAY<{k}>" for k in PLAIN_KINDS), "ARRAY<DECIMAL(5,5)>")


@pytest.mark.parametrize("kind", KINDS)
def test_a_tables_schema_gives_back_the_type_it_was_made_with(kind: str) -> None:
    schema = delta_schema([Column("x", kind, "x", nullable=True)])
    assert str(column_types(cast(Any, SimpleNamespace(schema=lambda: schema)))["x"]) == kind
    assert str(type_of_arrow(arrow_type(read_type(kind)))) == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_type_fits_its_contract_and_no_other(kind: str) -> None:
    made = Contract("t", "t", (Column("x", kind, "x", nullable=True), Column("d", "DATE", "d")), "d", (), ())
    data = pa.table([pa.array([None], arrow_type(read_type(kind)))], names=["x"])
    sink = BytesIO()
    pq.write_table(data, sink)
    footer = read_footer(sink)
    assert columns_misfit(footer.schema, made) == ""
    other = Column("x", "ARRAY<DATE>" if kind == "STRING" else "STRING", "x", nullable=True)
    assert columns_misfit(footer.schema, Contract("t", "t", (other, made.columns[1]), "d", (), ()))
    assert '"numRecords":1' in file_statistics(footer)


def stats_of(folder: Path, **columns: Any) -> dict[str, Any]:
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=2)
    found: dict[str, Any] = json.loads(file_statistics(read_footer(folder / "x.parquet")))
    return found


def test_rows_and_nulls_of_all_row_groups_are_counted_and_no_value_is_named(tmp_path: Path) -> None:
    """Whatever the values: in a log that is never changed a bound would be an entity's for good."""
    far = pa.array([2**63 - 1, -(2**63), 0, None, 1], pa.int64())
    found = stats_of(
        tmp_path, n=[5, None, -3, 7, None], t=["b", "a", None, "é", "x" * 99], many=[[3, None], None, [], [1], [2]],
        at=far.cast(pa.timestamp("us", "UTC")), day=pa.array([1, 2, 3, 2**31 - 1, 4], pa.int32()).cast(pa.date32()),
    )  # fmt: skip
    assert found == {"numRecords": 5, "nullCount": {"at": 1, "day": 0, "n": 2, "t": 1}}
