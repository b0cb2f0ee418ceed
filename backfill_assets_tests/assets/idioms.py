"""What projects do with an IO manager of Delta tables, as 27 cases that any such manager can be put
to. Here: the cases; each raises Wrong where something else happens. Not here: the project
(`any_manager.py`)."""

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa

from backfill_assets_tests.assets.any_manager import (
    FIRST,
    LAST,
    Make,
    World,
    daily,
    days,
    expect,
    reader,
)


def a_month_in_one_run_is_one_commit(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], FIRST, LAST)
    expect(w.amounts("orders") == dict.fromkeys(days(31), 6), "its rows are not there")
    commits = len(
        [
            c
            for c in w.table("orders").history()
            if c.get("operation") in ("WRITE", "CREATE OR REPLACE TABLE")
        ]
    )
    expect(commits == 1, f"{commits} commits")


def one_day_of_a_range_made_again_leaves_the_others(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(5)[-1])
    w.bad["2024-01-03"] = [("a", 70)]
    w.must_run([w.orders(annotated=pa.Table)], "2024-01-03")
    expect(
        w.amounts("orders") == {**dict.fromkeys(days(5), 6), "2024-01-03": 70},
        f"{w.amounts('orders')}",
    )


def equal_rows_write_nothing(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(5)[-1])
    before = w.table("orders").version()
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(5)[-1])
    expect(w.table("orders").version() == before, "every day is written again")


def a_day_of_a_range_without_rows_is_cleared(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(3)[-1])
    w.bad["2024-01-02"] = []
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(3)[-1])
    expect("2024-01-02" not in w.amounts("orders"), "its old rows stay")


def a_single_day_without_rows_is_cleared(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(3)[-1])
    w.bad["2024-01-02"] = []
    w.must_run([w.orders(annotated=pa.Table)], "2024-01-02")
    expect("2024-01-02" not in w.amounts("orders"), "its old rows stay")


def a_first_run_without_rows_makes_an_empty_table(w: World) -> None:
    w.bad[FIRST] = []
    w.must_run([w.orders(annotated=pa.Table)], FIRST)
    expect(w.rows("orders") == [], "it has rows")


def refused(w: World, make: Make, annotated: Any = pa.Table, first: str = FIRST) -> None:
    """Rows that a table of three good days does not take: nothing is written, and the run says
    why."""
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(3)[-1])
    before = w.rows("orders")
    cause = w.run([w.orders(make, annotated=annotated)], first)
    expect(
        w.rows("orders") == before,
        "the table changed" + (f", and the run fails: {cause}" if cause else ""),
    )
    expect(bool(cause), "nothing is written, and the run succeeds")


def a_row_of_another_day_is_refused(w: World) -> None:
    refused(w, lambda _: w.rows_of(["2024-01-01", "2024-01-09"]))


def a_row_of_another_day_is_refused_in_the_first_run_too(w: World) -> None:
    cause = w.run(
        [w.orders(lambda _: w.rows_of(["2024-01-01", "2024-01-09"]), annotated=pa.Table)], FIRST
    )
    expect(bool(cause), "it is written")


def a_row_without_a_day_is_refused(w: World) -> None:
    refused(
        w,
        lambda t: t.set_column(0, "day", pa.array([None, *t["day"].to_pylist()[1:]], pa.date32())),
    )


def a_new_column_is_refused_by_default(w: World) -> None:
    refused(w, lambda t: t.append_column("more", pa.array([1] * t.num_rows)))


def a_column_of_another_type_is_refused(w: World) -> None:
    refused(w, lambda t: t.set_column(2, "amount", pa.array(["x"] * t.num_rows)))


def a_new_column_comes_where_it_may(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(3)[-1])
    wider = w.orders(
        lambda t: t.append_column("more", pa.array([1] * t.num_rows)), annotated=pa.Table
    )
    w.must_run([wider], "2024-01-02", io_manager=w.manager(w.folder, evolving=True))
    expect(
        w.amounts("orders") == dict.fromkeys(days(3), 6),
        f"days are lost: {sorted(w.amounts('orders'))}",
    )


def a_day_whose_function_fails_keeps_its_rows(w: World) -> None:
    def fails(_: pa.Table) -> pa.Table:
        raise ValueError("no rows today")

    refused(w, fails)


def a_day_that_fails_a_check_keeps_its_rows(w: World) -> None:
    orders = w.orders(annotated=pa.Table)
    w.must_run([orders], FIRST, days(3)[-1])
    w.bad["2024-01-02"] = [("a", 1), ("a", 2)]
    cause = w.run([orders], "2024-01-02", checks=w.checks(orders))
    expect(w.amounts("orders") == dict.fromkeys(days(3), 6), "readers see the bad rows")
    expect(bool(cause), "the run succeeds")


