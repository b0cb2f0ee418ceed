"""Lakes that earlier versions wrote: fresh where no code is newer; they take a late delivery and a
rollback.

Tested here: the archives in `earlier`, each named by the commit that made it (six deliveries on
three days, by Sail; `used`: a column widened in place, a finished plan, a held day, a snapshot, and
commits in the history of a log). Not tested here: making such an archive.
"""

import json
import os
import shutil
import tarfile
from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.fitness import UnfitDays
from backfill_assets.reading.opening import open_lake as open_reader
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.logs import commit_file, versions

ARCHIVES = sorted((Path(__file__).parent / "earlier").glob("[!u]*.tar.xz"))
IN_USE = sorted((Path(__file__).parent / "earlier").glob("used-*.tar.xz"))
BEFORE_0_2 = "31ec1bd"  # its receipts name code in a form that depended on the version of Python
DAYS = ("--from", "2024-03-01", "--to", "2024-03-03")
WIDENED = 6  # the version of daily by which its column was widened
LATE = {
    "seq": 1,
    "arrival_ts": "2024-03-04T10:00:00Z",
    "event_ts": "2024-03-02T05:00:00Z",
    "event_key": "late",
    "entity": "A1",
    "value": 9,
}


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The lake as it was left."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def looked(root: Path) -> States:
    lake = open_lake(root)
    pipeline = chosen_pipeline(lake)
    return pipeline.states(read_view(lake, pipeline.contracts))


def states(root: Path) -> dict[str, set[State]]:
    found = looked(root)
    return {
        name: {found.of(name, day) for day in found.view.table(name).latest}
        for name in found.contracts
    }


def test_the_columns_of_an_earlier_lake_s_files_are_those_of_its_contracts(root: Path) -> None:
    found = looked(root)
    for contract in found.contracts.values():
        for receipt in found.view.table(contract.name).latest.values():
            assert {*(receipt.entry.columns or contract.column_names)} == {
                *contract.column_names
            }, contract.name
            assert bool(receipt.entry.rows) == (receipt.entry.columns is not None)


def test_an_earlier_lake_is_fresh_everywhere_and_takes_a_late_delivery_and_a_rollback(
    root: Path, request: pytest.FixtureRequest, processes: None
) -> None:
    if request.node.callspec.params["root"].name.startswith(BEFORE_0_2):
        assert set().union(*states(root).values()) == {State.OUTDATED}, (
            "once, until its days are made again"
        )
        assert run("backfill", *DAYS, "--lake", root).exit_code == 0
    assert set().union(*states(root).values()) == {State.FRESH}
    assert run("verify", "--deep", "--lake", root).exit_code == 0
    late = root / "landing" / "2024-03-04.jsonl"
    late.write_text(json.dumps(LATE) + "\n", encoding="utf-8")
    os.utime(late, (0, 0))
    before = versions(root / "tables" / "staging")[-1]
    done = run("catch-up", "--lake", root)
    assert done.exit_code == 0, done.output
    query = "SELECT count(*) AS n FROM staging WHERE event_key = 'late'"
    assert '"n": 1' in run("sql", query, "--json", "--lake", root).stdout
    days = ("--days", "2024-03-02..2024-03-02")
    back = run(
        "rollback", "--table", "staging", *days, "--to-version", before, "--yes", "--lake", root
    )
    assert back.exit_code == 0, back.output
    assert '"n": 0' in run("sql", query, "--json", "--lake", root).stdout
    assert run("verify", "--lake", root).exit_code == 0


def test_a_lake_of_a_newer_format_is_refused_and_nothing_is_written(root: Path) -> None:
    table = root / "tables" / "staging"
    commit = commit_file(table, versions(table)[-1])
    commit.write_text(
        commit.read_text().replace('backfill_assets\\":1,', 'backfill_assets\\":2,'),
        encoding="utf-8",
    )
    for command in ("status", "catch-up"):
        refused = run(command, "--lake", root)
        assert refused.exit_code, refused.output
        assert "a newer version of backfill-assets wrote to it" in refused.output
        assert "Upgrade backfill-assets" in refused.output
    assert not list((root / "tables" / "staging").glob("_delta_log/*2.json"))


