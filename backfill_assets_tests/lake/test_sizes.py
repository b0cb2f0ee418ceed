"""Bytes per day from the log: data files in force, no others.

Tested here: `lake.sizes`.
"""

from pathlib import Path

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.sizes import SAMPLED_COMMITS, day_bytes, row_bytes
from backfill_assets_tests.builders import STAGING, day, make_commit, write_rows


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"entity": f"e{n}", "value": n, "event_date": day(n)} for n in numbers]


def test_every_day_has_the_size_of_its_files(tmp_path: Path) -> None:
    table = tmp_path / "staging"
    write_rows(table, STAGING, rows(0, 1), Receipt("w", "staging", "manual", {}))
    write_rows(table, STAGING, rows(1), Receipt("x", "staging", "manual", {}))
    found = day_bytes(table, "event_date")
    on_disk = {
        d: sum(f.stat().st_size for f in table.glob(f"event_date={d}/*.parquet")) for d in (day(0), day(0) + ONE_DAY)
    }
    assert found == on_disk
    assert found[day(1)] > found[day(0)]


def test_a_row_has_its_size_also_below_receipts_that_brought_no_file(tmp_path: Path) -> None:
    table = tmp_path / "staging"
    write_rows(table, STAGING, rows(0, 1), Receipt("w", "staging", "manual", {}))
    told = row_bytes(table)
    assert told == sum(day_bytes(table, "event_date").values()) / 2
    for n in range(SAMPLED_COMMITS + 1):
        make_commit(table, 1 + n, Receipt(f"x{n}", "staging", "manual", {}))
    assert row_bytes(table) == told


def test_a_table_that_is_not_there_has_no_days(tmp_path: Path) -> None:
    assert day_bytes(tmp_path / "none", "event_date") == {}
    assert row_bytes(tmp_path / "none") == 0.0