def an_upstream_of_spark_is_read_by_pandas(w: World) -> None:
    session = w.spark()
    expect(session is not None, "no type handler for frames of Spark")
    w.must_run(
        [w.orders(lambda t: session.createDataFrame(t)), reader(pd.DataFrame)], FIRST, days(3)[-1]
    )
    expect(w.amounts("taken") == dict.fromkeys(days(3), 6), f"{w.amounts('taken')}")


def an_upstream_of_arrow_is_read_by_pandas(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table), reader(pd.DataFrame)], FIRST, days(3)[-1])
    expect(w.amounts("taken") == dict.fromkeys(days(3), 6), f"{w.amounts('taken')}")


def an_upstream_of_pandas_is_read_by_polars(w: World) -> None:
    frame_type = import_module("polars").DataFrame  # which the tests of most machines do not have
    orders = w.orders(lambda t: t.to_pandas(), annotated=pd.DataFrame)
    w.must_run(
        [orders, reader(frame_type, take=lambda frame: frame.to_dicts())], FIRST, days(3)[-1]
    )
    expect(w.amounts("taken") == dict.fromkeys(days(3), 6), f"{w.amounts('taken')}")


def a_window_of_seven_days_is_read(w: World) -> None:
    w.must_run(
        [w.orders(annotated=pa.Table), reader(pa.Table, -6, lambda t: t.to_pylist())],
        FIRST,
        days(9)[-1],
    )
    wanted = [6 * min(n + 1, 7) for n in range(9)]
    expect(w.amounts("taken") == dict(zip(days(9), wanted, strict=True)), f"{w.amounts('taken')}")


def two_inputs_have_a_mapping_each(w: World) -> None:
    def both(context: dg.AssetExecutionContext, orders: pa.Table, others: pa.Table) -> pa.Table:
        keys = [date.fromisoformat(k) for k in context.partition_keys]
        return pa.table(
            {"day": keys, "amount": [orders.num_rows * 100 + others.num_rows] * len(keys)}
        )

    def others(context: dg.AssetExecutionContext) -> Any:
        return w.rows_of(context.partition_keys)

    yesterday = dg.TimeWindowPartitionMapping(start_offset=-1)
    ins = {"orders": dg.AssetIn(partition_mapping=yesterday), "others": dg.AssetIn()}
    upstream = [w.orders(annotated=pa.Table), daily(others, pa.Table)]
    w.must_run(upstream, FIRST, days(3)[-1])
    w.must_run([*upstream, daily(both, pa.Table, ins=ins)], "2024-01-03")
    expect(w.amounts("both") == {"2024-01-03": 603}, f"{w.amounts('both')}")


def an_asset_without_days_reads_all_days(w: World) -> None:
    @dg.asset(io_manager_key="values")
    def total(orders: pd.DataFrame) -> int:
        return int(orders["amount"].sum())

    keys = {"io_manager": w.manager(w.folder), "values": dg.mem_io_manager}
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(3)[-1], **keys)
    defs = dg.Definitions([w.orders(annotated=pa.Table), total], resources=keys)
    job = dg.define_asset_job("total_job", selection="total")
    merged = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    result = merged.resolve_job_def("total_job").execute_in_process(
        instance=w.instance, raise_on_error=False
    )
    expect(result.success, "the run fails")
    expect(result.output_for_node("total") % 6 == 0, "it is not the sum of whole days")


def the_day_is_the_column_that_partition_expr_names(w: World) -> None:
    sold = w.orders(
        lambda t: t.append_column("made", t["day"]).rename_columns(["sold", "id", "amount", "day"]),
        annotated=pa.Table,
        metadata={"partition_expr": "sold"},
    )
    w.must_run([sold], FIRST, days(3)[-1])
    w.must_run([sold], "2024-01-02")
    expect(w.amounts("orders") == dict.fromkeys(days(3), 6), f"{w.amounts('orders')}")


def a_day_as_a_timestamp_stays_a_day(w: World) -> None:
    stamped = w.orders(
        lambda t: t.set_column(0, "day", t["day"].cast(pa.timestamp("us"))), annotated=pa.Table
    )
    w.must_run([stamped], FIRST, days(3)[-1])
    w.bad["2024-01-02"] = [("a", 70)]
    w.must_run([stamped], "2024-01-02")
    expect(
        w.amounts("orders") == {**dict.fromkeys(days(3), 6), "2024-01-02": 70},
        f"{w.amounts('orders')}",
    )


