"""One look at a table that others write: the days whose rows changed there, and nothing else.
Not here: what follows for tables made from it (`end_to_end/test_external_tables.py`)."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.foreign.external import file_prefix
from backfill_assets.foreign.observing import AHEAD, observe_table, observe_tables, unseen_version
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.errors import BackfillError, ContractBroken
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import ensure_table
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.testing import frozen_clock, new_lake, rows_of
from backfill_assets_tests.logs import commit_file

pytestmark = pytest.mark.usefixtures("storages")
D1, D2, D3, D4 = (date(2024, 3, n) for n in (1, 2, 3, 4))


def orders(*rows: tuple[date | None, str, int]) -> pa.Table:
    days, customers, amounts = zip(*rows, strict=True)
    amount = pa.array(amounts, pa.int64())
    return pa.table(
        {"order_date": pa.array(days, pa.date32()), "customer": list(customers), "amount": amount}
    )


FIRST = orders((D1, "ada", 1), (D1, "ben", 2), (D2, "ada", 4), (D3, "ben", 8))


class Others:
    """The others' table, and a lake that observes it."""

    def __init__(self, folder: Path, by: list[str], bucket: str = "") -> None:
        self.place, self.by = f"{bucket}/raw/orders" if bucket else folder / "orders", by
        write_deltalake(self.place, FIRST, partition_by=by or None)
        self.lake = new_lake(
            folder / "lake",
            D1,
            assets_only=True,
            tables={
                "orders": {
                    "external": str(self.place) if bucket else "../orders",
                    "day": "order_date",
                }
            },
        )

    def write(self, rows: pa.Table, predicate: str = "") -> None:
        """Append the rows, or put them in place of those that the predicate names."""
        if predicate:
            write_deltalake(self.place, rows, mode="overwrite", predicate=predicate)
        else:
            write_deltalake(self.place, rows, mode="append")

    def table(self) -> DeltaTable:
        return DeltaTable(self.place)

    def look(self, lake: Lake | None = None) -> list[str]:
        """The days that a look finds to be changed."""
        contracts = chosen_pipeline(lake := lake or self.lake).contracts
        (contract,) = contracts
        return [str(d) for d in observe_table(lake, contracts, contract).days]

    def vacuum(self) -> None:
        self.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


IN_FOLDERS = [pytest.param(("order_date",), id="by the day"), pytest.param((), id="not laid out")]
IN_BUCKETS = [
    pytest.param(("bucket", "order_date"), id="in a bucket by the day"),
    pytest.param(("bucket",), id="in a bucket, not laid out"),
]
everywhere = pytest.mark.parametrize("others", [*IN_FOLDERS, *IN_BUCKETS], indirect=True)


