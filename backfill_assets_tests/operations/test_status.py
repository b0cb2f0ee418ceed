"""Status of hand-written lakes, and that every state says why. No JVM."""

import sys
from datetime import timedelta
from pathlib import Path

from deltalake import DeltaTable

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.needs import needed_days, needs
from backfill_assets.core.states import State
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.model import make_pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.status import status
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.operations.synthetic import START, build, end_of, synthetic_lake
from backfill_assets_tests.processes import run_python

DAYS = 6


def test_a_lake_in_which_everything_is_built_is_fresh_from_its_first_day_to_its_last(tmp_path: Path) -> None:
    report = status(*synthetic_lake(tmp_path, DAYS))
    assert report.days == DayRange(START, START + ONE_DAY * DAYS)
    assert report.frontier == end_of(DAYS)
    assert report.totals() == {name: {State.FRESH: DAYS} for name in report.tables}
    assert {d.rows for d in report} == {3}


def test_a_lake_without_anything_has_no_days(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "full", 1)
    empty = type(lake)(tmp_path, lake.settings)
    report = status(empty, pipeline)
    assert report.days is None
    assert not list(report)


def test_what_was_made_of_a_changed_day_is_stale_and_says_so(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    build(lake, pipeline, "staging", {START + ONE_DAY: 4})
    found = {(d.table, d.day - START): d for d in status(lake, pipeline)}
    assert found["staging", timedelta(1)].state is State.FRESH
    stale = [d for (table, _), d in found.items() if d.state is State.STALE]
    assert {d.table for d in stale} == {"features", "labels"}, "features_as_known goes by arrivals, not by rows"
    assert {d.reason for d in stale} == {"its inputs changed since"}


def test_asked_why_it_names_the_input_days_that_were_written_since(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    build(lake, pipeline, "staging", {START + ONE_DAY: 4})
    assert {d.culprits for d in status(lake, pipeline)} == {()}, "only when asked: receipts have to be read"
    told = {d.culprits for d in status(lake, pipeline, why=True) if d.state is State.STALE and d.table == "features"}
    assert told == {(f"staging {START + ONE_DAY} was written after version 1, from which this day was made",)}


def test_a_day_that_another_program_touched_is_stale(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    add = {"path": "x", "size": 1, "dataChange": True, "partitionValues": {"event_date": str(START)}}
    make_commit(lake.table_path("staging"), 2, actions=[{"add": add}])
    first = status(lake, pipeline).tables["staging"][0]
    assert (first.state, first.reason) == (State.STALE, "a commit that is not ours touched it")


def test_arrival_days_whose_ledger_another_program_touched_are_stale_and_say_so(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    hurt = START + ONE_DAY * 3
    DeltaTable(str(lake.table_path("arrivals"))).delete(f"arrival_date = '{hurt}'")
    report = status(lake, pipeline)
    touched = [d for d in report.tables["raw"] if d.state is State.STALE]
    assert {d.day for d in touched} == {d for d in report.days or () if d.month == hurt.month}
    assert {d.reason for d in touched} == {"a commit that is not ours touched its rows in a ledger"}
    asked = needs(pipeline.states(read_view(lake, pipeline.contracts)), {})
    assert {name for name, days in asked.ready.items() if days} == {"raw"}


def test_other_windows_in_the_settings_make_history_outdated_and_ask_for_nothing(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, DAYS)
    settings = lake.root / "lake.toml"
    other = "windows_days = [2, 5]\ncutoff_grace_hours = 1"
    settings.write_text(settings.read_text().replace("windows_days = [2, 3]", other))
    changed = open_lake(lake.root)
    pipeline = make_pipeline(tables(changed.settings))
    found = status(changed, pipeline).totals()
    assert found["features"] == {State.OUTDATED: DAYS}
    assert State.STALE not in {state for counts in found.values() for state in counts}
    assert not any(needed_days(pipeline.states(read_view(changed, pipeline.contracts))).values())


def test_days_that_were_never_made_are_missing_and_name_what_comes_first(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    beyond = DayRange(START + ONE_DAY * DAYS, START + ONE_DAY * (DAYS + 1))
    found = {d.table: d for d in status(lake, pipeline, beyond)}
    assert found["raw"].reason == "never loaded; 0 landed file(s) name it"
    assert found["features"].reason == f"never built; first build staging {beyond.start}"
    assert found["labels"].state is State.PENDING
    assert "its cut is" in found["labels"].reason


def test_status_needs_neither_spark_sessions_nor_dagster(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    code = """
        import sys
        from pathlib import Path
        from backfill_assets.lake.home import open_lake
        import backfill_assets.operations.status, backfill_assets.operations.show, backfill_assets.operations.doctor
        open_lake(Path(sys.argv[1]))
        print(sorted({"pyspark", "dagster", "delta"} & set(sys.modules)))
    """
    assert run_python(code, tmp_path).strip() == "[]", sys.executable
