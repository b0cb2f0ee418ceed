"""Status of hand-written lakes, and that every state says why. No JVM."""

import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.states import State
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import FILES
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.status import status
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.logs import versions
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
