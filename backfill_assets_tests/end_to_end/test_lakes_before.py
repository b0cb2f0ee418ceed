"""Lakes made by 6f78c832: today's package says of them what that one said, and goes on with them.

Tested here: lakes that `.ci/lakes_before.py` makes with that commit's package, the small ones as
archives in `earlier`. Not tested here: lakes of older commits, which lie there, too
(`test_earlier_lakes.py`).
"""

import json
import os
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest

from backfill_assets import testing
from backfill_assets.dagster import LakeIOManager
from backfill_assets.reading import open_lake
from backfill_assets_tests.cli.typed import commands, read, run
from backfill_assets_tests.end_to_end.every_command import (
    ENDING,
    FORGET,
    LEFT_OUT,
    STORY,
    tell_story,
)
from backfill_assets_tests.processes import CHECKOUT

COMMIT = "6f78c832"
PROGRAM = CHECKOUT / ".ci" / "lakes_before.py"
ARCHIVES = Path(__file__).parent / "earlier" / COMMIT
STATE = "BACKFILL_ASSETS_STATE"
LATE = {
    "seq": 9,
    "arrival_ts": "2024-03-07T10:00:00Z",
    "event_ts": "2024-03-02T05:00:00Z",
    "event_key": "today",
    "op": "upsert",
    "entity": "A1",
    "value": 9,
}
# A thousand days, and a table of others that a link leads to: to make them takes minutes, as to
# erase somebody does, which `thorough.py` has.
LONG = ("many", "external")
IS_THOROUGH = "BACKFILL_ASSETS_LAKES_BEFORE" in os.environ
GO_ON = ("files", *(LONG if IS_THOROUGH else ()))
DAYS = ("--from", "2024-03-01", "--to", "2024-03-02")

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark", "processes")]


@pytest.fixture
def history() -> None:
    """Lakes that no archive holds are made, by a package that a clone without history lacks."""
    asked = subprocess.run(["git", "cat-file", "-e", COMMIT], cwd=CHECKOUT, capture_output=True)
    if asked.returncode:
        pytest.skip(f"the history of this clone lacks {COMMIT}, by which the lakes are made")


