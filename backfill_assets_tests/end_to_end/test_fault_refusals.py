"""What a person sees when a run is refused or has nothing to write: the tables, Dagster's record,
and the rerun.

Tested here: runs of the job `rebuild` over a month of a toy pipeline that misbehaves on demand, and
ten reruns. Not tested here: writers that race (`test_fault_conflicts`) and processes that die
(`test_fault_deaths`, `test_late_data`).
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.history import evaluations_of
from backfill_assets.dagster.adapter.verdicts import Standing
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.builders import CHECKS
from backfill_assets_tests.cli.typed import run as command
from backfill_assets_tests.homes import make_home, opened_home
from backfill_assets_tests.lakes import (
    backfill,
    content,
    data_files,
    delivery,
    make_lake,
    run_rebuild,
    snapshot,
    toy,
    version,
)

pytestmark = pytest.mark.users_do

FIRST, LAST, DAYS = "2024-03-01", "2024-03-31", 31
BAD, EMPTY = date(2024, 3, 15), date(2024, 3, 10)


def month() -> list[dict[str, Any]]:
    """One event a day but on the empty one; on the bad day two deliveries of the same event."""
    days = [f"2024-03-{n:02d}" for n in range(1, DAYS + 1) if n != EMPTY.day]
    return [
        delivery(n, f"{day} 09:00:00", None, f"k{n}", value=n) for n, day in enumerate(days)
    ] + [
        delivery(100, f"{BAD} 10:00:00", f"{BAD} 09:00:00", "again", value=7),
        delivery(101, f"{BAD} 11:00:00", f"{BAD} 09:00:00", "again", value=8),
    ]


@pytest.fixture(scope="module")
def loaded(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake whose raw holds the month; to be copied, never to be worked on."""
    lake = make_lake(tmp_path_factory.mktemp("month"), {"all.jsonl": month()}, FIRST)
    backfill(lake, FIRST, LAST, ["raw"])
    return lake.root


@pytest.fixture
def lake(loaded: Path, tmp_path: Path) -> Lake:
    """A lake of this test's own in which raw holds the month."""
    shutil.copytree(loaded, tmp_path / "lake")
    return open_lake(tmp_path / "lake")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with opened_home(tmp_path) as made:
        yield made


def failure(result: dg.ExecuteInProcessResult) -> tuple[str, dict[str, Any]]:
    """What Dagster shows of the only step that failed: the description and the metadata."""
    (event,) = [e for e in result.all_events if e.is_step_failure]
    told = event.step_failure_data.user_failure_data
    assert told is not None
    return str(told.description), {k: v.value for k, v in told.metadata.items()}


def materialized(result: dg.ExecuteInProcessResult, table: str) -> dict[str, dict[str, Any]]:
    """The metadata per day of the run's materializations of a table."""
    made = [
        e.step_materialization_data.materialization
        for e in result.get_asset_materialization_events()
    ]
    return {
        str(m.partition): {k: v.value for k, v in m.metadata.items()}
        for m in made
        if m.asset_key == dg.AssetKey(table)
    }


