"""Snapshots: kept whatever is rebuilt, vacuumed or taken away, proven when read, and what they cost
is told. Not here: the commands."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from backfill_assets.candidates.snapshots import (
    SnapshotRequest,
    create_snapshot,
    digest_there,
    drop_snapshot,
    held_bytes,
)
from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.kernel.core.days import day_range as span_of
from backfill_assets.kernel.core.errors import Altered, BackfillError
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.table_places import SNAPSHOT_FILE
from backfill_assets.reading.fitness import Unfit, UnfitDays, UnfitDaysWarning
from backfill_assets.reading.kept_files import keep_files
from backfill_assets.reading.kept_snapshots import Snapshot, find_snapshot, snapshot_names
from backfill_assets.reading.reader import LakeReader
from backfill_assets_tests.builders import day
from backfill_assets_tests.planned import DAYS, Planned
from backfill_assets_tests.readable_lake import TABLE, version_of_event, write

pytestmark = pytest.mark.usefixtures("storages")


def keep(reader: LakeReader, name: str = "spring", **more: object) -> Snapshot:
    asked = SnapshotRequest(name, (TABLE,), **{"unfit": "take", **more})  # type: ignore[arg-type]  # written by hand
    return create_snapshot(reader.lake, reader.pipeline, asked)


def rebuilt_and_vacuumed(reader: LakeReader, times: int) -> None:
    for n in range(times):
        write(reader, [version_of_event(0, "a", n), version_of_event(1, "c", n)], f"again {n}")
    gone = DeltaTable(str(reader.lake.table_place(TABLE).local())).vacuum(
        0, dry_run=False, enforce_retention_duration=False
    )
    assert gone, "the vacuum took something away"


def test_the_same_rows_are_read_after_many_rebuilds_and_a_vacuum(reader: LakeReader) -> None:
    made, before = (
        keep(reader, note="for the model"),
        reader.table(TABLE).days("2024-03-01", "2024-03-02").arrow(),
    )
    rebuilt_and_vacuumed(reader, 12)
    assert reader.table(TABLE).arrow() != before
    kept = reader.snapshot("spring")
    assert kept.table(TABLE).arrow() == before
    assert kept.digest == made.digest
    assert kept.table(TABLE).days("2024-03-02").arrow().num_rows == 2
    with pytest.raises(BackfillError, match="is gone"):
        reader.table(TABLE).at(version=made.tables[TABLE].version).arrow()


def test_machines_of_an_engine_elsewhere_may_read_the_bytes_that_are_kept(
    reader: LakeReader, tmp_path: Path
) -> None:
    kept, asked = keep(reader, "here").tables[TABLE], list[int]()

    def digests_there(place: Place, sizes: Mapping[str, int]) -> list[str]:
        asked.append(sum(sizes.values()))
        return [digest_there((place, name), str(tmp_path / "machine")) for name in sizes]

    lake, place = reader.lake, reader.lake.place.at(".snapshots/there")
    files, _ = keep_files(lake, kept.contract, kept.version, kept.days, place, digests_there)
    assert [(f.sha256, f.size) for f in files] == [(f.sha256, f.size) for f in kept.files]
    assert asked == [sum(file.size for file in files)]


def test_it_shares_no_bytes_with_the_table_nor_with_another_snapshot(reader: LakeReader) -> None:
    """What writes through a table's file, as its owner can, does not reach what is kept."""
    keep(reader)
    keep(reader, "twin")
    before = reader.snapshot("spring").table(TABLE).arrow()
    for file in reader.lake.table_place(TABLE).local().rglob("*.parquet"):
        file.write_bytes(b"overwritten in place")
    assert reader.snapshot("spring").table(TABLE).arrow() == before
    held = held_bytes(reader.lake, "spring")
    assert held == sum(f.size for f in find_snapshot(reader.lake, "spring").tables[TABLE].files)
    assert held
    drop_snapshot(reader.lake, "spring")
    assert snapshot_names(reader.lake) == ["twin"]
    assert reader.snapshot("twin").table(TABLE).arrow().num_rows == 4
    with pytest.raises(BackfillError, match="this lake has no such snapshot"):
        reader.snapshot("spring")


