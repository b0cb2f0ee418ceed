"""Rows that depend on the order of their inputs are found by Spark itself, at the first write by
their code. Not here: dependence on other days, chance (`test_computing`), functions refused by name
(`engines.test_frames`)."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from backfill_assets.kernel.core.errors import OTHER_ROWS_AGAIN, ContractBroken
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets_tests.lakes import SUMS, backfill, delivery, make_lake, toy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.on_spark(
    "an order of rows is the engine's own; Sail refuses such expressions by a list"
)

DAY = "2024-03-01"
ROWS = 40
# Each order of so unequal numbers rounds otherwise.
SPREAD = "pow(10.0D, value % 17) * IF(value % 2 = 0, 1, -1)"
UNSTEADY = {
    "any of a group": "first(value)",
    "who ties": "max_by(value, value % 2)",
    "a sum of doubles": f"sum({SPREAD})",
    "a slope": f"regr_slope({SPREAD}, ln(value))",
}
STEADY = {
    "a sum": "sum(value)",
    "a sorted list": "xxhash64(sort_array(collect_list(value)))",
    "the value of the newest key": "max_by(value, event_key)",
    "a sum of decimals": "CAST(sum(CAST(sqrt(value) AS DECIMAL(18, 6))) AS DOUBLE)",
    "a first that all have": "datediff(first(event_date), DATE '2024-01-01')",
}
QUERIES_UNSTEADY = {
    "the newest by a time that ties": (
        "SELECT event_date, value AS total FROM (SELECT *, row_number() OVER "
        "(PARTITION BY event_date ORDER BY value % 2) AS n FROM {rows}) WHERE n = 1"
    ),
    "a running sum by rows": (
        "SELECT event_date, s AS total FROM (SELECT *, sum(value) OVER "
        "(PARTITION BY event_date ORDER BY value % 2 ROWS UNBOUNDED PRECEDING) AS s FROM {rows}) "
        "WHERE event_key = 'k21'"
    ),
    "one of those that a join gives": (
        "SELECT event_date, first(r.value) AS total FROM {rows} r JOIN {rows} s USING (event_key, "
        "event_date) "
        "GROUP BY event_date"
    ),
    "a limit of rows that tie": "SELECT event_date, value AS total FROM {rows} ORDER BY value % 2 "
    "LIMIT "
    "1",
}


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    rows = [delivery(n, f"{DAY} 10:00:00", None, f"k{n:02}", value=n) for n in range(1, ROWS + 1)]
    made = make_lake(tmp_path_factory.mktemp("ties"), rows, DAY)
    backfill(made, DAY, DAY, ["raw", "echo"], toy())
    return made


@pytest.fixture(autouse=True)
def _unwritten(lake: Lake) -> Iterator[None]:
    yield
    if lake.store.exists("sums"):
        lake.table_place("sums").local().rename(lake.root / f"aside_{uuid4().hex}")


def query(text: str, frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """The rows of a query over echo."""
    return frames["echo"].sparkSession.sql(text, rows=frames["echo"])


def write(lake: Lake, text: str, kind: str = "DOUBLE") -> None:
    columns = tuple(replace(c, type=kind) if c.name == "total" else c for c in SUMS.columns)

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        contract = replace(SUMS, columns=columns)
        return (
            *toy()(settings)[:2],
            Table(contract, partial(query, text), {"text": text}, (sys.modules[__name__],)),
        )

    backfill(lake, DAY, DAY, ["sums"], tables_of)


def grouped(expression: str) -> str:
    return (
        f"SELECT event_date, CAST({expression} AS DOUBLE) AS total FROM {{rows}} GROUP BY "
        "event_date"
    )


@pytest.mark.parametrize("case", [*UNSTEADY, *QUERIES_UNSTEADY])
def test_what_depends_on_the_order_of_rows_writes_nothing(lake: Lake, case: str) -> None:
    text, kind = (
        (grouped(UNSTEADY[case]), "DOUBLE")
        if case in UNSTEADY
        else (QUERIES_UNSTEADY[case], "BIGINT")
    )
    with pytest.raises(
        ContractBroken, match=rf"{DAY} {OTHER_ROWS_AGAIN}: 0 added, 0 removed, 1 changed, in total"
    ):
        write(lake, text, kind)
    assert not lake.store.exists("sums")


@pytest.mark.parametrize("case", STEADY)
def test_what_an_order_decides_in_full_is_written(lake: Lake, case: str) -> None:
    write(lake, grouped(STEADY[case]))
    assert lake.store.exists("sums")
