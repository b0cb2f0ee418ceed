"""Files that nothing needs any more: those go, and no version that is promised loses one.
Not here: which tables, and since when (`upkeep.test_maintain`)."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.landed_days import append_events, names_days
from backfill_assets.intake.ledger import FILES, read_files
from backfill_assets.kernel.core.errors import Altered
from backfill_assets.kernel.core.receipts import DayEntry, Provenance, Receipt
from backfill_assets.kernel.log.log import checkpoint_name
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.committer import commit_receipt
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, sweep_writes
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.write.audit import audit_files, audit_table
from backfill_assets.plans.restore import RestoreRequest, restore_partitions
from backfill_assets.upkeep.housekeeping import (
    MIB,
    MOST_LEDGER_FILES,
    _rewrite_days,
    compact_files,
    find_unneeded,
    remove_unneeded,
    uneven_files,
)
from backfill_assets_tests.builders import STAGING, day, receipt, write_rows
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.kernel.tables.test_commit_raised import files_row
from backfill_assets_tests.logs import commits
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")
LATER = datetime.now(UTC) + timedelta(days=100)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging has three days, of which the second was written three times."""
    made = bare_lake(tmp_path)
    publish(made, {0: 1, 1: 1, 2: 1})
    publish(made, {1: 2})
    publish(made, {1: 3})
    return made


def publish(lake: Lake, values: dict[int, int]) -> None:
    rows = [{"entity": "A", "value": v, "event_date": day(n)} for n, v in values.items()]
    publish_by_hand(lake, STAGING, rows, digest=str(values))


def content(lake: Lake, version: int | None = None) -> dict[Any, Any]:
    found = (
        DeltaTable(str(lake.table_place("staging").local()), version=version)
        .to_pyarrow_table()
        .to_pylist()
    )
    return {r["event_date"]: r["value"] for r in found}


def age(path: Path, days: int) -> None:
    then = datetime.now(UTC).timestamp() - 86_400 * days
    os.utime(path, (then, then))


def test_a_file_that_no_version_names_goes_when_it_is_old_enough(lake: Lake) -> None:
    folder = lake.table_place("staging").local() / "writes" / "elsewhere"
    folder.mkdir()
    for name, days in (("young", 0), ("old", 3)):
        (folder / f"{name}.parquet").write_bytes(b"12345")
        age(folder / f"{name}.parquet", days)
    gone = remove_unneeded(lake, STAGING, datetime.now(UTC) - timedelta(days=2))
    assert (gone.no_version, gone.bytes) == (("writes/elsewhere/old.parquet",), 5)
    assert [p.name for p in folder.iterdir()] == ["young.parquet"]


def test_a_write_under_way_keeps_its_files_however_old_they_are(lake: Lake) -> None:
    staged = stage_by_hand(lake, STAGING, [{"entity": "A", "value": 9, "event_date": day(4)}])
    age(Path(staged.files[0].path), 400)
    assert remove_unneeded(lake, STAGING, LATER).no_version == ()
    assert Path(staged.files[0].path).exists()
    staged.drop()
    sweep_writes(lake, STAGING.name)


def test_old_checkpoints_go_and_every_version_opens(lake: Lake) -> None:
    for n in range(57):
        commit_receipt(lake.table_place("staging"), receipt(write_id=f"w{n}"))
    log = lake.table_place("staging").local() / "_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) == 3
    gone = remove_unneeded(lake, STAGING, datetime.now(UTC) - timedelta(days=1))
    assert gone.checkpoints == (checkpoint_name(19),)
    assert [content(lake, v)[day(1)] for v in (1, 2, 30, 60)] == [1, 2, 3, 3]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 99), st.booleans()), min_size=2, max_size=9
    ),
    st.integers(0, 10),
    st.integers(0, 3),
)
@settings(max_examples=examples(10), deadline=None)
def test_no_version_since_loses_a_file(
    writes: Sequence[tuple[int, int, bool]], newest: int, stopped_after: int
) -> None:
    with TemporaryDirectory() as folder:
        lake = bare_lake(Path(folder))
        publish(lake, {0: 1, 1: 1, 2: 1})
        for number, value, back in writes:
            latest = LOGS.state(lake.table_place("staging"), "event_date").latest
            if back and latest[day(number)].version > 1:
                wanted = RestoreRequest(
                    STAGING, {day(number): 1}, {day(number): latest[day(number)].version}
                )
                restore_partitions(lake, wanted, Provenance("back"))
            elif latest[day(number)].entry.built != "held":
                publish(lake, {number: value})
        history = list(commits(lake.table_place("staging")))
        since = history[min(newest, len(history) - 1)].at
        held = {c.version: content(lake, c.version) for c in history[1:]}
        for name in find_unneeded(lake, STAGING, since).names[:stopped_after]:
            lake.table_place("staging").delete(name)
        remove_unneeded(lake, STAGING, since)
        promised = [v for v, after in pairwise(history[1:]) if after.at >= since] + history[-1:]
        for commit in promised:
            assert content(lake, commit.version) == held[commit.version]


WHOLE = 256 * MIB


def rows(number: int, values: Sequence[int]) -> list[dict[str, object]]:
    return [{"entity": f"e{v}", "value": v, "event_date": day(number)} for v in values]