@pytest.mark.parametrize("same_size", [False, True])
def test_a_data_file_that_was_altered_is_neither_kept_nor_read_as_what_was_written(
    reader: LakeReader, same_size: bool
) -> None:
    """Rewritten in place with other rows; one of the same size only its rows can tell."""
    [file, *_] = sorted(
        reader.lake.table_place(TABLE).local().rglob("event_date=2024-03-01/*.parquet")
    )
    size = file.stat().st_size
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows.slice(0, rows.num_rows - 1), file, compression="none")
    if same_size:
        for log in (reader.lake.table_place(TABLE).local() / "_delta_log").glob("*.json"):
            lines = log.read_text().splitlines(keepends=True)
            now = f'"size":{file.stat().st_size}'
            log.write_text(
                "".join(
                    n.replace(f'"size":{size}', now) if "=2024-03-01" in n else n for n in lines
                )
            )
    told = "the rows are not those of its receipts" if same_size else "was altered: it has"
    with pytest.raises(BackfillError, match=told):
        keep(reader)
    assert snapshot_names(reader.lake) == []
    if not same_size:
        with pytest.raises(
            Altered, match=r"the table .*the data file .*2024-03-01.* was altered.*backfill --force"
        ):
            reader.table(TABLE).arrow()


def test_what_cannot_be_kept_leaves_nothing(reader: LakeReader) -> None:
    with pytest.raises(UnfitDays, match="missing 2024-03-03"):
        keep(reader, days=span_of("2024-03-01", "2024-03-03"), unfit="refuse")
    for bad in ("../x", ".x", "", "a/b"):
        with pytest.raises(BackfillError, match="it is no name"):
            keep(reader, bad)
    with pytest.raises(BackfillError, match="was never made"):
        create_snapshot(reader.lake, reader.pipeline, SnapshotRequest("all"))
    keep(reader)
    with pytest.raises(BackfillError, match="a snapshot never changes"):
        keep(reader)
    assert [p.name for p in (reader.lake.root / ".snapshots").iterdir()] == ["spring"]


def test_days_that_will_change_are_refused_or_told_or_kept_as_they_are(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")

    def kept(name: str, unfit: Unfit = "refuse") -> int:
        return (
            create_snapshot(
                made.lake, made.pipeline, SnapshotRequest(name, ("features",), unfit=unfit)
            )
            .tables["features"]
            .rows
        )

    assert kept("right") == DAYS
    made.write("raw", {DAYS - 1: 5})
    with pytest.raises(
        UnfitDays, match=f"1 of {DAYS} days will change: {day(DAYS - 1)}.* Nothing was kept"
    ):
        kept("refused")
    with pytest.warns(UnfitDaysWarning, match="They are kept all the same"):
        kept("told", "warn")
    assert kept("taken", "take") == DAYS
    assert snapshot_names(made.lake) == ["right", "taken", "told"]


def test_what_a_killed_creation_or_deletion_left_goes_with_the_next_of_either(
    reader: LakeReader,
) -> None:
    keep(reader)
    folder = reader.lake.root / ".snapshots"
    for step in (lambda: keep(reader, "twin"), lambda: drop_snapshot(reader.lake, "twin")):
        (folder / ".spring.0a1b2c3d" / TABLE).mkdir(
            parents=True
        )  # by an earlier version of this package
        reader.lake.place.write(f".snapshots/half/{SNAPSHOT_FILE}", b'{"unfinished": "being made"}')
        with pytest.raises(BackfillError, match="this lake has no such snapshot"):
            reader.snapshot("half")
        step()
        assert sorted(p.name for p in folder.iterdir() if p.name != "twin") == ["spring"]


def test_none_is_made_while_an_entity_is_being_forgotten(reader: LakeReader) -> None:
    begun = begin_erasure(reader.lake, {"entity": "ann-77"}, "asked for")
    with pytest.raises(BackfillError, match="an entity is being forgotten"):
        keep(reader)
    begun.done["finished_at"] = "now"
    begun.keep()
    keep(reader)
    assert snapshot_names(reader.lake) == ["spring"]


def test_the_digest_is_of_the_content_and_not_of_the_name(reader: LakeReader) -> None:
    first, second = keep(reader), keep(reader, "other", note="why")
    assert first.digest == second.digest
    write(reader, [version_of_event(1, "c", 31)], "new")
    assert keep(reader, "later").digest != first.digest
