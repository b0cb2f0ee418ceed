"""Every write of every day is told with who, why, and what was there before; nothing is kept but the logs. No JVM."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.profiles import SCHEME
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.log import versions
from backfill_assets.lake.replace import Provenance
from backfill_assets.operations.rollback import RollbackRequest, roll_back
from backfill_assets.operations.write_history import FOREIGN, AuditRequest, audit, write_table
from backfill_assets_tests.builders import day, make_commit, write_rows
from backfill_assets_tests.operations.planned import Planned

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
    back, wrong, first = audit(made.lake, made.pipeline, AuditRequest("staging", day(3)))
    assert (back.by, back.reason, back.note, back.plan, back.chunk) == ("ann@desk", "rollback", "off by one", "p1", "2")
    assert (wrong.by, wrong.reason, wrong.run_id) == ("", "plan", "run-p1-2")
    assert (first.rows_before, first.fingerprint_before, first.rows) == (None, None, 1)
    assert wrong.fingerprint_before == first.fingerprint == back.fingerprint
    assert back.fingerprint_before == wrong.fingerprint
    assert [w.built for w in (back, wrong, first)] == ["held", "complete", "complete"]
    assert back.to_dict()["changed"]


def test_writes_are_found_by_plan_and_by_the_day_of_their_commit(made: Planned) -> None:
    of_plan = audit(made.lake, made.pipeline, AuditRequest(plan="p1"))
    assert len(of_plan) == 2 * 2 * 2, "two tables, two days, written and put back"
    today = datetime.now(UTC).date()
    assert audit(made.lake, made.pipeline, AuditRequest(since=today + ONE_DAY)) == ()
    assert len(audit(made.lake, made.pipeline)) == 8 * 3 + len(of_plan)
    with pytest.raises(BackfillError, match="no such table"):
        audit(made.lake, made.pipeline, AuditRequest("nix"))


def test_a_commit_without_a_receipt_is_told_as_such(made: Planned) -> None:
    row = {"entity": "X", "value": 1, "event_date": day(3)}
    write_rows(made.lake.table_path("staging"), made.contract("staging"), [row])
    newest = audit(made.lake, made.pipeline, AuditRequest("staging"))[0]
    assert (newest.day, newest.by, newest.version) == (None, FOREIGN, 4)


def test_the_table_of_the_audit_can_be_read_by_any_engine(made: Planned, tmp_path: Path) -> None:
    import duckdb

    found = audit(made.lake, made.pipeline)
    file = tmp_path / "audit.parquet"
    assert write_table(found, file) == len(found) == pq.read_metadata(file).num_rows
    query = f"SELECT \"table\", count(*) FROM '{file}' WHERE plan = 'p1' AND changed GROUP BY 1 ORDER BY 1"
    assert duckdb.execute(query).fetchall() == [("features", 4), ("staging", 4)]


def test_days_count_as_changed_where_fingerprints_of_two_kinds_say_nothing(made: Planned) -> None:
    path, stamp = made.lake.table_path("staging"), made.states().stamp("staging", day(5))
    assert stamp
    for number, scheme in enumerate((SCHEME - 1, SCHEME, SCHEME)):
        told = Receipt(f"w{number}", "staging", "manual", {day(5): replace(stamp.entry, scheme=scheme)})
        make_commit(path, len(versions(path)), told)
    found = audit(made.lake, made.pipeline, AuditRequest("staging", day(5)))
    newest = sorted(found, key=lambda w: w.version)[-3:]
    assert [w.changed for w in newest] == [True, True, False]