@pytest.fixture(params=IN_FOLDERS)
def others(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Others:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    is_far, by = "bucket" in request.param, [name for name in request.param if name != "bucket"]
    address = request.getfixturevalue("bucket_address") if is_far else ""
    made = Others(tmp_path, by, address)
    assert made.look() == [str(D1), str(D2), str(D3)]
    return made


def test_a_second_look_finds_and_writes_nothing(others: Others) -> None:
    version = others.lake.store.head("orders")
    assert (others.look(), others.lake.store.head("orders")) == ([], version)
    (contract,) = chosen_pipeline(others.lake).contracts
    assert unseen_version(others.lake, contract) == ""
    others.write(orders((D3, "cid", 1)))
    assert "version 1 of" in unseen_version(others.lake, contract)
    others.look()
    commit_file(Path(others.place), 0).unlink()
    assert unseen_version(others.lake, contract) == "", (
        "only the newest commit is opened: nobody can open this log"
    )


def months(folder: Path, *rows: tuple[date | None, str, int]) -> Others:
    """Somebody's table of months, and a lake that knows that it is one."""
    made = Others(folder, ["order_date"])
    shutil.rmtree(made.place)
    write_deltalake(made.place, orders(*rows), partition_by=["order_date"])
    declared = {"external": "../orders", "day": "order_date", "every": "month"}
    made.lake = new_lake(folder / "months", D1, assets_only=True, tables={"orders": declared})
    return made


def test_a_table_of_months_is_followed_by_its_months(tmp_path: Path) -> None:
    april, may, june = (date(2024, n, 1) for n in (4, 5, 6))
    others = months(tmp_path, (D1, "ada", 1), (may, "ada", 4))
    assert others.look() == [str(D1), str(april), str(may)], "April exists, and has no row"
    others.write(orders((april, "ben", 2), (june, "ben", 3)))
    assert others.look() == [str(april), str(june)]
    pipeline = chosen_pipeline(others.lake)
    known = pipeline.states(read_view(others.lake, pipeline.contracts))
    assert {known.of("orders", month) for month in (D1, april, may, june)} == {State.FRESH}
    assert known.view.table("orders").latest.keys() == {D1, april, may, june}
    assert known.contracts["orders"].matures_after_days is None, "it does not ripen by a frontier"


def test_a_row_within_a_month_of_others_is_refused_with_the_way_out(tmp_path: Path) -> None:
    others = months(tmp_path, (D1, "ada", 1))
    others.look()
    others.write(orders((D2, "ada", 4)))
    with pytest.raises(BackfillError, match="rows of 2024-03-02, which names no partition") as told:
        others.look()
    assert "Correct `every` of [tables.orders]" in str(told.value)
    others.lake = new_lake(
        tmp_path / "days",
        D1,
        assets_only=True,
        tables={"orders": {"external": "../orders", "day": "order_date"}},
    )
    assert others.look() == [str(D1), str(D2)], "as days they can be read"


def test_a_day_that_is_left_out_no_more_exists_after_a_look(tmp_path: Path) -> None:
    saturday, monday = date(2024, 3, 2), date(2024, 3, 4)
    others = months(tmp_path, (D1, "ada", 1), (monday, "ada", 4))
    for without, found in (
        (["saturday", "sunday"], [str(D1), str(monday)]),
        (["sunday"], [str(saturday)]),
    ):
        declared = {"external": "../orders", "day": "order_date", "without": without}
        others.lake = new_lake(tmp_path / "lake", D1, assets_only=True, tables={"orders": declared})
        assert others.look() == found


@everywhere
def test_rows_that_came_changed_or_went_are_found_by_their_days(others: Others) -> None:
    others.write(orders((D3, "cid", 16)))
    assert others.look() == [str(D3)]
    others.table().update(
        updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'"
    )
    assert others.look() == [str(D2)]
    others.table().delete("order_date = '2024-03-01' AND customer = 'ben'")
    assert others.look() == [str(D1)]
    others.table().delete("order_date = '2024-03-01'")
    assert others.look() == [str(D1)]
    assert rows_of(others.lake, "orders", D1) == []


def test_a_table_that_is_made_anew_with_another_layout_is_refused_with_the_way_out(
    others: Others,
) -> None:
    shutil.rmtree(others.place)
    rows = orders((D1, "ada", 1), (D1, "ben", 2), (D2, "ada", 5), (D3, "ben", 8))
    write_deltalake(others.place, rows, partition_by=None if others.by else ["order_date"])
    own = others.lake.table_place("orders")
    with pytest.raises(
        BackfillError, match=f"it was made anew: .*Nothing was read.*Move {own}, which holds"
    ):
        others.look()
    shutil.rmtree(str(own))
    assert others.look() == [str(D1), str(D2), str(D3)]
    assert [row["amount"] for row in rows_of(others.lake, "orders", D2)] == [5]


@everywhere
def test_equal_rows_written_again_are_no_change(others: Others) -> None:
    others.write(orders((D1, "ben", 2), (D1, "ada", 1)), "order_date = '2024-03-01'")
    assert others.look() == []
    assert len(rows_of(others.lake, "orders", D1)) == 2


@everywhere
def test_a_compaction_is_no_change_also_after_a_vacuum(others: Others) -> None:
    others.write(orders((D3, "cid", 16)))
    others.look()
    others.table().optimize.compact()
    others.vacuum()
    assert others.look() == []
    assert len(rows_of(others.lake, "orders", D3)) == 2


@everywhere
def test_rows_that_were_compacted_before_the_look_are_found(others: Others) -> None:
    others.write(orders((D3, "cid", 16)))
    others.table().optimize.compact()
    others.vacuum()
    assert others.look() == [str(D3)]


@everywhere
def test_a_restored_table_is_followed_back(others: Others) -> None:
    others.write(orders((D3, "cid", 16)))
    others.look()
    others.table().restore(0)
    assert others.look() == [str(D3)]


@pytest.mark.parametrize(
    "since", [(), (D2,)], ids=["as it was", "with another version of the number seen"]
)
def test_a_copy_that_was_put_back_is_compared_by_its_rows(
    others: Others, tmp_path: Path, since: tuple[date]
) -> None:
    shutil.copytree(others.place, tmp_path / "copy")
    others.write(orders((D3, "cid", 16)))
    others.look()
    shutil.rmtree(others.place)
    shutil.copytree(tmp_path / "copy", others.place)
    for day in since:
        others.write(orders((day, "cid", 16)))
    assert others.look() == [*map(str, (*since, D3))]


def test_a_file_that_reaches_over_an_earlier_beginning_is_read_again(others: Others) -> None:
    before = D1 - timedelta(days=1)
    others.write(orders((before, "cid", 16), (D1, "cid", 1)))
    assert others.look() == [str(D1)]
    earlier = new_lake(
        others.lake.root,
        before,
        assets_only=True,
        tables={"orders": {"external": "../orders", "day": "order_date"}},
    )
    assert others.look(earlier) == [str(before)]


def test_a_log_that_was_cleaned_is_no_hindrance(others: Others) -> None:
    others.write(orders((D1, "cid", 16)))
    others.write(orders((D2, "cid", 16)))
    others.table().create_checkpoint()
    commit_file(Path(others.place), 1).unlink()
    assert others.look() == [str(D1), str(D2)]


@everywhere
def test_a_new_column_changes_the_days_that_have_it(others: Others) -> None:
    rows = orders((D4, "ada", 1)).append_column("currency", pa.array(["EUR"]))
    write_deltalake(others.place, rows, mode="append", schema_mode="merge")
    assert others.look() == [str(D4)]
    assert rows_of(others.lake, "orders", D4)[0]["currency"] == "EUR"
    assert rows_of(others.lake, "orders", D1)[0]["currency"] is None


def test_two_looks_at_once_are_one_commit(others: Others) -> None:
    others.write(orders((D3, "cid", 16)))
    before = others.lake.store.head("orders")
    with ThreadPoolExecutor(2) as two:
        found = [*two.map(lambda _: others.look(), range(2))]
    assert sorted(found) == [[], [str(D3)]]
    assert others.lake.store.head("orders") == before + 1


def test_a_look_that_was_killed_before_its_commit_is_done_again(tmp_path: Path) -> None:
    others = Others(tmp_path, [])
    (contract,) = chosen_pipeline(others.lake).contracts
    file_prefix(others.lake.table_place("orders"), contract)
    ensure_table(others.lake, contract)
    assert others.look() == [str(D1), str(D2), str(D3)]


def test_a_renamed_column_changes_all_days(others: Others) -> None:
    renamed = FIRST.rename_columns(["order_date", "customer", "amounts"])
    write_deltalake(
        others.place,
        renamed,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=others.by or None,
    )
    assert others.look() == [str(D1), str(D2), str(D3)]
    assert [*rows_of(others.lake, "orders", D2)[0]] == ["order_date", "customer", "amounts"]


def test_another_type_of_a_column_is_refused_by_name(others: Others) -> None:
    texts = FIRST.set_column(2, "amount", pa.array(["1", "2", "4", "8"]))
    write_deltalake(
        others.place,
        texts,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=others.by or None,
    )
    with pytest.raises(
        ContractBroken, match=r"amount is BIGINT, not STRING.* Have its owner give the column"
    ):
        others.look()


def test_a_day_far_ahead_waits_until_it_is_near(others: Others) -> None:
    far = utc_today() + AHEAD + timedelta(days=3)
    others.write(orders((far, "cid", 16), (D1, "cid", 1)))
    others.write(orders((date(9999, 12, 31), "cid", 16)))
    assert others.look() == [str(D1)]
    assert others.look() == []
    with frozen_clock(f"{utc_today() + timedelta(days=3)}T12:00:00"):
        assert others.look()[-1] == str(far)
        assert others.look() == []


def test_a_version_whose_files_are_gone_is_refused_by_name(others: Others) -> None:
    others.write(orders((D4, "cid", 16)))
    lost = next(
        p
        for p in others.table().file_uris()
        if p not in DeltaTable(others.place, version=0).file_uris()
    )
    Path(lost).unlink()
    with pytest.raises(
        BackfillError, match=r"external table orders: version 1 names 1 file\(s\) that are gone"
    ):
        others.look()


@everywhere
def test_a_version_that_was_vacuumed_is_named_to_its_readers(others: Others) -> None:
    others.table().update(updates={"amount": "5"}, predicate="customer = 'ada'")
    others.vacuum()
    with pytest.raises(
        BackfillError,
        match=r"is gone.*Others took it away there: `backfill-assets catch-up` follows",
    ):
        rows_of(others.lake, "orders", D2)
    others.look()
    assert rows_of(others.lake, "orders", D2)[0]["amount"] == 5


def test_one_that_cannot_be_read_holds_up_no_other(others: Others, tmp_path: Path) -> None:
    lake = new_lake(
        others.lake.root,
        D1,
        assets_only=True,
        tables={
            "orders": {"external": "../orders", "day": "order_date"},
            "more": {"external": "../more", "day": "order_date"},
        },
    )
    write_deltalake(tmp_path / "more", FIRST)
    contracts = chosen_pipeline(lake).contracts
    (tmp_path / "more" / "_delta_log").rename(tmp_path / "log")
    others.write(orders((D4, "cid", 16)))
    found, failed = observe_tables(lake, contracts)
    assert [o.days for o in found] == [(D4,)]
    assert "no Delta table lies in" in str(failed[0])
