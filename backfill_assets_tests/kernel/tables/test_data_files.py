"""The data files of a version of a table, and of its days. Not here: files that are gone or altered
(`kernel.tables.test_store`), and those that alone give the rows (`engines.test_table_frames`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import Altered, ContractBroken
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.data_files import (
    day_bytes,
    files_of_days,
    files_of_version,
    live_files,
    refuse_altered_version,
)
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

ROWS = [{"entity": "A", "value": 1, "event_date": day(n)} for n in range(3)]


def test_files_are_those_of_the_version_and_the_days_asked_for(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    first = publish_by_hand(lake, STAGING, ROWS).version
    second = publish_by_hand(lake, STAGING, [ROWS[1] | {"value": 2}]).version
    before, after = (files_of_version(lake, STAGING, v) for v in (first, second))
    assert [f.partition for f in sorted(after, key=lambda f: f.partition or "")] == [
        str(day(n)) for n in range(3)
    ]
    kept = {*before} & {*after}
    assert {f.partition for f in kept} == {str(day(0)), str(day(2))}
    assert files_of_days(after, STAGING, [day(1), day(9)]) == [f for f in after if f not in kept]
    assert day_bytes(lake, STAGING) == {
        day(n): sum(f.size for f in after if f.partition == str(day(n))) for n in range(3)
    }
    path = lake.table_place("staging").local()
    assert {f.path: f.size for f in after} == {
        f.path: (path / f.path).stat().st_size for f in after
    }


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_version_whose_files_are_gone_or_altered_is_refused(
    tmp_path: Path, has_checkpoint: bool
) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, ROWS)
    place = lake.table_place("staging")
    if has_checkpoint:
        LOGS.opened_to_write(place).create_checkpoint()
    publish_by_hand(lake, STAGING, [ROWS[1] | {"value": 2}])
    refuse_altered_version(lake, STAGING)
    for file in files_of_version(lake, STAGING):
        path = place.local(file.path)
        content = path.read_bytes()
        for spoiled in (content + b" ", None):
            path.unlink()
            if spoiled is not None:
                path.write_bytes(spoiled)
            with pytest.raises(Altered, match=f"{file.path} (was altered|is gone)"):
                refuse_altered_version(lake, STAGING)
        path.write_bytes(content)
    refuse_altered_version(lake, STAGING)


def test_files_that_are_not_laid_out_by_the_column_are_refused(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, ROWS)
    opened = LOGS.opened(lake.table_place("staging"))
    with pytest.raises(ContractBroken, match="laid out by event_date, not by arrival_date"):
        live_files(opened, "arrival_date")
