"""The committer: exact files in and out, one receipt per commit, every wrong action refused before
it is written. Not here: which files a publish chooses (`test_replace`), and races of processes
(`end_to_end.test_races`)."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, parse_receipt
from backfill_assets.kernel.log.log import FILE_DIGEST_CHARS, LiveFile, file_changes
from backfill_assets.kernel.log.log_state import KEEP_EVERY
from backfill_assets.kernel.log.state_files import kept_versions
from backfill_assets.kernel.tables import committer
from backfill_assets.kernel.tables.committer import (
    Conflict,
    commit_files,
    commit_receipt,
    open_table,
)
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.tables.store import ensure_table
from backfill_assets.upkeep.inspection import file_digests
from backfill_assets_tests.builders import RAW, STAGING, day, receipt
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.logs import commit_file, find_write, place_of, state_file

pytestmark = pytest.mark.usefixtures("storages")

DAYS = {day(n): DayEntry(1, "F", "digest") for n in range(3)}


def rows(*numbers: int, value: int | None = 1) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": value, "event_date": day(n)} for n in numbers]


def said(write_id: str) -> Any:
    return receipt(write_id=write_id, days=DAYS)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging holds a row on each of three days; its folder has a name that
    needs quoting."""
    made = bare_lake(tmp_path / "it's a `lake`")
    ensure_table(made, STAGING)
    commit(made, stage_by_hand(made, STAGING, rows(0, 1, 2)))
    return made


def path_of(lake: Lake) -> Path:
    return lake.table_place("staging").local()


def commit(lake: Lake, staged: Staged, removes: list[LiveFile] | None = None) -> int:
    version = commit_files(
        place_of(path_of(lake)), STAGING, said(staged.write_id), staged.files, removes or []
    )
    staged.keep([f.name for f in staged.files])
    return version


def live(lake: Lake) -> dict[str | None, LiveFile]:
    return {f.partition: f for f in live_files(open_table(place_of(path_of(lake))), "event_date")}


def content(lake: Lake) -> list[tuple[Any, Any]]:
    found = DeltaTable(str(path_of(lake))).to_pyarrow_table().to_pylist()
    return sorted((r["event_date"], r["value"]) for r in found)


def test_exactly_the_named_files_come_and_go_in_one_commit_with_its_receipt(lake: Lake) -> None:
    gone, staged = live(lake)[str(day(1))], stage_by_hand(lake, STAGING, rows(1, value=7))
    assert commit(lake, staged, [gone]) == 2
    assert content(lake) == [(day(0), 1), (day(1), 7), (day(2), 1)]
    newest = parse_receipt(DeltaTable(str(path_of(lake))).history(1)[0]["userMetadata"])
    assert newest is not None
    assert newest.write_id == staged.write_id


def test_a_commit_names_the_digest_of_a_file_that_an_engine_took_and_reads_the_others(
    lake: Lake,
) -> None:
    staged = stage_by_hand(lake, STAGING, rows(0, 1, value=7))
    first, second = sorted(staged.files, key=lambda f: f.name)
    staged.files = (second, replace(first, engine_digest="0123456789abcdef"))
    version = commit(lake, staged)
    changes = file_changes(place_of(path_of(lake)), version)
    read = staged.table.sha256(second.name)[:FILE_DIGEST_CHARS]
    named = file_digests(place_of(path_of(lake)), version, changes)
    assert named == {first.name: "0123456789abcdef", second.name: read}


def test_a_write_id_is_committed_once_however_often_it_is_sent(lake: Lake) -> None:
    commit_receipt(place_of(path_of(lake)), said("again"))
    with pytest.raises(BackfillError, match="holds the write again already"):
        commit_receipt(place_of(path_of(lake)), said("again"))


def test_a_file_that_no_longer_lives_cannot_be_removed(lake: Lake) -> None:
    gone = live(lake)[str(day(1))]
    commit(lake, stage_by_hand(lake, STAGING, rows(1, value=7)), [gone])
    staged = stage_by_hand(lake, STAGING, rows(1, value=8))
    with pytest.raises(Conflict, match="is to be removed and is no file of version 2"):
        commit(lake, staged, [gone])
    assert (day(1), 7) in content(lake)


