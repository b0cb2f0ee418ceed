"""Bytes per day from the log: data files in force, no others.

Tested here: `lake.data_files`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.data_files import (
    day_bytes,
    plain_files,
)
from backfill_assets_tests.builders import STAGING, day, write_rows
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import place_of

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("storages")


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"entity": f"e{n}", "value": n, "event_date": day(n)} for n in numbers]


def test_every_day_has_the_size_of_its_files(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    table = lake.table_place("staging").local()
    write_rows(table, STAGING, rows(0, 1), Receipt("w", "staging", "manual", {}))
    write_rows(table, STAGING, rows(1), Receipt("x", "staging", "manual", {}))
    found = day_bytes(lake, STAGING)
    on_disk = {
        d: sum(f.stat().st_size for f in table.glob(f"event_date={d}/*.parquet")) for d in (day(0), day(0) + ONE_DAY)
    }
    assert found == on_disk
    assert found[day(1)] > found[day(0)]


ROWS = [{"entity": "A", "value": 1, "event_date": day(n)} for n in range(3)]


def test_the_files_of_the_wanted_days_are_chosen_at_the_version_asked_for(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    path = lake.table_place("staging").local()
    first = publish_by_hand(lake, STAGING, ROWS).version
    second = publish_by_hand(lake, STAGING, [ROWS[1] | {"value": 2}]).version
    before, after = (plain_files(place_of(path), v, "event_date", [day(1), day(9)]) for v in (first, second))
    assert before is not None
    assert after is not None
    assert [len(before.paths), len(after.paths)] == [1, 1]
    assert before.paths != after.paths
    assert dict(after.columns) == {"entity": "string", "value": "bigint", "event_date": "date"}
    every = plain_files(place_of(path), second, "event_date", None)
    none = plain_files(place_of(path), second, "event_date", [])
    assert every is not None
    assert none is not None
    assert [len(every.paths), len(none.paths)] == [3, 0]
    assert all(Path(p).is_file() for p in every.paths)


def test_what_plain_files_cannot_tell_is_left_to_deltas_own_reader(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path / "lake")
    path = lake.table_place("staging").local()
    version = publish_by_hand(lake, STAGING, ROWS).version
    assert plain_files(place_of(path), version, "another_date", None) is None, "not laid out by its day"
    odd = bare_lake(tmp_path / "a [lake]")
    version = publish_by_hand(odd, STAGING, ROWS).version
    assert plain_files(odd.table_place("staging"), version, "event_date", None) is None, "Spark would see a pattern"
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    assert plain_files(place_of(path), DeltaTable(path).version(), "event_date", None) is not None, (
        "others' files, our layout"
    )
