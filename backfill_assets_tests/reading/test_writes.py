"""Writes of tables and of days, by their receipts.

Tested here: `reading.writes`. Not tested here: figures over them (`reports/test_report.py`).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Provenance, Receipt
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets.reading.writes import FOREIGN, day_audits, table_writes
from backfill_assets_tests.builders import day, make_commit, write_rows
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.synthetic import START, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """Eight days; chunk 2 of plan p1 wrote two of them, ann put it back."""
    found = Planned(tmp_path / "lake")
    found.chunk(2, (3, 4), 3)
    asked = RollbackRequest(plan="p1", chunk="2", note="off by one")
    roll_back(found.lake, found.pipeline, asked, Provenance("", tags={"by": "ann@desk"}))
    return found


def test_the_writes_of_a_day_tell_who_why_and_what_was_before_and_after(made: Planned) -> None:
    back, wrong, first = day_audits(made.lake, made.pipeline, "staging", day(3))
    assert (back.by, back.reason, back.note, back.plan, back.chunk) == (
        "ann@desk",
        "rollback",
        "off by one",
        "p1",
        "2",
    )
    assert (wrong.by, wrong.reason, wrong.run_id) == ("", "plan", "run-p1-2")
    assert (first.rows_before, first.fingerprint_before, first.rows) == (None, None, 1)
    assert wrong.fingerprint_before == first.fingerprint == back.fingerprint
    assert back.fingerprint_before == wrong.fingerprint
    assert [w.built for w in (back, wrong, first)] == ["held", "complete", "complete"]
    assert back.changed


def test_writes_are_found_by_plan_and_by_the_day_of_their_commit(made: Planned) -> None:
    of_plan = day_audits(made.lake, made.pipeline, plan="p1")
    assert len(of_plan) == 2 * 2 * 2, "two tables, two days, written and put back"
    today = datetime.now(UTC).date()
    assert day_audits(made.lake, made.pipeline, since=today + ONE_DAY) == ()
    assert len(day_audits(made.lake, made.pipeline)) == 8 * 3 + len(of_plan)
    with pytest.raises(BackfillError, match="no such table"):
        day_audits(made.lake, made.pipeline, "nix")


def test_a_commit_without_a_receipt_is_told_as_such(made: Planned) -> None:
    row = {"entity": "X", "value": 1, "event_date": day(3)}
    write_rows(made.lake.table_place("staging").local(), made.contract("staging"), [row])
    newest = day_audits(made.lake, made.pipeline, "staging")[0]
    assert (newest.day, newest.by, newest.version) == (None, FOREIGN, 4)


def test_every_commit_with_days_is_listed_newest_first(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 3)
    entries = {START: DayEntry(5, "F", "d"), START + ONE_DAY * 2: DayEntry(6, "F", "d")}
    said = Receipt("w", "staging", "late_data", entries, "run-2", "a note", seconds=1.5)
    later = datetime.now(UTC) + timedelta(days=1)
    make_commit(
        lake.table_place("staging").local(),
        2,
        said,
        info={"inCommitTimestamp": int(later.timestamp() * 1000)},
    )
    found = table_writes(lake, pipeline)
    assert [w.table for w in found[1:]].count("staging") == 1
    newest = found[0]
    assert (newest.table, newest.version, newest.rows, newest.seconds) == ("staging", 2, 11, 1.5)
    assert (newest.reason, newest.note, newest.run_id) == ("late_data", "a note", "run-2")
    assert newest.days == (
        DayRange(START, START + ONE_DAY),
        DayRange(START + ONE_DAY * 2, START + ONE_DAY * 3),
    )
    assert found[1].seconds is None, "a receipt of before says nothing of its time"
