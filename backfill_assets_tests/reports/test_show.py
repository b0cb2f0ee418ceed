"""A single day: its receipt, its inputs, its history, and why it is in its state.
Not here: the states themselves (`kernel.core.test_states`)."""

from pathlib import Path

import pytest

from backfill_assets.intake.ledger import QUARANTINE
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reports.show import brief_reason, report_of_day
from backfill_assets_tests.builders import receipt, write_rows
from backfill_assets_tests.synthetic import START, build, synthetic_lake


def test_a_day_shows_its_receipt_its_inputs_and_their_states(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 5)
    build(lake, pipeline, "features", {START + ONE_DAY * 3: 3}, run_id="run-1")
    report = report_of_day(lake, pipeline, "features", START + ONE_DAY * 3)
    assert report.state is State.FRESH
    assert [(i.table, i.day, i.rows) for i in report.inputs] == [
        ("staging", START + ONE_DAY * n, 3) for n in (1, 2, 3)
    ]
    assert [made.receipt.write_id for made in report.history] == [
        "write-features-2",
        "write-features-0",
    ]
    receipt = report.to_dict()["receipt"]
    assert receipt is not None
    assert receipt["run_id"] == "run-1"


def test_a_stale_day_names_the_input_days_that_are_newer(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 5)
    build(lake, pipeline, "staging", {START + ONE_DAY: 4})
    report = report_of_day(lake, pipeline, "features", START + ONE_DAY * 2)
    assert report.state is State.STALE
    assert (
        f"staging {START + ONE_DAY} was written after version 1, from which this day was made"
        in report.reasons
    )


def test_the_history_of_a_day_is_newest_first_and_only_its_own(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 3)
    build(lake, pipeline, "staging", {START: 5})
    build(lake, pipeline, "staging", {START + ONE_DAY: 5})
    assert [w.version for w in report_of_day(lake, pipeline, "staging", START).history] == [2, 1]


def test_raw_shows_landed_files_and_why_rows_were_refused(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 2)
    bad = {
        "arrival_date": START,
        "source_file": "s",
        "row_number": 1,
        "text": "{",
        "reason": "not JSON",
    }
    said = receipt(QUARANTINE.name, {START: DayEntry(1, "F", "digest")})
    write_rows(lake.table_place(QUARANTINE.name).local(), QUARANTINE, [bad], said)
    report = report_of_day(lake, pipeline, "raw", START)
    assert [(f.path, f.rows) for f in report.files] == [(f"{START}.jsonl", 3)]
    assert report.quarantine == {"not JSON": 1}


Made = tuple[Lake, Pipeline]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return synthetic_lake(tmp_path, 4)


def states(made: Made) -> States:
    lake, pipeline = made
    return pipeline.states(read_view(lake, pipeline.contracts))


def reason(made: Made, table: str, day: object = START) -> str:
    found = states(made)
    return brief_reason(found, table, day, found.of(table, day))  # type: ignore[arg-type]


def test_a_day_of_other_code_says_whether_code_or_settings_moved(made: Made) -> None:
    lake, pipeline = made
    path = lake.root / "lake.toml"
    path.write_text(path.read_text().replace("[2, 3]", "[2, 3]\ncutoff_grace_hours = 6"))
    from backfill_assets.kernel.tables.home import open_lake
    from backfill_assets.kernel.write.model import make_pipeline
    from backfill_assets.pipeline.tables import tables

    again = open_lake(lake.root)
    other = (again, make_pipeline(tables(again.settings)))
    assert (
        brief_reason(states(other), "features_as_known", START, State.OUTDATED)
        == "made by other settings"
    )
    assert pipeline.codes["features"] == other[1].codes["features"]
