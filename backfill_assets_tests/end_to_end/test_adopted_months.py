"""A Delta table of months that others wrote, adopted in a folder and in a bucket: made anew, read
by days, put back, released, closed and corrected by others.

Tested here: `adopt --every month` and what follows it by the doors that users take. Not tested
here: which tables are refused (`foreign/test_adoptable.py`), and daily ones
(`test_adopted_tables.py`).
"""

import json
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from backfill_assets.cli.app import app
from backfill_assets.dagster import daily_table
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.assets.projects import cause, materialize

pytestmark = pytest.mark.long

JANUARY, FEBRUARY, MARCH = (date(2024, n, 1) for n in (1, 2, 3))
BEFORE = {JANUARY: 1, FEBRUARY: 2, MARCH: 4}
Command = Callable[..., str]
SHARES = """/*
description = "A day's month."
day = "day"
key = ["day"]
columns = { day = "DATE", total = "BIGINT" }
inputs = { totals = {} }
*/
SELECT explode(sequence(month, last_day(month))) AS day, total FROM totals
"""


@pytest.fixture(params=["in a folder", "in a bucket"])
def place(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody's totals by month."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    top = str(tmp_path)
    if request.param == "in a bucket":
        top = request.getfixturevalue("bucket_address").removesuffix("/lake")
    write_deltalake(f"{top}/warehouse/totals", arrow(BEFORE), partition_by="month")
    return f"{top}/warehouse/totals"


@pytest.fixture
def lake(place: str) -> Path:
    return local_root(place.replace("warehouse/totals", "lake"))


@pytest.fixture
def command(lake: Path, place: str) -> Command:
    """Runs commands on the lake, whose table `totals` is adopted and read by the days of
    `shares`."""

    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["--lake", str(lake), *words])
        assert done.exit_code == code, done.output
        return done.output

    adopting = ("adopt", "totals", "--from", place, "--day", "month", "--every", "month")
    assert "3 month(s), 2024-01-01, 2024-02-01, 2024-03-01, 3 row(s)" in run(
        *adopting, "--key", "month"
    )
    settings = place_at(lake).read(FILE_NAME)
    more = b'\n[pipeline]\nsql = "*.sql"\n[tables.totals]\nothers_may_write = true\n'
    place_at(lake).write(FILE_NAME, settings + more)
    place_at(lake).write("shares.sql", SHARES.encode())
    return run


def arrow(totals: Mapping[date, int]) -> pa.Table:
    months, values = pa.array([*totals], pa.date32()), pa.array([*totals.values()], pa.int64())
    return pa.table({"month": months, "total": values})


def seen(place: str) -> dict[date, int]:
    """What readers of the folder see."""
    rows = DeltaTable(place).to_pyarrow_table().to_pylist()
    return {row["month"]: row["total"] for row in sorted(rows, key=lambda row: row["month"])}


def made(lake: Path, totals: Mapping[date, int], instance: dg.DagsterInstance) -> str:
    """One run of the asset that makes these months; the words of its failure."""

    @daily_table(name="totals", start="2024-01-01", every="month", day="month", code_version="1")
    def asset(context: dg.AssetExecutionContext) -> Any:
        months = map(date.fromisoformat, context.partition_keys)
        return arrow({month: totals[month] for month in months if month in totals})

    return cause(materialize(lake, [asset], str(min(totals)), str(max(totals)), instance=instance))


def states(command: Command, table: str) -> dict[str, str]:
    asked = f"SELECT day, state FROM system.days WHERE \"table\" = '{table}'"
    found = json.loads(command("sql", asked, "--newest", "--json"))
    return {row["day"]: row["state"] for row in found}


def test_an_adopted_month_is_made_read_put_back_released_closed_and_corrected(
    spark: object, place: str, lake: Path, command: Command, instance: dg.DagsterInstance
) -> None:
    assert {*states(command, "totals").values()} == {"fresh"}
    span = ("--from", "2024-01-01", "--to", "2024-03-31")
    command("backfill", *span, "--tables", "shares")
    assert {*states(command, "shares").values()} == {"fresh"}
    assert made(lake, {FEBRUARY: 7}, instance) == ""
    assert seen(place) == {**BEFORE, FEBRUARY: 7}
    stale = [day for day, state in states(command, "shares").items() if state == "stale"]
    assert (len(stale), stale[0], stale[-1]) == (29, "2024-02-01", "2024-02-29")
    amid = ("--from", "2024-02-20", "--to", "2024-02-21")
    command("rollback", "--table", "totals", "--to-version", "1", *amid, "--yes")
    assert seen(place) == BEFORE
    assert "2024-02-01 put back" in made(lake, {FEBRUARY: 8}, instance)
    command("release", "totals", *amid, "--yes")
    command("close", "--until", "2024-02-10", "--tables", "totals", "--note", "reported")
    assert "2024-01-01 closed" in made(lake, {JANUARY: 9}, instance)
    assert made(lake, {FEBRUARY: 8}, instance) == ""
    assert "all is well" in command("verify", "--deep")
    write_deltalake(place, arrow({JANUARY: 5}), mode="overwrite", predicate="month = '2024-01-01'")
    said = command("scan", code=1)
    assert "others wrote other rows to days that are closed: 2024-01-01" in said
    assert states(command, "totals")["2024-01-01"] == "closed"
    command("reopen", "--tables", "totals", "--note", "theirs counts")
    assert "rows of 2024-01-01 are new or others" in command("scan")
    assert states(command, "totals")["2024-01-01"] == "outdated"  # no code of the asset's made it
    stale = [day for day, state in states(command, "shares").items() if state == "stale"]
    assert (len(stale), stale[0], stale[-1]) == (60, "2024-01-01", "2024-02-29")
