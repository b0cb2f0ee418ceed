"""What a step reads and writes is its own: of graphs, by several IO managers of a lake, and of its
own day before.

Tested here: `LakeIOManager` where one function or op makes several assets, and where several
managers serve one step. Not tested here: how days are written (`test_io_manager.py`), forms of
inputs (`test_inputs.py`).
"""

import json
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from backfill_assets.dagster import LakeIOManager, lake_checks
from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.assets.projects import (
    DAYS,
    ONE_RUN,
    Deliveries,
    cause,
    materialize,
    orders_asset,
    rows,
    weekly_asset,
)
from backfill_assets_tests.assets.test_io_manager import states
from backfill_assets_tests.engine_choice import SparkSession

FIRST, NEXT = "2024-01-01", "2024-01-02"
WORDS: dict[str, Any] = {
    "partitions_def": DAYS,
    "backfill_policy": ONE_RUN,
    "metadata": {"partition_expr": "day"},
}


def counted(keys: Sequence[str], n: int) -> pa.Table:
    return pa.table({"day": [date.fromisoformat(key) for key in keys], "n": [n] * len(keys)})


def numbers(n: int, **words: Any) -> dg.AssetsDefinition:
    """An asset with the number `n` for each day."""

    def made(context: dg.AssetExecutionContext) -> pa.Table:
        return counted(context.partition_keys, n)

    return asset_of(made, **{"name": "numbers", **words})


def asset_of(function: Callable[..., Any], **words: Any) -> dg.AssetsDefinition:
    made: dg.AssetsDefinition = dg.asset(**{"code_version": "1", **WORDS, **words})(function)
    return made


@dg.op
def double(given: pa.Table) -> pa.Table:
    return given.set_column(1, "n", pc.multiply(given["n"], 2))


@dg.op
def pass_on(given: pa.Table) -> pa.Table:
    return given


@dg.graph_asset(ins={"numbers": dg.AssetIn()}, **WORDS)
def twofold(numbers: Any) -> Any:
    return double(numbers)


@dg.graph_asset(ins={"twofold": dg.AssetIn()}, **WORDS)
def fourfold(twofold: Any) -> Any:
    return double(twofold)