def _path(staged: Staged) -> Path:
    return Path(staged.files[0].path)


def _other(**columns: Any) -> Callable[[Staged], None]:
    return lambda staged: pq.write_table(pa.table(columns), _path(staged))


def _of_day(value: str | None) -> Callable[[Staged], None]:
    return lambda staged: setattr(staged, "files", (replace(staged.files[0], partition=value),))


SPOILT: dict[str, Callable[[Staged], object]] = {
    "vanished": lambda staged: _path(staged).unlink(),
    "torn": lambda staged: _path(staged).write_bytes(_path(staged).read_bytes()[:-9]),
    "another column": _other(entity=["A"], amount=[1]),
    "another type": _other(entity=["A"], value=[1.5]),
    "NULL in the key": _other(entity=pa.array([None], pa.string()), value=[1]),
    "without a day": _of_day(None),
    "of a day that is none": _of_day("x' OR 1=1"),
    "of another day": _of_day(str(day(9))),
    "twice": lambda staged: setattr(staged, "files", (*staged.files, *staged.files)),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_whatever_is_wrong_with_a_file_the_table_stays_as_it_is(
    lake: Lake, spoil: Callable[[Staged], object]
) -> None:
    before, staged = content(lake), stage_by_hand(lake, STAGING, rows(1, value=7))
    spoil(staged)
    with pytest.raises((BackfillError, OSError)):
        commit(lake, staged)
    assert (DeltaTable(str(path_of(lake))).version(), content(lake)) == (1, before)


def test_a_commit_that_another_one_overtook_is_a_conflict(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = open_table(place_of(path_of(lake)))
    commit_receipt(place_of(path_of(lake)), said("first"))
    monkeypatch.setattr(committer, "open_table", lambda _: seen)
    with pytest.raises(Conflict, match="another commit came first"):
        commit_receipt(place_of(path_of(lake)), said("second"))
    assert find_write(path_of(lake), "second") is None


def test_a_table_is_made_once_with_its_contract_and_without_what_other_engines_cannot_read(
    lake: Lake,
) -> None:
    ensure_table(lake, replace(RAW, name=STAGING.name))
    made = DeltaTable(str(path_of(lake)))
    assert [(f.name, f.nullable) for f in made.schema().fields] == [
        (c.name, c.nullable) for c in STAGING.columns
    ]
    assert made.metadata().partition_columns == ["event_date"]
    settings = made.metadata().configuration
    assert settings["delta.enableDeletionVectors"] == "false"
    assert settings["delta.enableExpiredLogCleanup"] == "false"
    assert settings["delta.deletedFileRetentionDuration"] == "interval 90 days"


def test_a_table_of_the_version_before_is_refused_with_what_to_do(lake: Lake) -> None:
    log, plain = commit_file(path_of(lake), 0), '"minWriterVersion":2}'
    assert plain in log.read_text()
    log.write_text(
        log.read_text().replace(
            plain, '"minWriterVersion":7,"writerFeatures":["inCommitTimestamp"]}'
        )
    )
    with pytest.raises(BackfillError, match=r"version 0\.1 .* made it.*catch-up"):
        commit_receipt(place_of(path_of(lake)), said("new"))


def test_every_twentieth_commit_keeps_the_state_and_one_that_cannot_be_kept_stops_no_commit(
    lake: Lake,
) -> None:
    while (
        version := commit(lake, stage_by_hand(lake, STAGING, rows(0)), [live(lake)[str(day(0))]])
    ) < 2 * KEEP_EVERY:
        assert version - max(kept_versions(place_of(path_of(lake))), default=-1) < KEEP_EVERY
    folder = state_file(path_of(lake), version).parent
    shutil.rmtree(folder)
    folder.write_text("no folder")
    commit(lake, stage_by_hand(lake, STAGING, rows(0)), [live(lake)[str(day(0))]])
    assert folder.is_file()
    log = path_of(lake) / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    assert len(list(log.glob("*.json"))) == version + 2, "every commit is kept across a checkpoint"
