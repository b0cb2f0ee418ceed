"""Tables that others write, as assets that a project's daily assets read.

Tested here: `foreign.in_dagster` and the IO manager over it, by runs in this process. Not tested here:
which days a look finds (`foreign/test_observing.py`), and conditions in a daemon (`test_stale.py`).
"""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets import Input
from backfill_assets.dagster import daily_table, external_table, is_stale
from backfill_assets.foreign.external import ExternalTable
from backfill_assets.foreign.in_dagster import observe_external
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.attention import sensor_alarms
from backfill_assets_tests.assets.projects import cause, materialize, rows

D1, D2, D3 = (date(2024, 3, n) for n in (1, 2, 3))


def orders(*rows_: tuple[date, str, int]) -> pa.Table:
    days, ids, amounts = zip(*rows_, strict=True)
    return pa.table(
        {"order_date": pa.array(days, pa.date32()), "id": list(ids), "amount": list(amounts)}
    )


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_deltalake(
        tmp_path / "orders",
        orders((D1, "a", 1), (D2, "b", 2), (D3, "c", 4)),
        partition_by="order_date",
    )
    return tmp_path / "orders"


@pytest.fixture
def project(place: Path) -> list[Any]:
    """A table of others, and what a project makes of two days of it."""

    @daily_table(inputs=[Input("erp/orders", before=1)], day="day", start="2024-03-01")
    def sums(context: dg.AssetExecutionContext, orders: pa.Table) -> pa.Table:
        found = []
        for key in context.partition_keys:
            day = date.fromisoformat(key)
            read = [
                r["amount"] for r in orders.to_pylist() if 0 <= (day - r["order_date"]).days <= 1
            ]
            found.append({"day": day, "total": sum(read)})
        return pa.Table.from_pylist(
            found, schema=pa.schema([("day", pa.date32()), ("total", pa.int64())])
        )

    return [external_table("erp/orders", table=place, day="order_date", start="2024-03-01"), sums]


def stale_days(lake: Path) -> list[str]:
    return [*map(str, stale(lake, "sums"))]


def condition(lake: Path, assets: Sequence[Any], instance: dg.DagsterInstance) -> None:
    """One tick of `is_stale` for the assets."""
    given = [
        a.map_asset_specs(lambda s: s.replace_attributes(automation_condition=is_stale(lake)))
        for a in assets[1:]
    ]
    dg.evaluate_automation_conditions(dg.Definitions(assets=[assets[0], *given]), instance)


def test_a_step_reads_it_by_days_and_its_receipt_names_the_version(
    lake: Path, place: Path, project: list[Any], instance: dg.DagsterInstance
) -> None:
    result = materialize(lake, project, "2024-03-01", "2024-03-03", instance=instance)
    assert result.success, cause(result)
    assert rows(lake, "sums") == [(D1, 1), (D2, 3), (D3, 6)]
    store = read_lake(lake).store
    (write,) = [
        c.receipt for c in store.commits("sums") if c.receipt is not None and c.receipt.days
    ]
    assert write.inputs == {"erp__orders": store.head("erp__orders")}
    seen = store.receipt("erp__orders", store.head("erp__orders"))
    assert seen is not None
    assert (
        seen.tags["external"]
        == f"version 0 of {DeltaTable(place).metadata().id} in {place}, days from 2024-03-01"
    )


def test_each_changed_day_is_observed_once_and_what_was_made_from_it_is_stale(
    lake: Path, place: Path, project: list[Any], instance: dg.DagsterInstance
) -> None:
    key = dg.AssetKey(["erp", "orders"])
    materialize(lake, project, "2024-03-01", "2024-03-03", instance=instance)
    DeltaTable(place).update(updates={"amount": "7"}, predicate="id = 'b'")
    condition(lake, project, instance)
    assert stale_days(lake) == ["2024-03-02", "2024-03-03"]
    assert materialize(lake, project, "2024-03-02", "2024-03-03", instance=instance).success
    assert rows(lake, "sums") == [(D1, 1), (D2, 8), (D3, 11)]
    assert stale_days(lake) == []
    records = instance.fetch_observations(key, limit=10).records
    assert sorted(str(r.partition_key) for r in records) == [
        "2024-03-01",
        "2024-03-02",
        "2024-03-02",
        "2024-03-03",
    ]