def test_a_contract_broken_on_one_day_of_a_month_changes_nothing_and_shows_the_day_in_red(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    result = run_rebuild(lake, FIRST, LAST, instance, ["echo", "sums"], toy("twice"))
    assert not result.success
    assert not content(lake, "echo")
    assert not snapshot(lake, toy())["echo"]
    told = list(evaluations_of(instance, result.run_id))
    assert Counter(e.check_name for e in told) == dict.fromkeys(CHECKS, 1)
    (error,) = [e for e in told if not e.passed]
    assert (error.check_name, error.severity) == ("unique_key", dg.AssetCheckSeverity.ERROR)
    assert list(Standing.of(error).refused) == [BAD]
    assert "again" in str(error.metadata["sample_keys"].value)
    description, metadata = failure(result)
    assert f"unique_key fails on 1 of {DAYS} day(s), first {BAD}" in description
    assert "again" in description
    assert metadata["consequence"] == "Nothing was written, every day keeps its rows"
    assert f"--from {FIRST} --to {LAST} --tables echo" in metadata["next"]
    assert not result.get_asset_materialization_events()
    assert "make_sums" not in {e.step_key for e in result.all_events if e.is_step_start}

    others = run_rebuild(lake, BAD + ONE_DAY, LAST, instance, ["echo"], toy("good"))
    assert others.success
    (standing,) = [e for e in others.get_asset_check_evaluations() if not e.passed]
    assert list(Standing.of(standing).refused) == [BAD], (
        "days that pass do not hide the one that stands refused"
    )
    fixed = run_rebuild(lake, FIRST, LAST, instance, ["echo", "sums"], toy("good"))
    assert fixed.success
    assert all(
        e.passed for e in fixed.get_asset_check_evaluations() if e.check_name == "unique_key"
    )
    assert len(content(lake, "echo")) == DAYS
    assert materialized(fixed, "sums").keys() == materialized(fixed, "echo").keys()
    before = snapshot(lake, toy()), version(lake, "echo")
    assert not run_rebuild(lake, BAD, BAD, instance, ["echo"], toy("twice")).success
    assert (snapshot(lake, toy()), version(lake, "echo")) == before


def test_a_row_of_another_day_is_refused_and_the_failure_names_the_day_and_the_range_to_run(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    backfill(lake, "2024-03-04", "2024-03-06", ["echo"], toy())
    before = snapshot(lake, toy()), data_files(lake, "echo")
    result = run_rebuild(lake, "2024-03-04", "2024-03-05", instance, ["echo"], toy("stray"))
    assert not result.success
    description, metadata = failure(result)
    assert (
        "asked for 2024-03-04..2024-03-05, the transform gave 1 row(s) of 2024-03-06" in description
    )
    assert "run the range 2024-03-04..2024-03-06" in metadata["next"]
    assert (snapshot(lake, toy()), data_files(lake, "echo")) == before


def test_a_day_without_rows_is_empty_with_a_receipt_and_a_warning_and_its_rerun_is_a_no_op(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    result = run_rebuild(lake, EMPTY, EMPTY, instance, ["echo"], toy())
    assert result.success
    assert materialized(result, "echo")[str(EMPTY)]["dagster/partition_row_count"] == 0
    (warning,) = [e for e in result.get_asset_check_evaluations() if not e.passed]
    assert (warning.check_name, warning.severity) == ("row_count", dg.AssetCheckSeverity.WARN)
    assert snapshot(lake, toy())["echo"][EMPTY][0] == 0
    assert content(lake, "echo") == []
    first = version(lake, "echo")
    again = run_rebuild(lake, EMPTY, EMPTY, instance, ["echo"], toy())
    assert again.success
    assert materialized(again, "echo")[str(EMPTY)]["backfill_assets/unchanged"] is True
    assert version(lake, "echo") == first


def test_a_day_that_does_not_exist_in_an_input_is_refused_naming_table_days_and_command(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    backfill(lake, "2024-03-04", "2024-03-05", ["echo"], toy())
    result = run_rebuild(lake, "2024-03-04", "2024-03-08", instance, ["sums"], toy())
    assert not result.success
    description, metadata = failure(result)
    assert "it is made from echo for 2024-03-06..2024-03-08, which were never made" in description
    assert (
        "`backfill-assets backfill --from 2024-03-06 --to 2024-03-08 --tables echo`"
        in metadata["next"]
    )
    assert metadata["kind"] == "InputMissing"
    assert not content(lake, "sums")
    backfill(lake, "2024-03-06", "2024-03-08", ["echo"], toy())
    assert run_rebuild(lake, "2024-03-04", "2024-03-08", instance, ["sums"], toy()).success
    assert len(content(lake, "sums")) == 5


def test_ten_reruns_of_the_same_days_make_no_commit_and_no_file(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    days = ("2024-03-08", "2024-03-12")
    tables = ("raw", "arrivals", "quarantine", "echo", "sums")
    backfill(lake, *days, None, toy())
    before = {t: version(lake, t) for t in tables}, data_files(lake, "echo"), snapshot(lake, toy())
    for _ in range(9):
        assert not any(p.write_id for p in backfill(lake, *days, None, toy()).values())
    result = run_rebuild(lake, *days, instance, None, toy())
    assert result.success
    for table in ("raw", "echo", "sums"):
        assert {m["backfill_assets/unchanged"] for m in materialized(result, table).values()} == {
            True
        }
    assert (
        {t: version(lake, t) for t in tables},
        data_files(lake, "echo"),
        snapshot(lake, toy()),
    ) == before


def test_other_code_with_the_same_result_writes_its_receipt_and_no_file(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    days = ("2024-03-02", "2024-03-06")
    backfill(lake, *days, ["echo"], toy())
    before = data_files(lake, "echo"), snapshot(lake, toy())
    old = LOGS.state(lake.table_place("echo"), "event_date").latest
    result = run_rebuild(lake, *days, instance, ["echo"], toy("twice"))
    assert {m["backfill_assets/unchanged"] for m in materialized(result, "echo").values()} == {True}
    assert (data_files(lake, "echo"), snapshot(lake, toy())) == before
    new = LOGS.state(lake.table_place("echo"), "event_date").latest
    assert all(new[d].settings_digest != old[d].settings_digest for d in old)


def test_a_command_that_keeps_good_days_makes_a_month_but_the_bad_day_and_fails_naming_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(make_home(tmp_path / "home")))
    (lake.root / "own.py").write_text(
        "from backfill_assets_tests.lakes import toy\n\ntables = toy('twice')\n"
    )
    with (lake.root / "lake.toml").open("a") as settings:
        settings.write('[pipeline]\ntables = "own.py:tables"\n')
    words = ("--from", FIRST, "--to", LAST, "--tables", "echo,sums", "--keep-good-days", "--json")
    result = command("backfill", "--lake", lake.root, *words)
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    tables = [(t["table"], t["days"], t["kept_back"], t["failed"]) for t in said["tables"]]
    assert tables == [("echo", DAYS - 1, [str(BAD)], False), ("sums", DAYS - 1, [str(BAD)], False)]
    assert f"unique_key fails on 1 of {DAYS} day(s), first {BAD}: " in said["cause"]
    assert said["causes"] == [said["cause"]]
    assert (
        f"echo {FIRST}..{LAST}: {DAYS - 1} days, {DAYS - 1} changed, 1 refused ({BAD}), "
        in result.stderr
    )
    assert snapshot(lake, toy())["echo"].keys() == snapshot(lake, toy())["sums"].keys()
    assert len(content(lake, "echo")) == DAYS - 2, "no row on the empty day"