def unpacked(folder: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """The lake of an archive, laid out in the folder, and what that package said of it."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return said_in(folder)


def made(folder: Path, name: str, address: str = "") -> tuple[Path, dict[str, Any]]:
    """The lake, made in the folder or at the address by that package, and what it said of it."""
    subprocess.run([sys.executable, PROGRAM, folder, f"{name}={address}"], check=True)
    return said_in(folder / name)


def said_in(folder: Path) -> tuple[Path, dict[str, Any]]:
    document: dict[str, Any] = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    return folder / document.pop("lake"), document


def said_today(lake: Path, address: str = "") -> dict[str, Any]:
    """What today's package says of a lake, by the same questions."""
    asked = [sys.executable, str(PROGRAM), "--today", str(lake), address]
    document: dict[str, Any] = json.loads(
        subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout
    )
    return document


def still_said(before: Any, today: Any) -> Any:
    """What is said today without the keys that no document had then."""
    if isinstance(before, dict) and isinstance(today, dict):
        return {
            key: still_said(before[key], value) for key, value in today.items() if key in before
        }
    if isinstance(before, list) and isinstance(today, list) and len(before) == len(today):
        return [still_said(then, now) for then, now in zip(before, today, strict=True)]
    return today


def says_the_same(before: dict[str, Any], lake: Path, address: str = "") -> None:
    """Every day has the state, the rows and the reason that it had, every file its form of name."""
    assert {day["state"] for day in before["days"]} & {"fresh"}
    assert still_said(before, today := said_today(lake, address)) == before
    assert [*today["rows"]] == [*before["rows"]]


def land_late(landing: Path, prefix: str = "") -> None:
    late = landing / f"{prefix}late.jsonl"
    late.write_text(json.dumps(LATE) + "\n", encoding="utf-8")
    os.utime(late, (0, 0))


def takes_late_data(lake: Path | str, landing: Path, staging: str, prefix: str = "") -> None:
    land_late(landing, prefix)
    done = run("catch-up", "--lake", lake)
    assert done.exit_code == 0, done.output
    holds_the_late_row(lake, staging)


def holds_the_late_row(lake: Path | str, staging: str) -> None:
    rows = open_lake(lake).table(staging).arrow().to_pylist()
    assert [row["event_key"] for row in rows].count("today") == 1


def takes_a_plan_and_a_rollback(lake: Path | str, table: str) -> None:
    plan = read(run("plan", *DAYS, "--tables", table, "--force", "--json", "--lake", lake))["id"]
    done = run("run", plan, "--lake", lake)
    assert done.exit_code == 0, done.output
    back = run("rollback", "--plan", plan, "--yes", "--lake", lake)
    assert back.exit_code == 0, back.output
    assert run("verify", "--deep", "--lake", lake).exit_code == 0


@pytest.mark.parametrize("name", GO_ON)
def test_a_lake_made_before_is_what_it_was_and_goes_on(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name in LONG:
        request.getfixturevalue("history")
    lake, before = made(tmp_path, name) if name in LONG else unpacked(tmp_path, name)
    says_the_same(before, lake)
    takes_late_data(lake, lake / "landing", "staging")
    takes_a_plan_and_a_rollback(lake, "staging")


def test_two_sources_made_before_keep_their_snapshot_and_every_command_works_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of a finished plan is put back there, and a plan of today is put back later."""
    lake, before = unpacked(tmp_path, "sources")
    monkeypatch.setenv("BACKFILL_ASSETS_LAKE", str(lake))
    says_the_same(before, lake)
    kept = open_lake(lake).snapshot("kept").table("staging_events").arrow()
    assert kept.num_rows == 6, "two of each of three days"
    land_late(lake / "landing", "events-")
    words = {"OLD": before["plans"][0]["id"], "LAKE": str(lake), "FOLDER": str(tmp_path)}
    assert tell_story(STORY, words) == []
    holds_the_late_row(lake, "staging_events")
    assert open_lake(lake).snapshot("kept").table("staging_events").arrow().equals(kept)
    forget = f"{FORGET} --yes" if IS_THOROUGH else FORGET
    assert tell_story((forget, *ENDING), words) == []
    rows = open_lake(lake).table("staging_events").arrow().to_pylist()
    assert ("A2" in {row["entity"] for row in rows}) is not IS_THOROUGH


def test_no_command_is_left_out_of_the_lakes_made_before() -> None:
    groups = {name for name, found in commands() if isinstance(found, click.Group)}
    known = {name for name, _ in commands()} - groups | {"plan"}
    lines = [f"{line} " for line in (*STORY, FORGET, *ENDING)]
    told = {name for name in known if any(line.startswith(f"{name} ") for line in lines)}
    assert known - told == LEFT_OUT.keys()


def test_a_lake_of_a_project_s_assets_made_before_is_made_again_without_a_commit(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake, before = unpacked(tmp_path, "assets")
    says_the_same(before, lake)
    project = runpy.run_path(str(lake.parent / "project.py"))
    assets, manager = (
        [project["orders"], project["totals"]],
        {"io_manager": LakeIOManager(lake=str(lake))},
    )
    testing.materialize(assets, "2024-03-01", "2024-03-03", resources=manager, instance=instance)
    says_the_same(before, lake)
    testing.materialize(assets, "2024-03-04", resources=manager, instance=instance)
    assert testing.rows_of(lake, "totals", "2024-03-04")[0]["cents"] == 10


@pytest.mark.usefixtures("history")
def test_a_lake_made_before_in_a_bucket_is_what_it_was_and_goes_on(
    bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    _, before = made(tmp_path, "bucket", bucket_address)
    says_the_same(before, Path(bucket_address), bucket_address)
    takes_late_data(bucket_address, tmp_path / "bucket" / "made" / "landing", "staging")
