"""Tables that assets of a project return, under the commands that correct, keep and erase.

Tested here: rollback, release, snapshot, export, candidate and forget over such tables, on pandas and Arrow alone. Not
tested here: their runs (`dagster/test_io_manager.py`) and plans over them (guide *In your project*).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets_tests.dagster.projects import (
    Deliveries,
    cause,
    materialize,
    orders_asset,
    rows,
    weekly_asset,
)

FIRST, LAST = "2024-01-01", "2024-01-08"
Command = Callable[..., str]


@pytest.fixture
def instance(storages: None) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance) -> Path:
    materialize(tmp_path / "lake", [orders_asset(Deliveries()), weekly_asset()], FIRST, LAST, instance=instance)
    return tmp_path / "lake"


@pytest.fixture
def command(lake: Path) -> Command:
    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["--lake", str(lake), *words])
        assert done.exit_code == code, done.output
        return done.output

    return run


def test_days_that_were_put_back_stay_so_until_they_are_released(
    lake: Path, command: Command, instance: dg.DagsterInstance
) -> None:
    deliveries, before = Deliveries({"2024-01-03": [("a", 100)]}), rows(lake, "shop__orders")
    orders = orders_asset(deliveries)
    materialize(lake, [orders], "2024-01-03", instance=instance)
    command("rollback", "--table", "shop__orders", "--to-version", "1", "--from", "2024-01-03", "--yes")
    assert rows(lake, "shop__orders") == before
    assert "put back by a rollback and held" in cause(materialize(lake, [orders], "2024-01-03", instance=instance))
    command("release", "shop__orders", "--from", "2024-01-03", "--to", "2024-01-03", "--yes")
    assert materialize(lake, [orders], "2024-01-03", instance=instance).success


def test_they_are_kept_exported_and_verified_as_all_tables_are(lake: Path, command: Command, tmp_path: Path) -> None:
    assert "weekly" in command("snapshot", "create", "week", "--from", FIRST, "--to", LAST)
    assert "written (8 rows)" in command("export", "weekly", "--to", str(tmp_path / "out"))
    assert "all is well" in command("verify", "--deep")