@pytest.mark.parametrize("root", [ARCHIVES[0].with_name("1e67185.tar.xz")], indirect=True)
def test_a_required_column_that_is_renamed_in_an_earlier_lake_is_never_null(
    root: Path, processes: None
) -> None:
    """Tables of its own: `weekly` is the sum of seven days of `daily`; both read `cents`, which is
    NOT NULL."""
    for name in ("daily", "weekly"):
        file = root / "sql" / f"{name}.sql"
        file.write_text(
            file.read_text(encoding="utf-8").replace("cents", "amount"), encoding="utf-8"
        )
    (root / "landing" / "2024-03-04.jsonl").write_text(json.dumps(LATE) + "\n", encoding="utf-8")
    os.utime(root / "landing" / "2024-03-04.jsonl", (0, 0))
    assert run("catch-up", "--lake", root).exit_code == 0
    weekly = [looked(root).of("weekly", date(2024, 3, n)) for n in range(1, 5)]
    assert weekly == [State.OUTDATED, *[State.INCOMPLETE] * 3], (
        "made from days of daily without amount"
    )
    with pytest.raises(UnfitDays, match="made without amount 2024-03-01, 2024-03-03"):
        open_reader(root).table("daily").arrow()
    assert "made without amount" in run("sql", "SELECT * FROM daily", "--lake", root).output
    exported = run("export", "daily", "--to", "out", "--lake", root).output
    assert "left as it is there: made without amount" in exported
    assert (
        run("backfill", "--from", "2024-03-01", "--to", "2024-03-04", "--lake", root).exit_code == 0
    )
    assert set().union(*states(root).values()) == {State.FRESH}
    found = open_reader(root).table("weekly").arrow().to_pylist()
    assert [(r["day"].day, r["total"]) for r in found if r["customer"] == "A1"] == [
        (1, 1),
        (2, 12),
        (3, 15),
        (4, 15),
    ]


@pytest.mark.parametrize(
    "root", IN_USE, indirect=True, ids=lambda path: path.name.partition(".")[0]
)
def test_a_lake_in_use_opens_is_fresh_and_takes_late_data_a_plan_and_a_rollback(
    root: Path, processes: None
) -> None:
    refused = run("status", "--lake", root)
    command = (
        f"cd {root / 'tables' / 'staging'} && unzip -n '_history/*.zip' -d _delta_log && rm -r "
        "_history"
    )
    assert command in refused.output
    table = root / "tables" / "staging"
    for packed in (table / "_history").glob("*.zip"):
        shutil.unpack_archive(packed, table / "_delta_log")
    shutil.rmtree(table / "_history")
    found = {name: found - {State.FRESH} for name, found in states(root).items()}
    as_left = {"daily": {State.OUTDATED}, "weekly": {State.HELD}}
    assert {name: odd for name, odd in found.items() if odd} == as_left
    assert run("verify", "--deep", "--lake", root).exit_code == 0
    kept = open_reader(root).snapshot("kept").table("training").arrow().num_rows
    (root / "landing" / "late.jsonl").write_text(
        json.dumps({**LATE, "seq": 9}) + "\n", encoding="utf-8"
    )
    os.utime(root / "landing" / "late.jsonl", (0, 0))
    assert run("catch-up", "--lake", root).exit_code == 0
    assert orders(root) == {1: 2, 2: 3, 3: 2, 4: 2, 5: 2}
    planned = run("plan", *DAYS, "--tables", "daily", "--force", "--lake", root)
    assert planned.exit_code == 0, planned.output
    plans = json.loads(run("plan", "list", "--json", "--lake", root).stdout)
    plan = next(p["id"] for p in plans if p["state"] == "new")
    assert run("run", plan, "--lake", root).exit_code == 0
    back = run(
        "rollback",
        "--table",
        "daily",
        "--days",
        "2024-03-02..2024-03-02",
        "--to-version",
        WIDENED,
        "--over-newer",
        "--yes",
        "--lake",
        root,
    )
    assert back.exit_code == 0, back.output
    assert orders(root) == {1: 2, 2: 2, 3: 2, 4: 2, 5: 2}
    narrow = run(
        "rollback",
        "--table",
        "daily",
        "--days",
        "2024-03-03..2024-03-03",
        "--to-version",
        WIDENED - 1,
        "--over-newer",
        "--yes",
        "--lake",
        root,
    )
    assert narrow.exit_code == 0, narrow.output
    assert orders(root) == {1: 2, 2: 2, 3: 2, 4: 2, 5: 2}, "also from a file of the narrower type"
    assert open_reader(root).snapshot("kept").table("training").arrow().num_rows == kept
    assert run("verify", "--deep", "--lake", root).exit_code == 0


def orders(root: Path) -> dict[int, int]:
    """Orders of each day of `daily`."""
    rows = open_reader(root).table("daily").days("2024-03-01", "2024-03-05", unfit="take").arrow()
    assert rows.schema.field("orders").type == pa.int64()
    counted = Counter[int]()
    for row in rows.to_pylist():
        counted[row["day"].day] += row["orders"]
    return dict(counted)
