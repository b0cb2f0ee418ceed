"""Files of a table that are lost, and which others are left out with them. Not here: what the
doctor says of such days (`upkeep.test_doctor_tables`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.upkeep.damaged_files import undamaged_files
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

ROWS = [{"entity": "A", "value": 1, "event_date": day(n)} for n in range(3)]


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