def test_an_asset_of_its_key_is_refused_by_name(
    lake: Path, place: Path, project: list[Any], instance: dg.DagsterInstance
) -> None:
    assert materialize(lake, project, "2024-03-02", instance=instance).success
    own = daily_table(name="orders", key_prefix="erp", day="order_date", start="2024-03-01")(
        lambda: orders((D2, "b", 5))
    )
    told = cause(materialize(lake, [own], "2024-03-02", instance=instance))
    assert (
        f"the asset erp/orders: its table erp__orders is one that others write, at {place}. "
        "Nothing was written" in told
    )


def test_an_unreadable_one_is_kept_for_status(
    lake: Path, tmp_path: Path, place: Path, project: list[Any], instance: dg.DagsterInstance
) -> None:
    materialize(lake, project, "2024-03-01", instance=instance)
    (place / "_delta_log").rename(tmp_path / "log")
    condition(lake, project, instance)
    (line,) = sensor_alarms(lake)
    assert f"no Delta table lies in {place}" in line
    result = materialize(lake, project, "2024-03-02", instance=instance)
    assert f"external table erp__orders: no Delta table lies in {place}" in cause(result)


def test_an_unreadable_one_stops_no_other_step(
    lake: Path, tmp_path: Path, place: Path, project: list[Any], instance: dg.DagsterInstance
) -> None:
    elsewhere = tmp_path / "orders_eu"
    write_deltalake(elsewhere, orders((D1, "a", 1)))
    external = external_table(
        "erp/orders_eu", table=elsewhere, day="order_date", start="2024-03-01"
    )
    observe_external(
        lake,
        ExternalTable(
            "erp__orders_eu", str(elsewhere), "order_date", made_by="erp/orders_eu", first_day=D1
        ),
    )
    (elsewhere / "_delta_log").rename(tmp_path / "log")
    result = materialize(lake, [external, *project], "2024-03-01", "2024-03-02", instance=instance)
    assert result.success, cause(result)


def test_a_name_of_the_lake_is_refused(
    lake: Path, place: Path, project: list[Any], instance: dg.DagsterInstance
) -> None:
    materialize(lake, project, "2024-03-01", instance=instance)

    @daily_table(inputs=[Input("sums")], day="day", start="2024-03-01")
    def more(sums: pa.Table) -> pa.Table:
        return sums

    spec = external_table("sums", table=place, day="order_date", start="2024-03-01")
    assert "has a table sums of its own" in cause(
        materialize(lake, [spec, more], "2024-03-01", instance=instance)
    )


JANUARY, FEBRUARY, MARCH = (date(2024, n, 1) for n in (1, 2, 3))


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    """Somebody's table of months."""
    write_deltalake(
        tmp_path / "rates",
        orders((JANUARY, "eur", 1), (FEBRUARY, "eur", 2), (MARCH, "eur", 4)),
        partition_by="order_date",
    )
    return tmp_path / "rates"


@pytest.fixture
def priced(rates: Path) -> list[Any]:
    """That table, and what a project makes of it: by day, by quarter, and by month and the one
    before."""

    def schema(name: str) -> pa.Schema:
        return pa.schema([(name, pa.date32()), ("total", pa.int64())])

    @daily_table(inputs={"rates": Input("bank/rates")}, day="day", start="2024-01-01")
    def daily(context: dg.AssetExecutionContext, rates: pa.Table) -> pa.Table:
        known = {r["order_date"]: r["amount"] for r in rates.to_pylist()}
        days = [*map(date.fromisoformat, context.partition_keys)]
        found = [{"day": d, "total": known[d.replace(day=1)]} for d in days]
        return pa.Table.from_pylist(found, schema=schema("day"))

    @daily_table(inputs=[Input("bank/rates")], day="day", start="2024-01-01", every="quarter")
    def quarterly(rates: pa.Table) -> pa.Table:
        total = sum(rates["amount"].to_pylist())
        return pa.Table.from_pylist([{"day": JANUARY, "total": total}], schema=schema("day"))

    @daily_table(
        inputs=[Input("bank/rates", before=1)], day="day", start="2024-01-01", every="month"
    )
    def pairs(context: dg.AssetExecutionContext, rates: pa.Table) -> pa.Table:
        found = []
        known = {r["order_date"]: r["amount"] for r in rates.to_pylist()}
        for month in map(date.fromisoformat, context.partition_keys):
            before = (month - timedelta(days=1)).replace(day=1)
            found.append({"day": month, "total": known[month] + known.get(before, 0)})
        return pa.Table.from_pylist(found, schema=schema("day"))

    external = external_table(
        "bank/rates", table=rates, day="order_date", start="2024-01-01", every="month"
    )
    return [external, daily, quarterly, pairs]