def test_graphs_of_one_op_each_read_what_the_run_wrote_before(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    for n in (1, 10):
        result = materialize(lake, [numbers(n), twofold, fourfold], FIRST, NEXT, instance=instance)
        assert result.success, cause(result)
        assert [found for _, found in rows(lake, "fourfold")] == [4 * n, 4 * n]


def test_an_op_whose_output_is_no_asset_is_told_to_have_another_manager(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    @dg.graph_asset(ins={"numbers": dg.AssetIn()}, **WORDS)
    def twice(numbers: Any) -> Any:
        return double(pass_on(numbers))

    told = cause(materialize(lake, [numbers(1), twice], FIRST, instance=instance))
    assert (
        "the op twice.pass_on: what it returns goes to another op, and is no asset. Nothing was "
        "written" in told
    )


def test_managers_of_one_lake_share_what_a_step_read(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    def copied(numbers: pa.Table) -> pa.Table:
        return numbers

    evolving = LakeIOManager(lake=str(lake), schema_changes="evolve")
    resources = {"io_manager": LakeIOManager(lake=str(lake)), "evolving": evolving}
    result = dg.materialize(
        [numbers(1), asset_of(copied, io_manager_key="evolving")],
        partition_key=FIRST,
        instance=instance,
        resources=resources,
    )
    assert result.success
    assert materialize(lake, [numbers(2)], FIRST, instance=instance).success
    assert states(lake, "copied") == {FIRST: "stale"}


def test_keys_that_give_one_name_are_not_one_table(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    eu, flat = (
        numbers(n, key=key, name=None) for n, key in ((1, ["eu", "sold"]), (2, ["eu__sold"]))
    )
    assert materialize(lake, [eu], FIRST, instance=instance).success
    told = cause(materialize(lake, [flat], FIRST, instance=instance))
    assert (
        "the asset eu__sold: its table eu__sold is that of the asset eu/sold. Nothing was written"
        in told
    )
    assert [n for _, n in rows(lake, "eu__sold")] == [1]
    assert told.endswith('say so in .assets/eu__sold.json of the lake: "asset": ["eu__sold"].')
    known = lake / ".assets" / "eu__sold.json"
    known.write_text(json.dumps({**json.loads(known.read_text()), "asset": ["eu__sold"]}))
    assert materialize(lake, [flat], FIRST, instance=instance).success, "it was renamed"
    assert [n for _, n in rows(lake, "eu__sold")] == [2]


def test_days_before_a_first_day_that_was_moved_later_stay_as_they_were(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    later = dg.DailyPartitionsDefinition(NEXT)
    assert materialize(lake, [numbers(1)], FIRST, NEXT, instance=instance).success
    assert materialize(lake, [numbers(2, partitions_def=later)], NEXT, instance=instance).success
    assert rows(lake, "numbers") == [(date(2024, 1, 1), 1), (date(2024, 1, 2), 2)]
    assert states(lake, "numbers") == {FIRST: "fresh", NEXT: "fresh"}


YESTERDAY = dg.AssetIn(
    partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
)


def sums(annotated: Any, count: Any) -> dg.AssetsDefinition:
    """An asset that adds one to its own number of the day before."""

    def sums(context: dg.AssetExecutionContext, sums: Any) -> pa.Table:
        return counted([context.partition_key], 1 + count(sums))

    sums.__annotations__["sums"] = annotated
    return asset_of(sums, ins={"sums": YESTERDAY}, backfill_policy=dg.BackfillPolicy.multi_run(1))


def run_each_day(
    lake: Path, asset: dg.AssetsDefinition, instance: dg.DagsterInstance, **settings: Any
) -> list[int]:
    for day in (FIRST, NEXT, "2024-01-03"):
        result = materialize(lake, [asset], day, instance=instance, **settings)
        assert result.success, cause(result)
    return [n for _, n in rows(lake, "sums")]


@pytest.mark.parametrize(
    ("annotated", "count"),
    [
        (pd.DataFrame, lambda t: t["n"].sum() if len(t) else 0),
        (pa.Table, lambda t: t["n"][0].as_py() if len(t) else 0),
    ],
)
def test_an_asset_reads_its_own_day_before_and_no_rows_on_its_first(
    lake: Path, instance: dg.DagsterInstance, annotated: Any, count: Any
) -> None:
    assert run_each_day(lake, sums(annotated, count), instance) == [1, 2, 3]
    assert states(lake, "sums") == dict.fromkeys((FIRST, NEXT, "2024-01-03"), "fresh")


def test_a_frame_of_spark_has_no_rows_on_the_first_day(
    spark: SparkSession, lake: Path, instance: dg.DagsterInstance
) -> None:
    asset = sums(Any, lambda t: sum(row[1] for row in t.collect()))
    assert run_each_day(lake, asset, instance, spark=spark) == [1, 2, 3]


def test_a_day_before_that_was_never_made_is_refused_where_nothing_was(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    materialize(lake, [numbers(1)], FIRST, instance=instance)
    told = cause(materialize(lake, [sums(pd.DataFrame, len)], NEXT, instance=instance))
    assert (
        f"the input sums: the lake {lake} has no {FIRST} of it. Nothing was read. First materialize"
        in told
    )


@pytest.mark.parametrize(
    ("tags", "made"),
    [({}, []), ({"on_bad_days": "keep_good"}, [FIRST, NEXT])],
    ids=["as it is", "keep_good"],
)
def test_a_range_to_which_dagster_added_days_makes_those_whose_inputs_are_made_by_a_tag(
    lake: Path, instance: dg.DagsterInstance, tags: dict[str, str], made: list[str]
) -> None:
    """A backfill of two days of both assets from the lineage page runs `weekly` for eight, as
    `WEEK` reaches."""
    orders, weekly = orders_asset(Deliveries()), weekly_asset()
    materialize(lake, [orders], FIRST, NEXT, instance=instance)
    asked = {RANGE_START: FIRST, RANGE_END: "2024-01-08", **tags}
    result = dg.materialize(
        [orders, weekly],
        selection=[weekly],
        tags=asked,
        instance=instance,
        resources={"io_manager": LakeIOManager(lake=str(lake))},
        raise_on_error=False,
    )
    assert not result.success
    reached = "2024-01-03..2024-01-08"
    assert f"shop__orders for {reached}, which were never made" in cause(result), (
        "of all days, not of the first alone"
    )
    if made:
        assert f"inputs of 6 of 8 day(s) are missing, {reached}: it is made from" in cause(result)
    assert sorted(instance.get_materialized_partitions(weekly.key)) == made


def test_rules_are_of_one_asset_where_a_function_makes_several(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    def made(context: dg.AssetExecutionContext) -> pa.Table:
        return counted([*context.partition_keys] * 2, 7)

    strict, free = (asset_of(made, name=name) for name in ("strict", "free"))
    checks = lake_checks(strict, unique=["n"])
    result = materialize(lake, [strict, free, *checks], FIRST, instance=instance)
    assert "unique_key" in cause(result)
    assert materialize(lake, [free], FIRST, instance=instance).success
    assert len(rows(lake, "free")) == 2


def test_checks_of_several_assets_or_of_a_graph_are_refused_by_name() -> None:
    both = dg.multi_asset(name="both", outs={"one": dg.AssetOut(), "two": dg.AssetOut()})(
        lambda: (1, 2)
    )
    for asset, keys in ((twofold, "twofold"), (both, "one, two")):
        with pytest.raises(
            SettingsError, match=f"the asset {keys}: it is a graph of ops, or several assets"
        ):
            lake_checks(asset, unique=["n"])
