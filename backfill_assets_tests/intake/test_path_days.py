"""Days that paths name, from the scan to raw, also of files that an earlier release counted. Not
here: the reading (`intake.test_paths`)."""

import hashlib
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.landed_changes import counting_digest
from backfill_assets.intake.ledger import FILES, LANDED, read_files
from backfill_assets.intake.scan import scan_source
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import receipt, write_rows
from backfill_assets_tests.lakes import Delivery, backfill, content, delivery, land, make_lake

START, MARCH = date(2024, 2, 1), date(2024, 3, 1)
NOW = datetime(2025, 1, 1, tzinfo=UTC)
STORE = "year=2024/region=12/store=7/2024-03-01.jsonl"
SELECT = "seq, version_ts, event_ts, event_key, op, entity, value, flag"


def row(seq: int, value: int) -> Delivery:
    return delivery(seq, "2024-02-28T10:00:00Z", None, "k", value=value)


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> Lake:
    source = {"files": "landing/**", "format": "jsonl", "select": SELECT}
    files = {STORE: [row(1, 1)], "dt=2024-03-02/a.jsonl": [row(2, 2)]}
    return make_lake(tmp_path / "lake", files, START, source=source)


def numbers(lake: Lake, first: date, last: date) -> list[int]:
    """The `seq` of all rows of raw, after a load of these days."""
    backfill(lake, first, last, ["raw"])
    return sorted(
        r["seq"]
        for r in DeltaTable(str(lake.table_place("raw").local())).to_pyarrow_table().to_pylist()
    )


def days_of(lake: Lake) -> dict[str, list[date]]:
    return {r.path: [*r.days] for r in read_files(lake.store) if not r.withdrawn}


def test_a_new_lake_reads_only_days_that_a_path_says(lake: Lake) -> None:
    land(lake, "year=2024/week=09/day=3/o.jsonl", [row(3, 3)])
    scan_source(LakeSession(lake))
    found = days_of(lake)
    assert (found[STORE], found["year=2024/week=09/day=3/o.jsonl"]) == ([MARCH], [START])
    assert scan_source(LakeSession(lake)).is_clean
    assert numbers(lake, START, date(2024, 3, 2)) == [1, 2]
    (aside,) = content(lake, "quarantine")
    assert "the path names no day such as dt=2024-03-01/ (or several)" in str(aside)


def counted_by_an_earlier_release(lake: Lake) -> None:
    """The ledger of a scan that noted with a `+` which paths another release had read otherwise."""
    path = lake.root / "landing" / STORE
    seen, content = path.stat(), hashlib.sha256(path.read_bytes()).hexdigest()
    record = {
        "event": LANDED,
        "path": STORE,
        "sha256": content_name_by_path(content, STORE),
        "arrival_date": MARCH,
        "rows": 1,
        "bad_rows": 0,
        "usable_rows": 1,
        "size": seen.st_size,
        "mtime_ns": seen.st_mtime_ns,
        "first_scan": NOW,
        "home_day": MARCH,
        "recorded_at": NOW,
        "counted_by": f"{counting_digest(lake.settings)}+",
        "note": None,
    }
    write_rows(lake.table_place(FILES.name).local(), FILES, [record], receipt(FILES.name, {}))


def test_files_that_an_earlier_release_counted_are_not_counted_again(lake: Lake) -> None:
    counted_by_an_earlier_release(lake)
    scan_source(LakeSession(lake))
    (known,) = [r for r in read_files(lake.store) if r.path == STORE]
    assert (known.recorded_at, [*known.days]) == (NOW, [MARCH])
    assert numbers(lake, MARCH, MARCH) == [1]
