"""The history over all tables, and how long writes take.

Tested here: `operations.report`. Not tested here: that a receipt knows its seconds (`end_to_end`, `cli/test_demo.py`).
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.report import FOREIGN, TableWrite, audit
from backfill_assets.operations.rollback import RollbackRequest, roll_back
from backfill_assets_tests.builders import day, write_rows
from backfill_assets_tests.operations.planned import Planned
from backfill_assets_tests.operations.synthetic import START

AT = datetime(2026, 1, 1, tzinfo=UTC)


def written(seconds: float | None, table: str = "staging", days: int = 1) -> TableWrite:
    return TableWrite(table, 1, AT, (DayRange(START, START + ONE_DAY * days),), 0, "manual", "", "", seconds)


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
    back, wrong, first = audit(made.lake, made.pipeline, "staging", day(3))
    assert (back.by, back.reason, back.note, back.plan, back.chunk) == ("ann@desk", "rollback", "off by one", "p1", "2")
    assert (wrong.by, wrong.reason, wrong.run_id) == ("", "plan", "run-p1-2")
    assert (first.rows_before, first.fingerprint_before, first.rows) == (None, None, 1)
    assert wrong.fingerprint_before == first.fingerprint == back.fingerprint
    assert back.fingerprint_before == wrong.fingerprint
    assert [w.built for w in (back, wrong, first)] == ["held", "complete", "complete"]
    assert back.changed


def test_writes_are_found_by_plan_and_by_the_day_of_their_commit(made: Planned) -> None:
    of_plan = audit(made.lake, made.pipeline, plan="p1")
    assert len(of_plan) == 2 * 2 * 2, "two tables, two days, written and put back"
    today = datetime.now(UTC).date()
    assert audit(made.lake, made.pipeline, since=today + ONE_DAY) == ()
    assert len(audit(made.lake, made.pipeline)) == 8 * 3 + len(of_plan)
    with pytest.raises(BackfillError, match="no such table"):
        audit(made.lake, made.pipeline, "nix")


def test_a_commit_without_a_receipt_is_told_as_such(made: Planned) -> None:
    row = {"entity": "X", "value": 1, "event_date": day(3)}
    write_rows(made.lake.table_place("staging").local(), made.contract("staging"), [row])
    newest = audit(made.lake, made.pipeline, "staging")[0]
    assert (newest.day, newest.by, newest.version) == (None, FOREIGN, 4)
