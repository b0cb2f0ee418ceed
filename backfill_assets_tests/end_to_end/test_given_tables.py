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
from backfill_assets.lake.home import look_at
from backfill_assets.lake.traces import Trace
from backfill_assets.operations.forget import ForgetRequest
from backfill_assets.pipeline.chosen import chosen_pipeline
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


def test_nobody_builds_one_beside(command: Command) -> None:
    assert "returned by an asset of a project" in command("candidate", "create", "v2", "--tables", "weekly", code=1)


@pytest.mark.parametrize("value", ["a", "nobody"])
def test_a_person_is_found_in_them_however_short_the_name(lake: Path, value: str) -> None:
    opened = look_at(lake)
    look = ForgetRequest(opened, chosen_pipeline(opened), Trace({"entity": value}), "asked").look()
    assert bool(look.held) == (value == "a")


@pytest.mark.parametrize("figure", ["weekly.keys ±0", "share_changed(weekly.total) <= 0"])
def test_a_table_without_a_key_is_not_expected_to_keep_keys(command: Command, figure: str) -> None:
    words = ("plan", "--from", FIRST, "--to", LAST, "--tables", "weekly", "--force", "--expect", figure)
    assert "weekly has no key" in command(*words, code=2)
