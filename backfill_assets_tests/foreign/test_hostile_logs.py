"""What others write to the log of their table harms neither the lake nor the tables beside it:
names × readers, and commits × loops.

Here: tables of others as sources, as external and as adopted ones, without an engine. Not here:
which names and logs are refused at all (`kernel.log.test_file_names`,
`intake.test_log_bounds`), and keys of a bucket (`buckets.test_odd_keys`).
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.cli.app import app
from backfill_assets.cli.findings import Level
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.export.export import export_days
from backfill_assets.foreign.adoptable import Adoption
from backfill_assets.foreign.adopting import adopt_table
from backfill_assets.foreign.observing import observe_tables, unseen_version
from backfill_assets.intake.landed_changes import compare_each_source
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.embedded import delta_rows
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.chosen import chosen_pipeline, tables_at
from backfill_assets.reading.kept_files import keep_files
from backfill_assets.reading.readable import readable_tables
from backfill_assets.reading.sql import answer_query
from backfill_assets.reports.checklist import judge_checklist
from backfill_assets.reports.report import report_of_lake
from backfill_assets.reports.show import report_of_day
from backfill_assets.reports.status import lake_status
from backfill_assets.testing import new_lake
from backfill_assets.upkeep.doctor import (
    VerifyRequest,
    examine_everything,
    has_errors,
    verify_tables,
)
from backfill_assets_tests.tables import SELECT

D1, D2, D3 = (date(2024, 3, n) for n in (1, 2, 3))
SECRET = "OF-A-CLOSED-FOLDER"
INFO = {"commitInfo": {"timestamp": 1_711_000_000_000, "operation": "WRITE"}}
DEEP = "[" * 100_000 + "]" * 100_000
X = f"d={D3}/x.parquet"


class World:
    """Two tables of others, a closed folder beside them, and a lake that reads both tables."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table, self.private = folder, folder / "orders", folder / "private"
        rows = pa.table({"d": [D1, D2], "who": ["ada", "ben"], "n": [1, 2]})
        for name in ("orders", "good"):
            write_deltalake(folder / name, rows, partition_by="d")
        (self.private / f"d={D3}").mkdir(parents=True)
        pq.write_table(pa.table({"who": [SECRET], "n": [1]}), self.private / X)
        self.size = (self.private / X).stat().st_size

    def lake(self, **settings: Any) -> Lake:
        return new_lake(self.folder / "lake", D1, **settings)

    def external(self) -> Lake:
        """A lake to which both are external tables."""
        named = {name: {"external": f"../{name}", "day": "d"} for name in ("orders", "good")}
        return self.lake(assets_only=True, tables=named)

    def commit(self, text: str) -> None:
        """Write the next commit of the table."""
        self.next_commit().write_text(text)

    def next_commit(self) -> Path:
        """The file of the next commit of the table, which does not exist yet."""
        version = len([*(self.table / "_delta_log").glob("*.json")])
        return self.table / "_delta_log" / f"{version:020d}.json"

    def add(self, path: str, **more: Any) -> None:
        """Let the next commit add a file of this name."""
        given = {
            "path": path,
            "size": self.size,
            "partitionValues": {"d": str(D3)},
            "modificationTime": 1,
            **more,
        }
        self.commit("\n".join(map(json.dumps, [INFO, {"add": {**given, "dataChange": True}}])))

    def link(self, name: str, target: Path) -> None:
        (self.table / name).parent.mkdir(parents=True, exist_ok=True)
        (self.table / name).symlink_to(target)

    def pipe(self) -> None:
        (self.table / X).parent.mkdir()
        os.mkfifo(self.table / X)

    def linked(self) -> list[Path]:
        """Other names of the closed folder's file."""
        return [p for p in self.folder.rglob("*.parquet") if p.is_file() and p.stat().st_nlink > 1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


commits_to_tables = pytest.mark.usefixtures(
    "storages"
)  # a look keeps what it saw by a commit; so does an adoption


def link_a_file(world: World) -> None:
    world.link(X, world.private / X)
    world.add(X)


def link_a_folder(world: World) -> None:
    world.link("priv", world.private)
    world.add(f"priv/{X}")


def link_as_the_lake_does(world: World) -> None:
    world.link("others-12345678", world.private)
    world.add(f"others-12345678/{X}")


def add_a_pipe(world: World) -> None:
    world.pipe()
    world.add(X, size=0)


NAMES: dict[str, Callable[[World], None]] = {
    "up": lambda w: w.add(f"../private/{X}"),
    "up, quoted": lambda w: w.add(f"%2e%2e/private/{X}"),
    "absolute": lambda w: w.add(str(w.private / X)),
    "a file URI": lambda w: w.add(f"file://{w.private / X}"),
    "another bucket": lambda w: w.add(f"s3://bucket/{X}"),
    "no name": lambda w: w.add(f"d={D3}//x.parquet"),
    "NUL": lambda w: w.add(f"d={D3}/x\0.parquet"),
    "a control sign": lambda w: w.add(f"d={D3}/x\x1b.parquet"),
    "a pattern": lambda w: w.add(f"d={D3}/*.parquet"),
    "a link": link_a_file,
    "a linked folder": link_a_folder,
    "a pipe": add_a_pipe,
    "a link named as the lake names its own": link_as_the_lake_does,
}
names = pytest.mark.parametrize("hostile", NAMES.values(), ids=NAMES)


@commits_to_tables
@names
def test_an_external_table_with_a_hostile_name_is_refused_and_the_other_looked_at(
    world: World, hostile: Callable[[World], None]
) -> None:
    lake = world.external()
    hostile(world)
    observed, (failed,) = observe_tables(lake, chosen_pipeline(lake).contracts)
    assert [o.table for o in observed] == ["good"]
    assert one_line(failed, "orders")
    assert not answer_query(lake, chosen_pipeline(lake), "SELECT * FROM orders").rows
    assert len(answer_query(lake, chosen_pipeline(lake), "SELECT * FROM good").rows) == 2


@names
def test_a_source_with_a_hostile_name_is_refused_and_the_other_listed(
    world: World, hostile: Callable[[World], None]
) -> None:
    lake = sources(world)
    hostile(world)
    found, (failed,) = compare_each_source(LakeSession(lake))
    assert {name: len(c.fresh) for name, c in found.items()} == {"good": 2}
    assert one_line(failed, "orders")


@names
def test_a_table_with_a_hostile_name_is_not_adopted(
    world: World, hostile: Callable[[World], None]
) -> None:
    lake = world.lake(assets_only=True, access={"readers": "everyone"})
    hostile(world)
    before = sorted(world.folder.rglob("*.parquet"))
    with pytest.raises(BackfillError) as told:
        adopt_table(lake, Adoption("orders", str(world.table), "d", ("who",)), ())
    assert one_line(told.value, "orders")
    assert (world.linked(), sorted(world.folder.rglob("*.parquet"))) == ([], before)


@commits_to_tables
@names
def test_no_reader_of_an_adopted_table_follows_a_hostile_name(
    world: World, hostile: Callable[[World], None]
) -> None:
    lake = world.lake(
        assets_only=True,
        access={"readers": "everyone"},
        tables={"orders": {"others_may_write": True}},
    )
    adopt_table(lake, Adoption("orders", str(world.table), "d", ("who",)), ())
    hostile(world)
    pipeline = chosen_pipeline(lake)
    (contract,) = pipeline.contracts
    newest = lake.store.head("orders")
    out = world.folder / "out"
    readers: dict[str, Callable[[], object]] = {
        "observe": lambda: raised(observe_tables(lake, pipeline.contracts)[1]),
        "data files": lambda: lake.store.data_files(contract, newest),
        "snapshot": lambda: keep_files(lake, contract, newest, [D3], lake.place.at("kept")),
        "sql": lambda: answer_query(
            lake, pipeline, "SELECT * FROM orders", newest=True
        ).rows.to_pylist(),
    }
    for reader, reads in readers.items():
        with pytest.raises(BackfillError) as refused:
            reads()
        assert one_line(refused.value, "orders"), reader
    export_days(lake, pipeline, "orders", str(out), newest=True)  # of the days that were judged
    assert not [
        p for p in lake.root.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()
    ]
    assert not [p for p in out.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert any(line.startswith("orders: ") for line in lake_status(lake, pipeline).wrong)


@names
def test_reconciling_with_a_table_with_a_hostile_name_is_refused(
    world: World, hostile: Callable[[World], None]
) -> None:
    hostile(world)
    with pytest.raises(BackfillError) as told:
        delta_rows(duckdb.connect(), Folder(str(world.table)))
    assert one_line(told.value, "orders")


COMMITS: dict[str, Callable[[World], object]] = {
    "no JSON": lambda w: w.commit("{"),
    "a list": lambda w: w.commit("[1]"),
    "a number": lambda w: w.commit("1"),
    "commitInfo is null": lambda w: w.commit('{"commitInfo": null}'),
    "commitInfo is a text": lambda w: w.commit('{"commitInfo": "x"}\n{"add": 1}'),
    "a time of 1e400": lambda w: w.commit('{"commitInfo": {"timestamp": 1e400}}'),
    "a time that is a text": lambda w: w.commit('{"commitInfo": {"timestamp": "today"}}'),
    "add without a path": lambda w: w.commit(
        "\n".join(map(json.dumps, [INFO, {"add": {"size": 1}}]))
    ),
    "a size that is none": lambda w: w.add(X, size="much"),
    "deep JSON": lambda w: w.commit(f'{{"commitInfo": {{"timestamp": 1, "x": {DEEP}}}}}'),
    "deep statistics": lambda w: w.add(X, stats=DEEP),
    "a day of the year 10000": lambda w: w.add(
        "d=+10000-01-01/x.parquet", partitionValues={"d": "+10000-01-01"}
    ),
    "a day that is none": lambda w: w.add("d=soon/x.parquet", partitionValues={"d": "soon"}),
    "metaData without a schema": lambda w: w.commit(
        "\n".join(map(json.dumps, [INFO, {"metaData": {"id": "x"}}]))
    ),
    "bytes that are no text": lambda w: w.next_commit().write_bytes(b"\xff\xfe{}"),
    "nothing": lambda w: w.commit(""),
    "a pipe": lambda w: os.mkfifo(w.next_commit()),
    "a link": lambda w: w.next_commit().symlink_to("/dev/zero"),
    "a folder": lambda w: w.next_commit().mkdir(),
}
commits = pytest.mark.parametrize("broken", COMMITS.values(), ids=COMMITS)


@commits_to_tables
@commits
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen before", "never seen"])
def test_a_look_at_tables_of_others_goes_on_after_a_broken_commit(
    world: World, broken: Callable[[World], object], is_seen: bool
) -> None:
    lake = world.external()
    if is_seen:
        assert not observe_tables(lake, chosen_pipeline(lake).contracts)[1]
    broken(world)
    write_deltalake(
        world.folder / "good", pa.table({"d": [D3], "who": ["eve"], "n": [3]}), mode="append"
    )
    pipeline = chosen_pipeline(lake)
    news = {contract.name: told(unseen_version, lake, contract) for contract in pipeline.contracts}
    assert news["good"].startswith("version 1 of ")
    observed, failed = observe_tables(lake, pipeline.contracts)
    assert {"good"} <= {o.table for o in observed}
    assert all(one_line(error, "orders") for error in failed)
    assert len(observed) + len(failed) == 2
    assert lake_status(lake, pipeline).tables["good"]
    findings = verify_tables(lake, pipeline.contracts, VerifyRequest())
    assert any("good" in str(finding.object) for finding in findings)


@commits
def test_a_look_at_adopted_tables_goes_on_after_a_broken_commit(
    world: World, broken: Callable[[World], object]
) -> None:
    named = {name: {"others_may_write": True} for name in ("good", "orders")}
    lake = world.lake(assets_only=True, access={"readers": "everyone"}, tables=named)
    for name in named:
        adopt_table(lake, Adoption(name, str(world.folder / name), "d", ("who",)), ())
    broken(world)
    pipeline = chosen_pipeline(lake)
    found = lake_status(lake, pipeline)
    assert found.tables["good"]
    assert {*found.tables, *found.unread} == {*named}
    assert all(found.unread[name] in found.wrong for name in found.unread)
    for newest in (False, True):
        assert len(answer_query(lake, pipeline, "SELECT * FROM good", newest=newest).rows) == 2
    asked = told(answer_query, lake, pipeline, "SELECT * FROM orders", newest=True)
    assert str(asked).startswith("the table orders: ") or not isinstance(asked, str)
    reported = report_of_lake(lake, pipeline, utc_now())
    assert reported.status.unread == found.unread
    assert {write.table for write in reported.writes} == {*found.tables}
    findings = verify_tables(lake, pipeline.contracts, VerifyRequest())
    assert "the table good" in {finding.object for finding in findings if finding.level is Level.OK}
    assert has_errors(findings) or not found.unread


@commits_to_tables
@commits
def test_readers_of_a_table_go_on_beside_an_adopted_one_with_a_broken_commit(
    world: World, broken: Callable[[World], object]
) -> None:
    named = {name: {"others_may_write": True} for name in ("good", "orders")}
    lake = world.lake(assets_only=True, access={"readers": "everyone"}, tables=named)
    for name in named:
        adopt_table(lake, Adoption(name, str(world.folder / name), "d", ("who",)), ())
    broken(world)
    pipeline = chosen_pipeline(lake)
    unread = lake_status(lake, pipeline).unread
    assert report_of_day(lake, pipeline, "good", D1).history
    assert export_days(lake, pipeline, "good", str(world.folder / "out"), newest=True).replaced
    kept = create_snapshot(lake, pipeline, SnapshotRequest("kept", ("good",), newest=True))
    assert [*kept.tables] == ["good"]
    evidence = " ".join(item.evidence for item in judge_checklist(lake, pipeline))
    assert all(error in evidence for error in unread.values())
    for name, error in unread.items():
        assert told(report_of_day, lake, pipeline, name, D1) == error
        assert told(export_days, lake, pipeline, name, str(world.folder / "out")) == error


def test_what_is_made_from_a_broken_table_is_not_judged_and_names_it(world: World) -> None:
    lake = world.lake(
        assets_only=True,
        access={"readers": "everyone"},
        tables={"orders": {"others_may_write": True}},
    )
    adopt_table(lake, Adoption("orders", str(world.table), "d", ("who",)), ())
    world.commit("[1]")
    pipeline = chosen_pipeline(lake)
    (orders,) = pipeline.tables
    of_orders = replace(orders.contract, name="made", inputs=(Input("orders"),))
    made = replace(orders, contract=of_orders)
    known, unread = readable_tables(lake, replace(pipeline, tables=(orders, made)))
    assert (known.tables, [*unread]) == ((), ["orders", "made"])
    assert "made from orders, which cannot be read" in str(unread["made"])
    shown = CliRunner().invoke(app, ["--lake", str(lake.root), "status", "--check"])
    assert (shown.exit_code, "the table orders: " in shown.output) == (1, True)


@commits
def test_a_look_at_sources_goes_on_after_a_broken_commit(
    world: World, broken: Callable[[World], object]
) -> None:
    lake = sources(world)
    broken(world)
    found, failed = compare_each_source(LakeSession(lake))
    assert len(found["good"].fresh) == 2
    assert all(one_line(error, "orders") for error in failed)
    assert len(found) + len(failed) == 2
    findings = examine_everything(lake.root, tables_at(lake.root))
    assert any("good" in str(finding) for finding in findings)


def sources(world: World) -> Lake:
    """A lake to which both tables are sources."""
    of_source = {
        "select": SELECT.replace("id AS", "who AS").replace("at AS", "CAST(d AS timestamp) AS")
    }
    named = {name: {"table": f"../{name}", **of_source} for name in ("orders", "good")}
    return world.lake(sources=named, features={"source": "good"}, labels={"source": "good"})


def one_line(error: BackfillError, name: str) -> bool:
    """Whether an error is one line that names the table, and quotes no unprintable sign."""
    return str(error).isprintable() and name in str(error)


def raised(errors: list[BackfillError]) -> None:
    for error in errors:
        raise error


def told(ask_of: Callable[..., Any], *given: Any, **how: Any) -> Any:
    try:
        return ask_of(*given, **how)
    except BackfillError as error:
        return str(error)
