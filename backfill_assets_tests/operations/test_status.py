"""Status of hand-written lakes, and that every state says why. No JVM."""

import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import Altered
from backfill_assets.core.needs import needed_days, needs
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.states import State
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.ledger import FILES
from backfill_assets.lake.model import Pipeline, make_pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.status import status
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.logs import versions
from backfill_assets_tests.operations.readable_lake import TABLE, readable_lake
from backfill_assets_tests.operations.synthetic import START, build, end_of, landed, synthetic_lake
from backfill_assets_tests.processes import run_python

DAYS = 6
NOW = datetime(2026, 1, 2, tzinfo=UTC)


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
    make_commit(lake.table_place("staging").local(), 2, actions=[{"add": add}])
    first = status(lake, pipeline).tables["staging"][0]
    assert (first.state, first.reason) == (State.STALE, "a commit that is not ours touched it")


def test_arrival_days_whose_ledger_another_program_touched_are_stale_and_say_so(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    hurt = START + ONE_DAY * 3
    DeltaTable(str(lake.table_place("arrivals").local())).delete(f"arrival_date = '{hurt}'")
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


@pytest.mark.usefixtures("processes")
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
    assert run_python(code, tmp_path, fresh=True).strip() == "[]", sys.executable


def as_of(lake: Lake, moment: datetime | None) -> Lake:
    return Lake(lake.root, lake.settings.model_copy(update={"as_of": moment}))


def reload(lake: Lake, pipeline: Pipeline, day: date) -> None:
    """Load a raw day as the lake's settings are now, and name it in the ledger."""
    build(lake, pipeline, "raw", {day: 3})
    version = len(versions(lake.table_place("raw"))) - 1
    said = Receipt("a", "arrivals", "manual", {}, inputs={"raw": version}, frontier=lake.settings.as_of)
    make_commit(lake.table_place("arrivals").local(), len(versions(lake.table_place("arrivals"))), said)


def test_raw_days_after_as_of_are_not_missing(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    rows = [landed(START + ONE_DAY * n, NOW) for n in (DAYS + 1, DAYS + 2)]
    write_rows(lake.table_place(FILES.name).local(), FILES, rows, Receipt("f", FILES.name, "scan", {}))
    stopped = as_of(lake, end_of(DAYS))
    assert status(stopped, pipeline).days == DayRange(START, START + ONE_DAY * DAYS)
    (beyond,) = status(stopped, pipeline, DayRange(rows[0]["arrival_date"], rows[1]["arrival_date"])).tables["raw"]
    assert (beyond.state, beyond.reason) == (State.PENDING, "as_of (2024-03-03T00:00Z) stops the lake before it")


def why_raw(lake: Lake, pipeline: Pipeline, day: date) -> str:
    (found,) = [d for d in status(lake, pipeline).tables["raw"] if d.day == day]
    assert found.state is State.STALE
    return found.reason


CHANGED = "its landed files, as_of or what `replay-late` released changed since: {} file(s) name it now"


def test_a_loaded_day_names_what_may_have_changed_files_a_release_or_as_of(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    tags = {"event_days_from": str(START), "event_days_to": str(START), "arrival_days": str(START)}
    make_commit(
        lake.table_place("too_late").local(), 0, Receipt("r", "too_late", "replay-late", {}, note="n", tags=tags)
    )
    assert why_raw(lake, pipeline, START) == CHANGED.format(1)
    last = START + ONE_DAY * (DAYS - 1)
    noon = end_of(DAYS) - timedelta(hours=12)
    stopped = as_of(lake, noon)
    assert why_raw(stopped, pipeline, last) == CHANGED.format(1) + ", as_of is 2024-03-02T12:00Z"
    reload(stopped, pipeline, last)
    assert why_raw(lake, pipeline, last) == CHANGED.format(1)
    more = {**landed(START + ONE_DAY, NOW), "path": "more.jsonl", "sha256": "more"}
    write_rows(lake.table_place(FILES.name).local(), FILES, [more], Receipt("f", FILES.name, "scan", {}))
    assert why_raw(lake, pipeline, START + ONE_DAY) == CHANGED.format(2)


def test_days_that_follow_from_stale_ones_are_told(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    assert status(lake, pipeline).following() == {}
    more = {**landed(START, NOW), "path": "more.jsonl", "sha256": "more"}
    write_rows(lake.table_place(FILES.name).local(), FILES, [more], Receipt("f", FILES.name, "scan", {}))
    assert why_raw(lake, pipeline, START) == CHANGED.format(2)
    report = status(lake, pipeline)
    assert report.following() == {"staging": 1, "features": 3, "features_as_known": 3, "labels": 3, "training": 3}
    assert all(d.state is State.FRESH for d in report if d.will_change)


def test_a_data_file_that_was_altered_in_place_is_told_with_the_command_that_mends_it(tmp_path: Path) -> None:
    reader = readable_lake(tmp_path / "lake")
    assert status(reader.lake, reader.pipeline).wrong == ()
    [file] = map(Path, reader.lake.store.data_files(reader.pipeline.contract(TABLE, ""), None, [date(2024, 3, 2)]))
    file.write_bytes(file.read_bytes() + b"x")
    (told,) = status(reader.lake, reader.pipeline).wrong
    assert told.startswith(f"{TABLE}: the data file ")
    assert told.endswith(f"`backfill-assets backfill --force --from 2024-03-02 --to 2024-03-02 --tables {TABLE}`")
    file.unlink()
    (told,) = status(reader.lake, reader.pipeline).wrong
    assert " is gone. If the newest version lacks it, make its days: " in told
    with pytest.raises(Altered, match="is gone"):
        reader.lake.store.data_files(reader.pipeline.contract(TABLE, ""))
