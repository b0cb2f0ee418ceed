"""What upkeep remembers: it is read as it was written, and a damaged file is as none. Not here: what
is remembered (`upkeep.test_removals`, `upkeep.test_thinning`)."""

import gzip
from pathlib import Path

import pytest

from backfill_assets.kernel.place.folder import Folder
from backfill_assets.upkeep.remembered import UPKEEP, recall, remember
from backfill_assets.upkeep.removals import Removal, Removals

KNOWN = Removals(7, "digest", 1.5, {"writes/1/a.parquet": Removal(1.0, 3)}, 2)


def test_what_was_remembered_is_recalled_of_each_table_alone(tmp_path: Path) -> None:
    lake = Folder(str(tmp_path))
    remember(lake, "staging", KNOWN)
    assert (recall(lake, "staging", Removals), recall(lake, "raw", Removals)) == (KNOWN, None)


@pytest.mark.parametrize("end", [0, 5, -1])
def test_a_damaged_file_is_as_none(tmp_path: Path, end: int) -> None:
    lake = Folder(str(tmp_path))
    remember(lake, "staging", KNOWN)
    name = f"{UPKEEP}/staging.json.gz"
    lake.write(name, lake.read(name)[:end])
    assert recall(lake, "staging", Removals) is None
    for damaged in (b"\xff{", gzip.compress(b"[" * 100_000), gzip.compress(b"null")):
        (tmp_path / name).write_bytes(damaged)
        assert recall(lake, "staging", Removals) is None


def test_a_place_that_takes_nothing_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / UPKEEP).write_bytes(b"a file stands where the folder would be")
    remember(Folder(str(tmp_path)), "staging", KNOWN)
    assert recall(Folder(str(tmp_path)), "staging", Removals) is None
