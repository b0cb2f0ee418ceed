"""The doctor says of every snapshot whether it can be read as it was kept, and what it holds on the disk.

Tested here: `operations.doctor_tables`, and that the doctor asks it. Not tested here: reading (`test_snapshots`).
"""

from pathlib import Path

import pytest

from backfill_assets.operations.doctor import doctor
from backfill_assets.operations.doctor_tables import Diagnosis, Level, examine_snapshots
from backfill_assets.operations.reader import LakeReader
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.readable_lake import readable_lake
from backfill_assets_tests.operations.test_snapshots import keep, rebuilt_and_vacuumed


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    made = readable_lake(tmp_path / "lake")
    keep(made)
    return made


def files_of(reader: LakeReader) -> list[Path]:
    return sorted((reader.lake.root / ".snapshots" / "spring").rglob("*.parquet"))


def test_a_whole_snapshot_is_one_line_that_says_what_only_it_holds(reader: LakeReader) -> None:
    size = sum(p.stat().st_size for p in files_of(reader))
    for _ in range(2):  # it shares no file with the table, whatever becomes of that
        [only] = examine_snapshots(reader.lake)
        told = f"staging: {len(files_of(reader))} file(s), {size} bytes"
        assert (only.level, only.object, only.what) == (Level.OK, "the snapshot spring", f"{told}; all are there")
        [deep] = examine_snapshots(reader.lake, deep=True)
        assert (deep.level, deep.what) == (Level.OK, f"{told}; all are the bytes that were kept")
        rebuilt_and_vacuumed(reader, 1)


def test_a_changed_byte_is_found_by_reading_all_and_a_missing_file_at_once(reader: LakeReader) -> None:
    [file, *_] = files_of(reader)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [d.level for d in examine_snapshots(reader.lake)] == [Level.OK]
    [deep] = examine_snapshots(reader.lake, deep=True)
    assert (deep.level, "has other bytes" in deep.what) == (Level.ERROR, True)
    file.write_bytes(content + b"x")
    assert "has another size" in next(examine_snapshots(reader.lake)).what
    file.unlink()
    for is_deep in (False, True):
        [found] = examine_snapshots(reader.lake, deep=is_deep)
        assert (found.level, f"{file.name} is gone" in found.what) == (Level.ERROR, True)
        assert "snapshot drop spring --yes" in found.advice


def test_a_snapshot_whose_file_was_edited_is_broken_and_hides_no_other(reader: LakeReader) -> None:
    keep(reader, "twin")
    path = reader.lake.root / ".snapshots" / "spring" / "snapshot.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 1'))
    told = {d.object: d for d in examine_snapshots(reader.lake)}
    assert told["the snapshot spring"].level is Level.ERROR
    assert "is not what was written" in told["the snapshot spring"].what
    assert told["the snapshot twin"].level is Level.OK


def test_what_a_stopped_command_left_is_named(reader: LakeReader) -> None:
    (reader.lake.root / ".snapshots" / ".half.123").mkdir()
    *_, left = examine_snapshots(reader.lake)
    assert (left.level, left.object) == (Level.OK, "snapshots")
    assert left.what.startswith("left by a stopped command: .half.123")


def test_the_doctor_looks_at_snapshots(reader: LakeReader) -> None:
    def about() -> list[Diagnosis]:
        return [d for d in doctor(reader.lake.root, tables) if d.object == "the snapshot spring"]

    assert [d.level for d in about()] == [Level.OK]
    files_of(reader)[0].unlink()
    assert [d.level for d in about()] == [Level.ERROR]