def split(in_parts: Lake, number: int, parts: int = 3) -> Staged:
    """Rows of a day, staged in so many files."""
    staged = stage_by_hand(in_parts, STAGING, rows(number, range(parts)))
    for part in range(1, parts):
        more = stage_by_hand(in_parts, STAGING, rows(number, range(part * 10, part * 10 + 4)))
        target = Path(staged.files[0].path).with_name(f"part-{part}.parquet")
        Path(more.files[0].path).rename(target)
        more.drop()
        staged.files = (*staged.files, staged.file(target, str(day(number))))
    return staged


def publish_in_parts(in_parts: Lake, number: int, parts: int = 3) -> None:
    """Write a day in so many files, with its receipt."""
    staged = split(in_parts, number, parts)
    found = audit_files(in_parts, staged.paths, STAGING)[day(number)]
    said = Receipt(
        staged.write_id,
        "staging",
        "test",
        {day(number): DayEntry(found.rows, found.fingerprint, "d")},
    )
    with in_parts.store.lock("staging"):
        in_parts.store.replace_days(STAGING, staged, [day(number)], said)


@pytest.fixture
def in_parts(tmp_path: Path) -> Lake:
    """A lake whose table staging has three days, the first two in three files each."""
    made = bare_lake(tmp_path)
    for number, parts in enumerate((3, 3, 1)):
        publish_in_parts(made, number, parts)
    return made


def files_by_day(in_parts: Lake) -> list[int]:
    found = [f.partition for f in files_of_version(in_parts, STAGING)]
    return [found.count(str(day(n))) for n in range(3)]


def test_a_day_is_put_back_across_it_and_a_held_or_foreign_one_is_left_alone(
    in_parts: Lake,
) -> None:
    publish_in_parts(in_parts, 0, 1)  # version 4
    compact_files(LakeSession(in_parts), STAGING, WHOLE)
    seen = {day(0): in_parts.store.view("staging", "event_date").latest[day(0)].version}
    restore_partitions(in_parts, RestoreRequest(STAGING, {day(0): 3}, seen), Provenance("rollback"))
    assert files_by_day(in_parts) == [3, 1, 1], "as it was written"
    assert uneven_files(in_parts, STAGING, WHOLE) == {}, "held"
    publish_in_parts(in_parts, 1, 2)
    write_rows(in_parts.table_place("staging").local(), STAGING, rows(1, [99]))
    assert uneven_files(in_parts, STAGING, WHOLE) == {}, "foreign"


def test_a_large_file_is_split_and_the_parts_are_not_made_one_again(tmp_path: Path) -> None:
    in_parts, random = bare_lake(tmp_path), Random(5)
    publish_by_hand(in_parts, STAGING, rows(0, [random.getrandbits(62) for _ in range(300_000)]))
    held = audit_table(in_parts, STAGING)
    assert files_by_day(in_parts) == [1, 0, 0]
    assert [*compact_files(LakeSession(in_parts), STAGING, MIB)] == [str(day(0))]
    parts = files_by_day(in_parts)[0]
    assert parts > 1
    assert audit_table(in_parts, STAGING) == held
    assert not compact_files(LakeSession(in_parts), STAGING, MIB)
    compact_files(LakeSession(in_parts), STAGING, WHOLE)
    assert files_by_day(in_parts) == [1, 0, 0]


def test_a_day_that_was_written_meanwhile_is_left_as_it_is(in_parts: Lake) -> None:
    found = uneven_files(in_parts, STAGING, WHOLE)
    publish_in_parts(in_parts, 0, 2)
    version = in_parts.store.view("staging", "event_date").version
    assert [*_rewrite_days(LakeSession(in_parts), STAGING, found, WHOLE)] == [str(day(1))]
    assert files_by_day(in_parts) == [2, 1, 1]
    publish_in_parts(in_parts, 1, 2)
    assert (
        _rewrite_days(LakeSession(in_parts), STAGING, {str(day(1)): found[str(day(1))]}, WHOLE)
        == {}
    )
    assert in_parts.store.view("staging", "event_date").version == version + 2
    assert find_unneeded(in_parts, STAGING, LATER).no_version == (), "nothing is left over"


def test_a_file_that_was_altered_is_not_read(in_parts: Lake) -> None:
    name = uneven_files(in_parts, STAGING, WHOLE)[str(day(0))][0].path
    (in_parts.table_place("staging").local() / name).write_bytes(b"PAR1")
    with pytest.raises(Altered):
        compact_files(LakeSession(in_parts), STAGING, WHOLE)


@pytest.mark.long
def test_a_ledger_in_many_files_becomes_one_with_the_same_rows(tmp_path: Path) -> None:
    in_parts = bare_lake(tmp_path)
    for n in range(MOST_LEDGER_FILES):
        append_events(in_parts, [files_row(f"{n}.jsonl")], "scan", "")
    assert not uneven_files(in_parts, FILES, WHOLE)
    append_events(in_parts, [files_row("last.jsonl")], "scan", "")
    assert uneven_files(in_parts, FILES, WHOLE)
    before, rows = (
        read_files(in_parts.store),
        sorted(map(str, TableStore(in_parts).own_rows(FILES.name, FILES.day_column))),
    )
    assert len(compact_files(LakeSession(in_parts), FILES, WHOLE)[""]) == MOST_LEDGER_FILES + 1
    assert not uneven_files(in_parts, FILES, WHOLE)
    assert names_days(in_parts), "no row changed"
    assert read_files(in_parts.store) == before
    assert sorted(map(str, TableStore(in_parts).own_rows(FILES.name, FILES.day_column))) == rows
    append_events(in_parts, [files_row("after.jsonl")], "scan", "")
    assert len(read_files(in_parts.store)) == len(before) + 1
