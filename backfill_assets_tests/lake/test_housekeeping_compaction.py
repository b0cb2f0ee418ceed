"""Days in files of better sizes: the same rows, receipts and states, for every reader nothing new.

Tested here: `lake.housekeeping` on real tables, without an engine. Not tested here: which tables
(`operations.maintain`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

from backfill_assets.core.errors import Altered
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.audit import audit, audit_table
from backfill_assets.lake.data_files import files_of
from backfill_assets.lake.home import Lake
from backfill_assets.lake.housekeeping import MIB, MOST_LEDGER_FILES, _compacted, compact, find_unneeded, uneven_files
from backfill_assets.lake.ledger import FILES, read_files
from backfill_assets.lake.log import file_changes
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.restore import RestoreRequest, restore_partitions
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged, StagedFile
from backfill_assets.lake.store import TableStore
from backfill_assets.load import scan
from backfill_assets_tests.builders import STAGING, day, write_rows
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.lake.test_commit_raised import files_row

pytestmark = pytest.mark.usefixtures("storages")

WHOLE = 256 * MIB


def rows(number: int, values: Sequence[int]) -> list[dict[str, object]]:
    return [{"entity": f"e{v}", "value": v, "event_date": day(number)} for v in values]


def split(lake: Lake, number: int, parts: int = 3) -> Staged:
    """Rows of a day, staged in so many files."""
    staged = stage_by_hand(lake, STAGING, rows(number, range(parts)))
    for part in range(1, parts):
        more = stage_by_hand(lake, STAGING, rows(number, range(part * 10, part * 10 + 4)))
        target = staged.files[0].path.with_name(f"part-{part}.parquet")
        more.files[0].path.rename(target)
        more.drop()
        staged.files = (*staged.files, StagedFile(target, str(day(number))))
    return staged


def publish(lake: Lake, number: int, parts: int = 3) -> None:
    """Write a day in so many files, with its receipt."""
    staged = split(lake, number, parts)
    found = audit(lake, staged.paths, STAGING)[day(number)]
    said = Receipt(staged.write_id, "staging", "test", {day(number): DayEntry(found.rows, found.fingerprint, "d")})
    with lake.store.lock("staging"):
        lake.store.replace_days(STAGING, staged, [day(number)], said)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging has three days, the first two in three files each."""
    made = bare_lake(tmp_path)
    for number, parts in enumerate((3, 3, 1)):
        publish(made, number, parts)
    return made


def files_by_day(lake: Lake) -> list[int]:
    found = [f.partition for f in files_of(lake, STAGING)]
    return [found.count(str(day(n))) for n in range(3)]


def test_small_files_of_a_day_become_one_and_nothing_else_changes(lake: Lake) -> None:
    view, held = lake.store.view("staging", "event_date"), audit_table(lake, STAGING)
    assert files_by_day(lake) == [3, 3, 1]
    assert [*uneven_files(lake, STAGING, WHOLE)] == [str(day(0)), str(day(1))]
    assert [*compact(lake, STAGING, WHOLE)] == [str(day(0)), str(day(1))]
    assert files_by_day(lake) == [1, 1, 1]
    after = lake.store.view("staging", "event_date")
    assert (after.stamps, after.foreign, after.version) == (view.stamps, view.foreign, view.version + 1)
    assert audit_table(lake, STAGING) == held
    path = lake.table_path("staging")
    changes = [*file_changes(path, after.version)]
    assert [c.moves_rows for c in changes] == [False] * len(changes), "readers of changes see none"
    assert DeltaTable(str(path), version=view.version).to_pyarrow_table().num_rows == sum(p.rows for p in held.values())
    assert not compact(lake, STAGING, WHOLE), "once more, nothing is uneven"
    assert lake.store.view("staging", "event_date").version == after.version


def test_a_day_is_put_back_across_it_and_a_held_or_foreign_one_is_left_alone(lake: Lake) -> None:
    publish(lake, 0, 1)  # version 4
    compact(lake, STAGING, WHOLE)
    seen = {day(0): lake.store.view("staging", "event_date").stamps[day(0)].version}
    restore_partitions(lake, RestoreRequest(STAGING, {day(0): 3}, seen), Provenance("rollback"))
    assert files_by_day(lake) == [3, 1, 1], "as it was written"
    assert uneven_files(lake, STAGING, WHOLE) == {}, "held"
    publish(lake, 1, 2)
    write_rows(lake.table_path("staging"), STAGING, rows(1, [99]))
    assert uneven_files(lake, STAGING, WHOLE) == {}, "foreign"


def test_a_large_file_is_split_and_the_parts_are_not_made_one_again(tmp_path: Path) -> None:
    lake, random = bare_lake(tmp_path), Random(5)
    publish_by_hand(lake, STAGING, rows(0, [random.getrandbits(62) for _ in range(300_000)]))
    held = audit_table(lake, STAGING)
    assert files_by_day(lake) == [1, 0, 0]
    assert [*compact(lake, STAGING, MIB)] == [str(day(0))]
    parts = files_by_day(lake)[0]
    assert parts > 1
    assert audit_table(lake, STAGING) == held
    assert not compact(lake, STAGING, MIB)
    compact(lake, STAGING, WHOLE)
    assert files_by_day(lake) == [1, 0, 0]


def test_a_day_that_was_written_meanwhile_is_left_as_it_is(lake: Lake) -> None:
    found = uneven_files(lake, STAGING, WHOLE)
    publish(lake, 0, 2)
    version = lake.store.view("staging", "event_date").version
    assert [*_compacted(lake, STAGING, found, WHOLE)] == [str(day(1))]
    assert files_by_day(lake) == [2, 1, 1]
    publish(lake, 1, 2)
    assert _compacted(lake, STAGING, {str(day(1)): found[str(day(1))]}, WHOLE) == {}
    assert lake.store.view("staging", "event_date").version == version + 2
    assert find_unneeded(lake, STAGING, datetime.now(UTC) + timedelta(days=1)).no_version == (), "nothing is left over"


def test_a_file_that_was_altered_is_not_read(lake: Lake) -> None:
    (lake.table_path("staging") / uneven_files(lake, STAGING, WHOLE)[str(day(0))][0].path).write_bytes(b"PAR1")
    with pytest.raises(Altered):
        compact(lake, STAGING, WHOLE)


def test_a_ledger_in_many_files_becomes_one_with_the_same_rows(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    session = LakeSession(lake)
    for n in range(MOST_LEDGER_FILES):
        scan._append(session, [files_row(f"{n}.jsonl")], "scan", "")
    assert not uneven_files(lake, FILES, WHOLE)
    scan._append(session, [files_row("last.jsonl")], "scan", "")
    assert uneven_files(lake, FILES, WHOLE)
    before, rows = read_files(lake.store), sorted(map(str, TableStore(lake).own_rows(FILES.name)))
    assert len(compact(lake, FILES, WHOLE)[""]) == MOST_LEDGER_FILES + 1
    assert not uneven_files(lake, FILES, WHOLE)
    assert read_files(lake.store) == before
    assert sorted(map(str, TableStore(lake).own_rows(FILES.name))) == rows
    scan._append(session, [files_row("after.jsonl")], "scan", "")
    assert len(read_files(lake.store)) == len(before) + 1
