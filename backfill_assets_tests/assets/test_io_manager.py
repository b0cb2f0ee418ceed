"""Days that assets of a project return: written as days of a lake's own tables are, or refused with
nothing written.

Tested here: `LakeIOManager` over whole runs, without an engine. Not tested here: the forms of rows
and inputs (`test_inputs.py`, `assets/test_given_rows.py`), what projects do (`test_idioms.py`),
checks (`test_daily.py`), and Spark (`end_to_end`).
"""

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from backfill_assets.cli.findings import Level
from backfill_assets.dagster import lake_checks
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.core.days import parse_days
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.reading.opening import open_lake
from backfill_assets.upkeep.doctor import VerifyRequest, verify_tables
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

FIRST, LAST = "2024-01-01", "2024-01-10"


def versions(lake: Path, table: str) -> int:
    return open_lake(lake, newest=True).table(table).pinned().version or 0


def states(lake: Path, table: str) -> dict[str, str]:
    from backfill_assets.kernel.tables.view import read_view

    reader = open_lake(lake, newest=True)
    known = reader.pipeline.states(read_view(reader.lake, reader.pipeline.contracts))
    return {str(d): known.of(table, d).value for d in known.view.table(table).latest}


def test_a_lake_in_a_bucket_takes_what_assets_return_and_gives_it_to_other_machines(
    bucket_address: str,
    deliveries: Deliveries,
    instance: dg.DagsterInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Path(bucket_address)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "one"))
    result = materialize(lake, [orders_asset(deliveries), weekly_asset()], FIRST, instance=instance)
    assert cause(result) == ""
    found = rows(lake, "shop__orders")
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "another"))
    assert rows(lake, "shop__orders") == found != []
    assert states(lake, "weekly") == {FIRST: "fresh"}


OTHER_COLUMNS: dict[str, tuple[Callable[[pa.Table], Any], str]] = {
    "a column is missing": (lambda t: t.drop(["amount"]), "they lack amount"),
    "no column is left but the day": (
        lambda t: t.select(["day"]),
        "they lack id, they lack amount",
    ),
    "None": (lambda _: None, "it returned None in place of rows"),
    "a list": (lambda _: [1, 2], "it is no table of rows"),
}


@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_what_is_no_row_is_refused_by_name(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance, name: str
) -> None:
    materialize(lake, [orders_asset(deliveries)], FIRST, instance=instance)
    before = rows(lake, "shop__orders")
    change, words = OTHER_COLUMNS[name]
    result = materialize(lake, [orders_asset(deliveries, change)], FIRST, instance=instance)
    assert words in cause(result)
    assert "Nothing was written" in cause(result)
    assert rows(lake, "shop__orders") == before


