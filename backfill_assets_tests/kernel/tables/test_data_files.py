"""Bytes per day from the log: data files in force, no others.
Not here: reading them (`end_to_end.test_changed_payload`)."""

from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.kernel.tables.data_files import (
    PlainFiles,
    day_bytes,
    files_of_version,
    plain_files,
    undamaged_files,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import place_of

pytestmark = pytest.mark.usefixtures("storages")


ROWS = [{"entity": "A", "value": 1, "event_date": day(n)} for n in range(3)]


def test_the_files_of_the_wanted_days_are_chosen_at_the_version_asked_for(lake: Lake) -> None:
    path = lake.table_place("staging").local()
    first = publish_by_hand(lake, STAGING, ROWS).version
    second = publish_by_hand(lake, STAGING, [ROWS[1] | {"value": 2}]).version

    def files(version: int, days: list[date] | None) -> PlainFiles:
        found = plain_files(place_of(path), version, "event_date", days)
        assert found is not None
        return found

    before, after = (files(version, [day(1), day(9)]) for version in (first, second))
    assert [len(before.paths), len(after.paths)] == [1, 1]
    assert before.paths != after.paths
    assert dict(after.columns) == {"entity": "string", "value": "bigint", "event_date": "date"}
    every = files(second, None).paths
    assert [len(every), len(files(second, []).paths)] == [3, 0]
    sizes = {
        day(n): sum(Path(p).stat().st_size for p in every if f"={day(n)}/" in str(p))
        for n in range(3)
    }
    assert day_bytes(lake, STAGING) == sizes


def test_what_plain_files_cannot_tell_is_left_to_deltas_own_reader(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path / "lake")
    path = lake.table_place("staging").local()
    version = publish_by_hand(lake, STAGING, ROWS).version
    assert plain_files(place_of(path), version, "another_date", None) is None, (
        "not laid out by its day"
    )
    odd = bare_lake(tmp_path / "a [lake]")
    version = publish_by_hand(odd, STAGING, ROWS).version
    assert plain_files(odd.table_place("staging"), version, "event_date", None) is None, (
        "Spark would see a pattern"
    )
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    assert (
        plain_files(place_of(path), DeltaTable(path).version(), "event_date", None) is not None
    ), "others' files, our layout"


def test_a_lost_file_takes_the_other_files_of_its_partition_with_it_and_no_more(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path / "lake")
    publish_by_hand(lake, STAGING, ROWS)
    lost = files_of_version(lake, STAGING)[:1]
    whole = undamaged_files(lake, STAGING, None, lost)
    assert len(whole) == 2
    assert not [path for path in whole if str(lost[0].partition) in path]
    assert len(undamaged_files(lake, STAGING, None, ())) == 3
