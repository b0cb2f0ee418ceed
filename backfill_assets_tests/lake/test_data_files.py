"""Bytes per day from the log: data files in force, no others.

Tested here: `lake.data_files`.
"""

from pathlib import Path

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.data_files import day_bytes, linked
from backfill_assets_tests.builders import STAGING, day, write_rows
from backfill_assets_tests.files import bare_lake


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"entity": f"e{n}", "value": n, "event_date": day(n)} for n in numbers]


def test_every_day_has_the_size_of_its_files(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    table = lake.table_path("staging")
    write_rows(table, STAGING, rows(0, 1), Receipt("w", "staging", "manual", {}))
    write_rows(table, STAGING, rows(1), Receipt("x", "staging", "manual", {}))
    found = day_bytes(lake, STAGING)
    on_disk = {
        d: sum(f.stat().st_size for f in table.glob(f"event_date={d}/*.parquet")) for d in (day(0), day(0) + ONE_DAY)
    }
    assert found == on_disk
    assert found[day(1)] > found[day(0)]


def test_every_file_lies_once_below_its_value_even_where_names_are_equal(tmp_path: Path) -> None:
    files = []
    for write in ("one", "two"):
        path = tmp_path / write / "part-0.parquet"
        path.parent.mkdir()
        path.write_text(write)
        files.append(("2024-03-01", path))
    folder = linked(tmp_path, "day", files)
    assert sorted(p.read_text() for p in (folder / "day=2024-03-01").iterdir()) == ["one", "two"]
    assert linked(tmp_path, "day", files) != folder