def test_two_runs_of_a_day_end_with_the_newest_inputs(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders = orders_asset(deliveries)
    materialize(lake, [orders, weekly_asset()], FIRST, instance=instance)

    @dg.asset(
        name="weekly",
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
        metadata={"partition_expr": "day"},
        code_version="1",
        ins={"orders": dg.AssetIn(key=["shop", "orders"])},
    )
    def overtaken(orders: pa.Table) -> pa.Table:
        deliveries.by_day[FIRST] = [("a", 100)]
        materialize(lake, [orders_asset(deliveries), weekly_asset()], FIRST, instance=instance)
        return pa.table(
            {
                "day": orders["day"][:1],
                "total": pa.array([6]),
                "orders": pa.array([orders.num_rows]),
            }
        )

    result = materialize(lake, [orders, overtaken], FIRST, instance=instance)
    assert "were written by another run from newer inputs" in cause(result)
    assert rows(lake, "weekly")[0][1:] == (100, 1)


def test_a_refused_write_leaves_the_contract(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders = orders_asset(deliveries)
    lake_checks(orders, unique=["id"])
    deliveries.by_day[FIRST] = [("a", 1), ("a", 2)]
    assert not materialize(lake, [orders], FIRST, instance=instance).success
    assert open_lake(lake).tables == ()
    deliveries.by_day[FIRST] = [("a", 1)]
    assert materialize(lake, [orders], FIRST, instance=instance).success
    wider = orders_asset(deliveries, lambda t: t.append_column("more", pa.array([1] * t.num_rows)))
    lake_checks(wider, unique=["id"])
    deliveries.by_day[FIRST] = [("a", 1), ("a", 2)]
    assert not materialize(lake, [wider], FIRST, instance=instance, schema_changes="evolve").success
    assert states(lake, "shop__orders") == {FIRST: "fresh"}


WIDER = {
    "more digits": (
        pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        pa.array([Decimal("123456.25")], pa.decimal128(8, 2)),
        "DECIMAL(8,2)",
    ),
    "more bits": (pa.array([1], pa.int32()), pa.array([1 << 40]), "BIGINT"),
    "lists of more bits": (
        pa.array([[1]], pa.list_(pa.int32())),
        pa.array([[1 << 40]], pa.list_(pa.int64())),
        "ARRAY<BIGINT>",
    ),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_column_gets_the_wider_type_that_rows_bring_where_a_table_may_evolve(
    lake: Path, instance: dg.DagsterInstance, name: str
) -> None:
    narrow, wide, kind = WIDER[name]
    given: dict[str, Any] = {}

    @dg.asset(partitions_def=DAYS, backfill_policy=ONE_RUN, code_version="1")
    def measured(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": [date.fromisoformat(context.partition_key)], **given})

    def run(day: str, changes: str = "evolve", **columns: pa.Array) -> str:
        given.update(columns)
        return cause(materialize(lake, [measured], day, instance=instance, schema_changes=changes))

    assert run(FIRST, n=narrow, text=pa.array(["x"])) == ""
    assert 'schema_changes="evolve"' in run("2024-01-02", "refuse", n=wide, text=pa.nulls(1))
    assert run("2024-01-02") == ""
    assert run("2024-01-03", "refuse", n=narrow) == "", "it fits"
    days = [date(2024, 1, n) for n in (1, 2, 3)]
    assert rows(lake, "measured") == [
        (day, n[0].as_py(), text)
        for day, n, text in zip(days, (narrow, wide, narrow), ("x", None, None), strict=True)
    ]
    assert open_lake(lake).table("measured").contract.column("n").type == kind
    assert states(lake, "measured") == {
        FIRST: "outdated",
        "2024-01-02": "fresh",
        "2024-01-03": "fresh",
    }
    asked, reader = VerifyRequest(deep=True), open_lake(lake)
    assert [
        d
        for d in verify_tables(reader.lake, reader.pipeline.contracts, asked)
        if d.level is not Level.OK
    ] == []


@pytest.mark.parametrize("name", WIDER)
def test_a_day_of_the_narrower_type_is_put_back_and_kept_in_a_snapshot(
    lake: Path, instance: dg.DagsterInstance, name: str
) -> None:
    rollback = pytest.importorskip("backfill_assets.plans.rollback")
    snapshots = pytest.importorskip("backfill_assets.candidates.snapshots")
    narrow, wide, _ = WIDER[name]

    def run(rows: pa.Array) -> str:
        @dg.asset(partitions_def=DAYS, backfill_policy=ONE_RUN, code_version="1")
        def measured() -> pa.Table:
            return pa.table({"day": [date(2024, 1, 1)], "n": rows})

        made = materialize(lake, [measured], FIRST, instance=instance, schema_changes="evolve")
        return cause(made)

    assert [run(narrow), run(wide)] == ["", ""]
    opened, days = open_lake(lake), parse_days(FIRST)
    asked = rollback.RollbackRequest(table="measured", days=days, to_version=1)
    assert rollback.roll_back(opened.lake, opened.pipeline, asked, Provenance("")).is_done
    wanted = snapshots.SnapshotRequest("kept", unfit="take")
    snapshots.create_snapshot(opened.lake, opened.pipeline, wanted)
    kept = open_lake(lake).snapshot("kept").table("measured").arrow().to_pylist()
    assert kept == [{"day": date(2024, 1, 1), "n": narrow[0].as_py()}]
    assert rows(lake, "measured") == [(date(2024, 1, 1), narrow[0].as_py())]


def test_an_input_not_loaded_is_in_no_receipt(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders = orders_asset(deliveries)

    @dg.asset(
        deps=[orders],
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
        metadata={"partition_expr": "day"},
    )
    def by_itself() -> pa.Table:
        return pa.table({"day": [date(2024, 1, 1)], "n": [1]})

    assert materialize(lake, [orders, by_itself], FIRST, instance=instance).success
    (commit,) = (
        c
        for c in read_lake(lake).store.commits("by_itself")
        if c.receipt is not None and c.receipt.days
    )
    assert commit.receipt is not None
    assert dict(commit.receipt.inputs) == {}
    assert commit.receipt.tags["not pinned"] == "shop/orders"


def test_outputs_of_a_step_share_their_inputs(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders = orders_asset(deliveries)
    out = dg.AssetOut(metadata={"partition_expr": "day"})

    @dg.multi_asset(
        outs={"one": out, "two": out},
        ins={"orders": dg.AssetIn(key=orders.key)},
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
    )
    def both(orders: pa.Table) -> Iterator[dg.Output[pa.Table]]:
        sums = pa.table({"day": orders["day"][:1], "rows": [orders.num_rows]})
        yield dg.Output(sums, output_name="one")
        deliveries.by_day[FIRST] = [("a", 100)]
        materialize(lake, [orders_asset(deliveries)], FIRST, instance=instance)
        yield dg.Output(sums, output_name="two")

    assert materialize(lake, [orders, both], FIRST, instance=instance).success
    assert states(lake, "one") == states(lake, "two") == {FIRST: "stale"}


def test_days_that_the_partitions_leave_out_are_no_part_of_a_range(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    workdays = dg.DailyPartitionsDefinition(FIRST, exclusions=["0 0 * * 6,0"])

    @dg.asset(partitions_def=workdays, backfill_policy=ONE_RUN, metadata={"partition_expr": "day"})
    def traded(context: dg.AssetExecutionContext) -> pa.Table:
        days = [date.fromisoformat(key) for key in context.partition_keys]
        return pa.table({"day": days, "n": [1] * len(days)})

    result = materialize(lake, [traded], "2024-01-04", "2024-01-09", instance=instance)
    assert result.success, cause(result)
    assert [str(day) for day, _ in rows(lake, "traded")] == [
        "2024-01-04",
        "2024-01-05",
        "2024-01-08",
        "2024-01-09",
    ]


def test_an_error_after_the_commit_says_so(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    def refuse(entry: dg.EventLogEntry) -> None:
        if entry.dagster_event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            raise OSError("the storage is away")

    def heard_by_nobody(rows: pa.Table) -> pa.Table:
        step = dg.AssetExecutionContext.get()
        step.instance.add_event_listener(step.run.run_id, refuse)
        return rows

    first, orders = orders_asset(deliveries, heard_by_nobody), orders_asset(deliveries)
    for asset in (first, orders):
        lake_checks(asset, unique=["id"])
    told = cause(materialize(lake, [first], FIRST, "2024-01-02", instance=instance))
    assert "2024-01-01..2024-01-02 are committed (version 1)" in told
    assert "OSError: the storage is away" in told
    assert not instance.get_materialized_partitions(orders.key)
    before = versions(lake, "shop__orders")
    assert before == 1
    assert materialize(lake, [orders], FIRST, "2024-01-02", instance=instance).success
    assert instance.get_materialized_partitions(orders.key) == {FIRST, "2024-01-02"}
    assert versions(lake, "shop__orders") == before