def make_priced(
    lake: Path, priced: Sequence[Any], name: str, *days: str, instance: dg.DagsterInstance
) -> None:
    """One run over days of one of the assets over somebody's months."""
    (asset,) = [a for a in priced[1:] if a.key.path == [name]]
    result = materialize(lake, [priced[0], asset], *days, instance=instance)
    assert result.success, cause(result)


def stale(lake: Path, table: str) -> list[date]:
    pipeline = chosen_pipeline(opened := read_lake(lake))
    states = pipeline.states(read_view(opened, pipeline.contracts))
    found = states.view.table(table).latest
    return sorted(d for d in found if states.of(table, d) is State.STALE)


def test_a_corrected_month_of_others_makes_exactly_its_readers_stale(
    lake: Path, rates: Path, priced: list[Any], instance: dg.DagsterInstance
) -> None:
    make_priced(lake, priced, "daily", "2024-01-30", "2024-03-02", instance=instance)
    make_priced(lake, priced, "quarterly", "2024-01-01", instance=instance)
    make_priced(lake, priced, "pairs", "2024-01-01", "2024-03-01", instance=instance)
    assert rows(lake, "pairs") == [(JANUARY, 1), (FEBRUARY, 3), (MARCH, 6)]
    assert rows(lake, "quarterly") == [(JANUARY, 7)]
    assert rows(lake, "daily")[0] == (date(2024, 1, 30), 1)
    DeltaTable(rates).optimize.compact()
    DeltaTable(rates).update(updates={"amount": "9"}, predicate="order_date = '2024-02-01'")
    condition(lake, priced, instance)
    assert stale(lake, "daily") == [*inclusive_range(FEBRUARY, date(2024, 2, 29))]
    assert stale(lake, "quarterly") == [JANUARY]
    assert stale(lake, "pairs") == [FEBRUARY, MARCH]
    make_priced(lake, priced, "daily", "2024-02-01", "2024-02-29", instance=instance)
    make_priced(lake, priced, "quarterly", "2024-01-01", instance=instance)
    make_priced(lake, priced, "pairs", "2024-02-01", "2024-03-01", instance=instance)
    assert [*map(stale, [lake] * 3, ("daily", "quarterly", "pairs"))] == [[], [], []]
    assert rows(lake, "pairs") == [(JANUARY, 1), (FEBRUARY, 10), (MARCH, 13)]
    seen = instance.fetch_observations(dg.AssetKey(["bank", "rates"]), limit=10).records
    assert sorted(str(r.partition_key) for r in seen) == [
        "2024-01-01",
        "2024-02-01",
        "2024-02-01",
        "2024-03-01",
    ]


def test_a_row_within_a_month_of_others_is_refused_with_the_way_out(
    lake: Path, rates: Path, priced: list[Any], instance: dg.DagsterInstance
) -> None:
    write_deltalake(rates, orders((D2, "usd", 5)), mode="append")
    told = cause(materialize(lake, priced[:2], "2024-03-01", instance=instance))
    assert "rows of 2024-03-02, which names no partition: every month" in told
    assert "Correct `every` of its external_table" in told


def test_what_was_first_taken_for_days_is_read_as_months_from_then_on(
    lake: Path, rates: Path, priced: list[Any], instance: dg.DagsterInstance
) -> None:
    as_days = external_table("bank/rates", table=rates, day="order_date", start="2024-01-01")
    result = materialize(lake, [as_days, priced[1]], "2024-03-01", instance=instance)
    assert result.success, cause(result)
    make_priced(lake, priced, "daily", "2024-02-03", "2024-02-04", instance=instance)
    make_priced(lake, priced, "quarterly", "2024-01-01", instance=instance)
    assert rows(lake, "quarterly") == [(JANUARY, 7)]
    assert stale(lake, "daily") == []


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        ({"start": "2024-01-01", "every": "fortnight"}, "'fortnight' is none of day, week"),
        ({"every": "month"}, "it has no first day"),
        (
            {"partitions_def": dg.MonthlyPartitionsDefinition("2024-01-01"), "every": "month"},
            "every and partitions_def both give its partitions",
        ),
        (
            {"partitions_def": dg.HourlyPartitionsDefinition("2024-01-01-00:00")},
            "its partitions are hourly ones",
        ),
    ],
)
def test_partitions_of_others_that_no_lake_has_are_refused_by_name(
    words: dict[str, Any], culprit: str
) -> None:
    with pytest.raises(SettingsError, match=f"the external table bank/rates: .*{culprit}"):
        external_table("bank/rates", table="rates", day="day", **words)
