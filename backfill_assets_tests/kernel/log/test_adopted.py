"""Where the history of an adopted table begins, by names and by the files at a version.
Not here: adopting (`test_adopting.py`)."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.kernel.log.adopted import adopted_files, adoption_mark, first_version


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ([], 0),
        (["00000000000000000003.json", ".head"], 0),
        ([adoption_mark(7), "00000000000000000007.json"], 7),
        ([adoption_mark(7), adoption_mark(12)], 12),  # a killed adoption left the earlier one
        (
            [adoption_mark(7), f"{adoption_mark(8)}.ae584a17d1854b8db8336b1c60e53264"],
            7,
        ),  # killed, or about to name it
    ],
)
def test_the_newest_mark_in_a_log_says_where_the_history_begins(
    names: list[str], first: int
) -> None:
    assert first_version(names) == first


def test_the_files_at_a_version_come_as_additions_of_the_protocol(tmp_path: Path) -> None:
    rows = pa.table({"day": [date(2024, 1, 1), None], "id": ["a", "b"]})
    write_deltalake(tmp_path / "t", rows, partition_by="day")
    write_deltalake(tmp_path / "t", rows, mode="append")
    found = [action["add"] for action in adopted_files(str(tmp_path / "t"), 0)]
    assert sorted(str(add["partitionValues"]["day"]) for add in found) == ["2024-01-01", "None"]
    assert [(add["stats"], add["dataChange"]) for add in found] == [
        ('{"numRecords": 1}', False)
    ] * 2
    assert all((tmp_path / "t" / add["path"]).stat().st_size == add["size"] for add in found)
