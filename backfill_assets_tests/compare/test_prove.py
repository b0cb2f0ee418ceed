"""Days computed again in another order: honest transforms give the same rows, those that depend on
more than their inputs do not.
Not here: transforms that are refused before they run (`engines.test_steadiness`), and
another engine (`test_prove_check_engine`)."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.compare.prove import ProofRequest, prove_written_days
from backfill_assets.kernel.core.contracts import Column, Contract, Input
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Table, make_pipeline
from backfill_assets.pipeline.tables import tables as built_in
from backfill_assets_tests.lakes import backfill, delivery, land, make_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do
OWN = Contract(
    "own",
    "Events per day and a number of its own.",
    (
        Column("event_date", "DATE", "d"),
        Column("events", "BIGINT", "n"),
        Column("number", "BIGINT", "x"),
    ),
    "event_date",
    ("event_date",),
    (Input("staging"),),
)
# Stands for what a library reads by itself: two builds in a row give the same plan.
FACTOR: dict[str, int] = {"of all": 1}
NUMBERS: Mapping[str, Callable[[], int]] = {
    "a constant": lambda: 7,
    "another module": lambda: FACTOR["of all"],
}
DAYS = [f"2024-03-0{n}" for n in (1, 2, 3)]
ROWS = [delivery(n, f"{d}T10:00:00Z", f"{d}T09:00:00Z", f"e{n}") for n, d in enumerate(DAYS)]


def own(number: str, frames: "Mapping[str, DataFrame]", chunk: Chunk) -> "DataFrame":
    from pyspark.sql import functions as F

    counted = frames["staging"].groupBy("event_date").agg(F.count("*").alias("events"))
    return counted.withColumn("number", F.lit(NUMBERS[number]()).cast("bigint"))


def tables_of(number: str) -> Callable[[LakeSettings], tuple[Table, ...]]:
    return lambda settings: (
        *built_in(settings)[:2],
        Table(OWN, partial(own, number), {"number": number}, (sys.modules[__name__],)),
    )


@pytest.fixture
def lake(spark: "SparkSession", tmp_path: Path) -> Lake:
    return make_lake(tmp_path / "lake", ROWS, DAYS[0])


def test_tables_that_depend_on_their_inputs_alone_are_proven(lake: Lake) -> None:
    tables = tables_of("a constant")
    backfill(lake, DAYS[0], DAYS[-1], tables_of=tables)
    pipeline = make_pipeline(tables(lake.settings))
    before = {t: lake.store.view(t, "event_date").version for t in ("staging", "own")}
    proof = prove_written_days(lake, pipeline, ProofRequest())
    assert (proof.compared, proof.differing, proof.refused) == (9, 0, ())
    assert {v.table: len(v.days) for v in proof.verdicts} == {"raw": 3, "staging": 3, "own": 3}
    assert {t: lake.store.view(t, "event_date").version for t in before} == before


def test_a_table_that_depends_on_more_than_its_inputs_is_named_with_day_and_column(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tables_of("another module")
    backfill(lake, DAYS[0], DAYS[-1], tables_of=tables)
    monkeypatch.setitem(FACTOR, "of all", 2)
    proof = prove_written_days(
        lake, make_pipeline(tables(lake.settings)), ProofRequest(tables=("own",), random=2)
    )
    [verdict] = proof.verdicts
    assert (verdict.table, proof.compared, proof.differing) == ("own", 2, 2)
    assert all(d.columns == {"number": 1} for d in verdict.differing)


OURS = (
    "backfill_assets.kernel.core.days",
)  # no plan of ours is looked at for such a dependence, only the proof finds it


def tied(frames: "Mapping[str, DataFrame]", chunk: Chunk) -> "DataFrame":
    """Of the events of a day the number of any one: the order in which they are read decides."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = F.row_number().over(Window.partitionBy("event_date").orderBy("event_date"))
    placed = frames["staging"].withColumn("place", place)
    number = F.max(F.when(F.col("place") == 1, F.col("value"))).alias("number")
    return placed.groupBy("event_date").agg(F.count("*").alias("events"), number)


def test_a_dependence_on_the_order_of_rows_is_named(lake: Lake) -> None:
    many = [
        delivery(100 + n, f"{DAYS[0]}T11:00:00Z", f"{DAYS[0]}T09:00:00Z", f"m{n}", value=n)
        for n in range(40)
    ]
    land(lake, "many.jsonl", many)

    def tables(settings: LakeSettings) -> tuple[Table, ...]:
        return (*built_in(settings)[:2], Table(OWN, tied, {}, OURS, code_version="tied 1"))

    backfill(lake, DAYS[0], DAYS[0], tables_of=tables)
    proof = prove_written_days(
        lake, make_pipeline(tables(lake.settings)), ProofRequest(tables=("own",))
    )
    assert (proof.compared, proof.differing) == (1, 1)
    assert [d.columns for v in proof.verdicts for d in v.differing] == [{"number": 1}]