def another_manager_is_the_default(w: World) -> None:
    keys = {"io_manager": dg.mem_io_manager, "lake": w.manager(w.folder)}
    w.must_run([w.orders(annotated=pa.Table, io_manager_key="lake")], FIRST, days(3)[-1], **keys)
    expect(w.amounts("orders") == dict.fromkeys(days(3), 6), f"{w.amounts('orders')}")


def a_key_with_a_prefix_has_a_table_of_its_own(w: World) -> None:
    eu, us = (w.orders(annotated=pa.Table, key_prefix=["shop", place]) for place in ("eu", "us"))
    w.must_run([eu], FIRST, days(3)[-1])
    w.must_run([us], FIRST)
    found = w.amounts("shop", "eu", "orders"), w.amounts("shop", "us", "orders")
    expect(found == (dict.fromkeys(days(3), 6), {FIRST: 6}), f"{found}")


def nulls_stay_nulls(w: World) -> None:
    w.bad[FIRST] = [(None, None), ("b", None), (None, 3)]
    w.must_run([w.orders(annotated=pa.Table)], FIRST, days(2)[-1])
    rows = w.table("orders").to_pyarrow_table().to_pylist()
    found = [(r["id"], r["amount"]) for r in rows if str(r["day"]) == FIRST]
    expect(sorted(map(str, found)) == sorted(map(str, w.bad[FIRST])), f"{found}")


def wide_types_come_back_equal(w: World) -> None:
    at = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    values = {
        "big": pa.array([2**63 - 1]),
        "money": pa.array([Decimal("12345678901234567.89")], pa.decimal128(38, 2)),
        "at": pa.array([at], pa.timestamp("us", "UTC")),
        "raw": pa.array([b"\x00x"]),
        "f": pa.array([0.1]),
        "texts": pa.array([["é", None]]),
        "flag": pa.array([True]),
    }
    wide = w.orders(lambda t: pa.table({"day": t["day"][:1], **values}), annotated=pa.Table)
    w.must_run([wide], FIRST)
    (found,) = w.table("orders").to_pyarrow_table().to_pylist()
    wanted = {name: array.to_pylist()[0] for name, array in values.items()}
    expect(
        {n: found[n] for n in wanted} == wanted,
        f"{ {n: found[n] for n in wanted if found[n] != wanted[n]} }",
    )


def two_runs_at_once_on_other_days_both_stay(w: World) -> None:
    w.must_run([w.orders(annotated=pa.Table)], "2024-01-10")
    both, causes = threading.Barrier(2), list[str]()

    def together(rows: pa.Table) -> pa.Table:
        both.wait(60)
        return rows

    def one(day: str) -> None:
        causes.append(w.run([w.orders(together, annotated=pa.Table)], day))

    threads = [threading.Thread(target=one, args=[day]) for day in (FIRST, "2024-01-02")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not any(causes), f"{max(causes)}")
    expect(
        w.amounts("orders") == dict.fromkeys([*days(2), "2024-01-10"], 6), f"{w.amounts('orders')}"
    )


CASES: dict[str, Callable[[World], None]] = {
    case.__name__.replace("_", " "): case
    for case in (
        a_month_in_one_run_is_one_commit,
        one_day_of_a_range_made_again_leaves_the_others,
        equal_rows_write_nothing,
        a_day_of_a_range_without_rows_is_cleared,
        a_single_day_without_rows_is_cleared,
        a_first_run_without_rows_makes_an_empty_table,
        a_row_of_another_day_is_refused,
        a_row_of_another_day_is_refused_in_the_first_run_too,
        a_row_without_a_day_is_refused,
        a_new_column_is_refused_by_default,
        a_column_of_another_type_is_refused,
        a_new_column_comes_where_it_may,
        a_day_whose_function_fails_keeps_its_rows,
        a_day_that_fails_a_check_keeps_its_rows,
        an_upstream_of_spark_is_read_by_pandas,
        an_upstream_of_arrow_is_read_by_pandas,
        an_upstream_of_pandas_is_read_by_polars,
        a_window_of_seven_days_is_read,
        two_inputs_have_a_mapping_each,
        an_asset_without_days_reads_all_days,
        the_day_is_the_column_that_partition_expr_names,
        a_day_as_a_timestamp_stays_a_day,
        another_manager_is_the_default,
        a_key_with_a_prefix_has_a_table_of_its_own,
        nulls_stay_nulls,
        wide_types_come_back_equal,
        two_runs_at_once_on_other_days_both_stay,
    )
}
