"""Daily Delta tables of others that a lake adopted where they lie: everything that a table of its
own can do.

Tested here: from `adopt` on by the doors that users take, over tables of delta-rs in several
layouts. Not tested here: what is refused (`foreign/test_adoptable.py`), and tables that Spark wrote
(`test_adopted_tables_of_spark.py`).
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, WriterProperties, write_deltalake

from backfill_assets.cli.app import app
from backfill_assets.erasure.traces import Search, Trace
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.log.log import commit_name, data_file_names
from backfill_assets.kernel.place.choice import place_at, place_of_others
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.versions import newest_version
from backfill_assets.reading.opening import open_lake
from backfill_assets.testing import new_lake
from backfill_assets_tests.assets.projects import DAYS, ONE_RUN, cause, materialize

pytestmark = pytest.mark.long

Command = Callable[..., str]
D1, D2, D3, D4 = (date(2024, 1, n) for n in (1, 2, 3, 4))
FIRST = [(D1, "a", 1), (D1, "b", 2), (D2, "a", 4), (D3, "c", 8)]


def arrow(
    rows: list[tuple[date, str, int]], day: str = "day", *, is_text: bool = False
) -> pa.Table:
    days, ids, amounts = zip(*rows, strict=True)
    of_days = pa.array(map(str, days)) if is_text else pa.array(days, pa.date32())
    return pa.table({day: of_days, "id": list(ids), "amount": pa.array(amounts, pa.int64())})


class Others:
    """A table of others in a folder or a bucket, by days as DATE or STRING, and what its readers
    see."""

    def __init__(self, top: str, day: str, *, is_text: bool = False, by_day: bool = True) -> None:
        self.place, self.day, self.is_text = f"{top}/warehouse/orders", day, is_text
        self.there = place_of_others(self.place)
        write_deltalake(self.place, self.arrow(FIRST[:2]), partition_by=day if by_day else None)
        a_row: Any = {
            "target_file_size": 1,
            "writer_properties": WriterProperties(max_row_group_size=1),
        }
        rows = self.arrow(FIRST[2:])
        batches = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=1))
        write_deltalake(self.place, batches, mode="append", **({} if by_day else a_row))

    def arrow(self, rows: list[tuple[date, str, int]]) -> pa.Table:
        return arrow(rows, self.day, is_text=self.is_text)

    def overwrite(self, rows: list[tuple[date, str, int]]) -> None:
        """Put the rows in place of the first one's day, as dbt's insert_overwrite does."""
        where = f"{self.day} = '{rows[0][0]}'"
        write_deltalake(self.place, self.arrow(rows), mode="overwrite", predicate=where)

    def rows(self, version: int | None = None) -> list[tuple[str, str, int]]:
        """What a reader of the folder sees."""
        found = DeltaTable(self.place, version=version).to_pyarrow_table().to_pylist()
        return sorted((str(r[self.day]), r["id"], r["amount"]) for r in found)

    def files(self) -> dict[str, str]:
        """The digest of each data file below the folder."""
        return {name: self.there.sha256(name) for name in data_file_names(self.there)}


LAYOUTS: dict[str, dict[str, Any]] = {
    "by a date": {"day": "day"},
    "by a text": {"day": "ds", "is_text": True},
    "by nothing, a day in each file": {"day": "day", "by_day": False},
}


IN_BUCKETS = [f"in a bucket {name}" for name in LAYOUTS if "text" not in name]
everywhere = pytest.mark.parametrize("others", [*LAYOUTS, *IN_BUCKETS], indirect=True)


@pytest.fixture(params=LAYOUTS)
def others(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Others:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    is_far = request.param in IN_BUCKETS
    top = (
        request.getfixturevalue("bucket_address").removesuffix("/lake") if is_far else str(tmp_path)
    )
    return Others(top, **LAYOUTS[request.param.removeprefix("in a bucket ")])


@pytest.fixture
def lake(others: Others) -> Path:
    return local_root(others.place.replace("warehouse/orders", "lake"))


@pytest.fixture
def command(lake: Path) -> Command:
    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["--lake", str(lake), *words])
        assert done.exit_code == code, done.output
        return done.output

    return run


@pytest.fixture
def adopted(others: Others, command: Command) -> Others:
    before = others.files()
    said = command("adopt", "orders", "--from", others.place, "--day", others.day, "--key", "id")
    assert "3 day(s), 2024-01-01..2024-01-03, 4 row(s), by version 2" in said
    assert {name: of for name, of in others.files().items() if name in before} == before
    return others


def add(lake: Path, text: str) -> None:
    """Add sections to lake.toml."""
    place_at(lake).write(FILE_NAME, place_at(lake).read(FILE_NAME) + f"\n{text}\n".encode())


def orders_asset(others: Others, by_day: dict[date, list[tuple[str, int]]]) -> dg.AssetsDefinition:
    """The asset that so far wrote the table."""

    @dg.asset(name="orders", partitions_def=DAYS, backfill_policy=ONE_RUN, code_version="1")
    def orders(context: dg.AssetExecutionContext) -> Any:
        days = [date.fromisoformat(key) for key in context.partition_keys]
        rows = [(d, *row) for d in days for row in by_day.get(d, [])]
        return arrow(rows, others.day) if rows else others.arrow(FIRST).slice(0, 0)

    return orders


def shown(lake: Path) -> list[tuple[str, str, int]]:
    found = open_lake(lake, newest=True).table("orders").arrow().to_pylist()
    return sorted((str(day), *rest) for day, *rest in (r.values() for r in found))


def states(command: Command, table: str) -> dict[str, str]:
    """The state of each day of a table."""
    found = json.loads(
        command("sql", f"SELECT day, state FROM system.days WHERE \"table\" = '{table}'", "--json")
    )
    return {
        row["day"]: row["state"] for row in (found if isinstance(found, list) else found["rows"])
    }


def test_its_readers_see_a_day_made_anew(
    adopted: Others, lake: Path, instance: dg.DagsterInstance, command: Command
) -> None:
    made = orders_asset(adopted, {D2: [("a", 5), ("z", 6)], D4: [("n", 9)]})
    result = materialize(lake, [made], str(D2), str(D2), instance=instance)
    assert result.success, cause(result)
    assert materialize(lake, [made], str(D4), instance=instance).success
    expected = [
        (str(D1), "a", 1),
        (str(D1), "b", 2),
        (str(D2), "a", 5),
        (str(D2), "z", 6),
        (str(D3), "c", 8),
    ]
    assert adopted.rows() == [*expected, (str(D4), "n", 9)] == shown(lake)
    assert "all is well" in command("verify", "--deep")
    assert "receipts equal contents" in command("doctor")


@everywhere
def test_days_are_put_back_and_released(
    adopted: Others, lake: Path, instance: dg.DagsterInstance, command: Command
) -> None:
    before = adopted.rows()
    made = orders_asset(adopted, {D2: [("a", 5)], D4: [("n", 9)]})
    assert materialize(lake, [made], str(D2), str(D4), instance=instance).success
    assert adopted.rows() != before
    span = ("--from", str(D2), "--to", str(D4))
    command("rollback", "--table", "orders", "--to-version", "2", *span, "--yes")
    assert adopted.rows() == before == shown(lake)
    assert "put back by a rollback and held" in cause(
        materialize(lake, [made], str(D2), instance=instance)
    )
    command("release", "orders", *span, "--yes")
    assert "all is well" in command("verify", "--deep")
    assert materialize(lake, [made], str(D2), instance=instance).success


@everywhere
def test_it_is_compared_kept_and_exported_as_any_table(
    adopted: Others, lake: Path, instance: dg.DagsterInstance, command: Command, tmp_path: Path
) -> None:
    made = orders_asset(adopted, {D2: [("a", 5)]})
    assert materialize(lake, [made], str(D2), instance=instance).success
    compared = json.loads(
        command(
            "compare",
            "--table",
            "orders",
            "--from-version",
            "2",
            "--from",
            str(D1),
            "--to",
            str(D3),
            "--json",
        )
    )
    assert json.dumps(compared).count(str(D2)) > 0
    seen = newest_version(read_lake(lake))
    assert seen is not None
    assert seen.tables == {"orders": 3}
    command("snapshot", "create", "kept", "--unfit", "take", "--from", str(D1), "--to", str(D3))
    assert "(4 rows)" in command("export", "orders", "--to", str(tmp_path / "out"))
    assert "all is well" in command("verify", "--deep")


@everywhere
def test_upkeep_leaves_the_way_back(
    others: Others, lake: Path, instance: dg.DagsterInstance, command: Command
) -> None:
    for amount in (5, 6):
        others.overwrite([(D2, "a", amount)])
    DeltaTable(others.place).create_checkpoint()
    for version in range(3):
        others.there.delete(commit_name(version))
    command("adopt", "orders", "--from", others.place, "--day", others.day, "--key", "id")
    before, files = others.rows(), others.files()
    made = orders_asset(others, {D2: [("a", 7)]})
    assert materialize(lake, [made], str(D2), instance=instance).success
    command("maintain", "--yes")
    assert files.items() <= others.files().items()
    command("rollback", "--table", "orders", "--to-version", "4", "--from", str(D2), "--yes")
    assert others.rows() == before
    assert "all is well" in command("verify", "--deep")


def test_the_key_that_it_was_adopted_by_holds_unasked(
    adopted: Others, lake: Path, instance: dg.DagsterInstance
) -> None:
    made = orders_asset(adopted, {D2: [("a", 5), ("a", 6)]})
    assert "key" in cause(materialize(lake, [made], str(D2), instance=instance))
    assert adopted.rows() == shown(lake)
    assert len(shown(lake)) == len(FIRST)


def test_a_later_column_shows_to_readers(
    adopted: Others, lake: Path, instance: dg.DagsterInstance, command: Command
) -> None:
    @dg.asset(name="orders", partitions_def=DAYS, backfill_policy=ONE_RUN, code_version="2")
    def coloured() -> Any:
        return adopted.arrow([(D2, "a", 5)]).append_column("colour", pa.array(["red"]))

    assert "colour is new" in cause(materialize(lake, [coloured], str(D2), instance=instance))
    assert materialize(
        lake, [coloured], str(D2), instance=instance, schema_changes="evolve"
    ).success
    found = DeltaTable(adopted.place).to_pyarrow_table().to_pylist()
    assert {r["colour"] for r in found} == {None, "red"}
    assert "all is well" in command("verify", "--deep")


TRAILING = """/*
description = "Orders of two days."
day = "day"
key = ["day"]
columns = { day = "DATE", cents = "BIGINT" }
inputs = { orders = { before = 1, columns = ["DAY", "amount"] } }
*/
SELECT d AS day, try_sum(amount) AS cents
FROM (SELECT DAY AS d, amount FROM orders UNION ALL SELECT date_add(DAY, 1) AS d, amount FROM orders)
GROUP BY d
"""


@everywhere
def test_days_that_others_write_make_what_is_made_from_them_stale(
    spark: object, others: Others, lake: Path, command: Command
) -> None:
    command("adopt", "orders", "--from", others.place, "--day", others.day, "--key", "id")
    add(lake, '[pipeline]\nsql = "*.sql"\n[tables.orders]\nothers_may_write = true')
    place_at(lake).write("spent.sql", TRAILING.replace("DAY", others.day).encode())
    command("backfill", "--from", str(D1), "--to", str(D3), "--tables", "spent")
    before = states(command, "spent")
    assert set(before.values()) == {"fresh"}
    others.overwrite([(D2, "a", 5)])
    assert "rows of 2024-01-02 are new or others" in command("scan")
    assert "spent 2024-01-02..2024-01-03: its inputs changed since" in command("status", "--stale")
    command("catch-up")
    assert set(states(command, "spent").values()) == {"fresh"}


def test_a_table_of_the_lake_makes_the_days_of_an_adopted_one(
    spark: object, others: Others, lake: Path, command: Command
) -> None:
    write_deltalake(lake.parent / "sales", arrow([(D2, "made", 7)], "sold"), partition_by="sold")
    sales = {"sales": {"external": "../sales", "day": "sold"}}
    new_lake(
        lake,
        D1,
        assets_only=True,
        access={"readers": "everyone"},
        pipeline={"sql": "*.sql"},
        tables=sales,
    )
    columns = f'{{ {others.day} = "DATE", id = "STRING", amount = "BIGINT" }}'
    body = f'description = "Orders."\nday = "{others.day}"\nkey = ["id"]\ncolumns = {columns}\n'
    body += "inputs = { sales = {} }\n"
    query = f"SELECT sold AS {others.day}, id, amount FROM sales"
    (lake / "orders.sql").write_text(f"/*\n{body}*/\n{query}\n")
    said = command("adopt", "orders", "--from", others.place, "--day", others.day, "--key", "id")
    assert "from now on the lake makes its days" in said
    command("backfill", "--from", str(D2), "--to", str(D2), "--tables", "orders")
    assert (str(D2), "made", 7) in others.rows()
    command("rollback", "--table", "orders", "--to-version", "2", "--from", str(D2), "--yes")
    assert (str(D2), "a", 4) in others.rows()
    command("release", "orders", "--from", str(D2), "--to", str(D2), "--yes")
    span = ("--from", str(D2), "--to", str(D2))
    command("candidate", "create", "twice", "--tables", "orders")
    doubled = query.replace("amount", "2 * amount AS amount")
    (lake / ".candidates" / "twice" / "orders.sql").write_text(f"/*\n{body}*/\n{doubled}\n")
    command("backfill", *span, "--tables", "orders", "--force", "--target", "twice")
    assert (str(D2), "a", 4) in others.rows()
    (lake / "orders.sql").write_text(f"/*\n{body}*/\n{doubled}\n")
    command("candidate", "publish", "twice", "--yes")
    assert (str(D2), "made", 14) in others.rows()


@everywhere
def test_an_entity_of_it_is_not_forgotten_in_silence(
    adopted: Others, lake: Path, command: Command
) -> None:
    add(lake, '[features]\nentity = ["id"]')
    assert adopted.rows()
    said = command("forget", "a", "--note", "asked", "--yes", code=1)
    assert "orders was adopted: what others wrote to its log names values" in said
    found = Search(read_lake(lake), Trace({"id": "a"}, in_cells=True)).below([lake])
    assert any(r.held and "orders/" in str(p) for p, r in found.items()), "through the link"
