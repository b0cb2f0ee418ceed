"""Files that snapshots keep: in a store the table's own ones, which upkeep leaves alone while a
snapshot names them. Not here: copies (`candidates.test_snapshots`), and a real store
(`end_to_end`)."""

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.candidates.snapshots import drop_snapshot, held_bytes
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.table_places import SNAPSHOT_FILE, UNFINISHED
from backfill_assets.reading.kept_files import (
    pinned_files,
    snapshots_pinning,
    tables_digest,
)
from backfill_assets.reading.reader import LakeReader
from backfill_assets.reading.whole import snapshots_of
from backfill_assets.upkeep.housekeeping import remove_unneeded
from backfill_assets_tests.candidates.test_snapshots import keep
from backfill_assets_tests.readable_lake import (
    TABLE,
    readable_lake,
    version_of_event,
    write,
)


@dataclass(frozen=True)
class Store(Folder):
    """A folder that says it is a store."""

    is_store: bool = field(default=True, init=False, compare=False)


class StoredLake(Lake):
    """A lake in it."""

    @property
    def place(self) -> Store:
        """Where its files lie."""
        return Store(str(self.root))


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    made = readable_lake(tmp_path)
    return replace(made, lake=StoredLake(**vars(made.lake)))


@pytest.fixture
def lake(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


@pytest.mark.slow
def test_in_a_store_it_names_the_tables_files_and_upkeep_keeps_them_until_it_is_dropped(
    reader: LakeReader,
) -> None:
    lake, before = reader.lake, reader.table(TABLE).arrow()
    made = keep(reader)
    assert [p.name for p in (lake.root / ".snapshots" / "spring").iterdir()] == ["snapshot.json"], (
        "no copy"
    )
    files = {f.path for f in made.tables[TABLE].files}
    assert all((lake.root / f).is_file() for f in files)
    assert held_bytes(lake, "spring") == 0, "the newest version holds them, too"
    for n in range(2):
        write(
            reader,
            [version_of_event(0, "a", 30 + n), version_of_event(1, "c", 30 + n)],
            f"again {n}",
        )
    assert held_bytes(lake, "spring") > 0
    contract, now = reader.pipeline.contract(TABLE, ""), utc_now() + timedelta(days=1)
    gone = remove_unneeded(lake, contract, now).replaced
    assert gone, "what nothing pins goes"
    assert not {f"tables/{TABLE}/{name}" for name in gone} & files
    assert reader.snapshot("spring").table(TABLE).arrow() == before
    assert reader.snapshot("spring").digest == made.digest
    drop_snapshot(lake, "spring")
    assert remove_unneeded(lake, contract, now).replaced, "nothing pins them any more"
    assert not any((lake.root / f).exists() for f in files if held_only(reader, f))


def held_only(reader: LakeReader, file: str) -> bool:
    """Whether no newest version has the file."""
    live = reader.lake.store.data_files(reader.pipeline.contract(TABLE, ""))
    return str(reader.lake.root / file) not in live


def test_pins_are_the_files_that_whole_snapshots_name_and_any_file_while_one_is_being_made(
    lake: Folder,
) -> None:
    def table(*files: str, **more: object) -> dict[str, object]:
        return {"data_files": [[f, "digest", 1] for f in files], **more}

    def body(tables: dict[str, object]) -> bytes:
        return json.dumps({"tables": tables, "digest": tables_digest(tables)}).encode()

    def keep(name: str, **tables: object) -> None:
        lake.write(f".snapshots/{name}/{SNAPSHOT_FILE}", body(tables))

    keep("a", raw=table("tables/raw/1", pinned=True), sums=table("sums/part"))
    keep("b", raw=table("tables/raw/1", "tables/raw/2", pinned=True))
    known = {"tables/raw/1": {"a", "b"}, "tables/raw/2": {"b"}}
    assert pinned_files(lake) == known
    assert (snapshots_pinning(lake, ["tables/raw/2", "else"]), snapshots_pinning(lake, [])) == (
        {"b"},
        set(),
    )
    with snapshots_of(lake).making("c") as finish:
        assert pinned_files(lake) is None
        finish(body({}))
    assert pinned_files(lake) == known
    lake.write(f".snapshots/d/{SNAPSHOT_FILE}", json.dumps({UNFINISHED: "being deleted"}).encode())
    assert pinned_files(lake) == known, "what is being deleted pins nothing"
    lake.write(f".snapshots/d/{SNAPSHOT_FILE}", b"torn")
    assert pinned_files(lake) is None
    changed = body({"raw": table("tables/raw/1", pinned=True)}).replace(b"raw/1", b"raw/3")
    lake.write(f".snapshots/d/{SNAPSHOT_FILE}", changed)
    assert pinned_files(lake) is None, "any file may be the one that was pinned"
