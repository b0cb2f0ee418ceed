"""Status of hand-written lakes: every state says why, and what needs a person stands there while it
is so. No JVM. Not here: finding what needs a person (`dagster.adapter.test_backfill_requests`)."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.intake.ledger import FILES
from backfill_assets.kernel.core.contracts import Column
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.receipts import DayEntry, Provenance, Receipt
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets.reading.fitness import irreproducible_days
from backfill_assets.reports.show import rollback_holds
from backfill_assets.reports.status import column_changes, lake_status
from backfill_assets_tests.builders import STAGING, Story, day, make_commit, write_rows
from backfill_assets_tests.calls import calls_during
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planned import BUILT, Planned
from backfill_assets_tests.synthetic import START, build, end_of, landed, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")

DAYS = 6

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_lake_in_which_everything_is_built_is_fresh_from_its_first_day_to_its_last(
    tmp_path: Path,
) -> None:
    report = lake_status(*synthetic_lake(tmp_path, DAYS))
    assert report.days == DayRange(START, START + ONE_DAY * DAYS)
    assert report.frontier == end_of(DAYS)
    assert report.totals() == {name: {State.FRESH: DAYS} for name in report.tables}
    assert {d.rows for d in report} == {3}


def test_each_day_is_judged_once_however_often_its_state_is_asked(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    calls = calls_during(lambda: lake_status(lake, pipeline))
    assert calls["_state_of"] == DAYS * len(pipeline.contracts)


def test_days_that_were_never_made_are_missing_and_name_what_comes_first(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    beyond = DayRange(START + ONE_DAY * DAYS, START + ONE_DAY * (DAYS + 1))
    found = {d.table: d for d in lake_status(lake, pipeline, beyond)}
    assert found["raw"].reason == "no landed file names it; a backfill of raw records it as empty"
    assert found["features"].reason == f"never built; first build staging {beyond.start}"
    assert found["labels"].state is State.PENDING
    assert "its cut is" in found["labels"].reason


def as_of(lake: Lake, moment: datetime | None) -> Lake:
    return Lake(lake.root, lake.settings.model_copy(update={"as_of": moment}))


def reload(lake: Lake, pipeline: Pipeline, day: date) -> None:
    """Load a raw day as the lake's settings are now, and name it in the ledger."""
    build(lake, pipeline, "raw", {day: 3})
    version = len(versions(lake.table_place("raw"))) - 1
    said = Receipt(
        "a", "arrivals", "manual", {}, inputs={"raw": version}, frontier=lake.settings.as_of
    )
    make_commit(
        lake.table_place("arrivals").local(), len(versions(lake.table_place("arrivals"))), said
    )


def why_raw(lake: Lake, pipeline: Pipeline, day: date) -> str:
    (found,) = [d for d in lake_status(lake, pipeline).tables["raw"] if d.day == day]
    assert found.state is State.STALE
    return found.reason


CHANGED = (
    "its landed files, as_of or what `replay-late` released changed since: {} file(s) name it now"
)


def test_a_loaded_day_names_what_may_have_changed_files_a_release_or_as_of(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    tags = {
        "event_days_from": str(START),
        "event_days_to": str(START),
        "arrival_days": str(START),
        "contents": "a-file",
    }
    make_commit(
        lake.table_place("too_late").local(),
        0,
        Receipt("r", "too_late", "replay-late", {}, note="n", tags=tags),
    )
    assert why_raw(lake, pipeline, START) == CHANGED.format(1)
    last = START + ONE_DAY * (DAYS - 1)
    noon = end_of(DAYS) - timedelta(hours=12)
    stopped = as_of(lake, noon)
    assert why_raw(stopped, pipeline, last) == CHANGED.format(1) + ", as_of is 2024-03-02T12:00Z"
    reload(stopped, pipeline, last)
    assert why_raw(lake, pipeline, last) == CHANGED.format(1)
    more = {**landed(START + ONE_DAY, NOW), "path": "more.jsonl", "sha256": "more"}
    write_rows(
        lake.table_place(FILES.name).local(), FILES, [more], Receipt("f", FILES.name, "scan", {})
    )
    assert why_raw(lake, pipeline, START + ONE_DAY) == CHANGED.format(2)


def test_days_that_were_others_before_are_named_until_a_newer_receipt_says_otherwise() -> None:
    receipt = DayReceipt(DayEntry(1, "f", "inputs"), 1, "write", "code", "settings", "run")
    latest = {day(n): replace(receipt, irreproducible=n != 2) for n in range(4)}
    view = replace(
        Story().view(),
        tables={"staging": TableView(1, latest), "labels": TableView(1, {day(0): receipt})},
    )
    ((name, told),) = irreproducible_days(view)
    assert name == "staging"
    assert told.startswith(
        f"staging {day(0)}..{day(1)}, {day(3)}: made again from the same inputs, code and settings"
    )


@pytest.mark.slow
def test_a_tick_of_the_sensor_is_enough_for_status_to_say_what_needs_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 3)
    name = f"{START}.jsonl"
    (lake.root / "landing" / name).unlink()
    sensors = {s.name: s for s in assemble(lake.root, tables).sensors or ()}
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance) as context,
    ):
        sensors["landing"].evaluate_tick(context)
    shown = CliRunner().invoke(app, ["status", "--lake", str(lake.root)])
    assert f"needs a person: 1 landed file(s) missing: {name}" in shown.output
    told = json.loads(
        CliRunner().invoke(app, ["status", "--json", "--lake", str(lake.root)]).output
    )
    assert len(told["needs_a_person"]) == 1


SAID = Provenance("", tags={"by": "ann@desk"})


def test_held_days_are_told_by_plan_and_chunk_and_else_by_table_and_days(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    made.chunk(1, (1, 2), 2)
    made.chunk(2, (3, 4), 3)
    made.write("features", {6: 5})
    roll_back(made.lake, made.pipeline, RollbackRequest(plan="p1", chunk="2"), SAID)
    alone = RollbackRequest(table="features", days=DayRange(day(6), day(7)), to_version=1)
    roll_back(made.lake, made.pipeline, alone, SAID)
    held = {table: made.of(table, State.HELD) for table in BUILT}
    chunk, table = rollback_holds(made.lake, made.states(), held)
    assert chunk.days == {name: (day(3), day(4)) for name in BUILT}
    assert chunk.release == "backfill-assets release --plan p1 --chunk 2 --yes"
    assert table.days == {"features": (day(6),)}
    assert table.release == f"backfill-assets release features --from {day(6)} --to {day(6)} --yes"
    assert table.to_dict()["plan"] is None
    assert rollback_holds(made.lake, made.states(), {}) == ()


THERE = {"entity": "STRING", "value": "BIGINT", "event_date": "DATE"}


def test_a_table_as_its_contract_says_and_one_not_made_yet_change_nothing() -> None:
    assert column_changes(STAGING, THERE) == column_changes(STAGING, {}) == ()


def test_what_is_gained_lost_and_cannot_be_is_told_by_name() -> None:
    country = Column("country", "STRING", "where", nullable=True)
    other = replace(
        STAGING,
        columns=(country, Column("value", "DECIMAL(18,2)", "v"), STAGING.columns[2]),
        key=(),
        inputs=(),
    )
    assert column_changes(other, THERE) == (
        "gets country STRING",
        "loses entity",
        "cannot be written: value is BIGINT, not DECIMAL(18,2)",
    )
