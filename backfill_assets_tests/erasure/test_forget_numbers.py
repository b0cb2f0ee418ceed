"""Rows of others keep the default `seq` that they have without the erasure, whatever named contents
when it was. Not here: which rows go (`erasure.test_landed_files`)."""

import os
import shutil
from pathlib import Path

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure.landed_files import erase_landed_rows
from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.tables.folder import FORGOTTEN
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.lakes import (
    LONG_AGO,
    SHARED,
    backfill,
    configure,
    content,
    delivery,
    make_lake,
)

DAY, FILE = "2024-03-01", "dt=2024-03-01/a.jsonl"
# Contents are named by their bytes.
PLAIN = "arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"
BY_PATH = PLAIN.removeprefix("arrival_ts, ")  # and by their paths, too

pytestmark = pytest.mark.usefixtures("spark")


def named_by(folder: Path, select: str) -> Lake:
    """The lake with another select."""
    source = {"files": "landing/**", "format": "jsonl", "select": select}
    return configure(folder, DAY, source=source, spark=dict(SHARED))


def made(folder: Path, select: str) -> Lake:
    """A scanned lake of one file, whose second and third row are of ann and bob."""
    rows = [
        delivery(n, f"{DAY} 10:00:00", None, f"k{n}", entity=e)
        for n, e in enumerate(("A", "ann-77", "bob-7", "D"))
    ]
    make_lake(folder, {FILE: rows}, DAY)
    scan_source(LakeSession(lake := named_by(folder, select)))
    return lake


def erase(lake: Lake, entity: str) -> None:
    trace = Trace({"entity": entity})
    erase_landed_rows(LakeSession(lake), trace, begin_erasure(lake, trace.values, "asked"))


def numbers(lake: Lake) -> dict[str, int]:
    """By event key the number of its delivery, of a lake that is loaded."""
    scan_source(LakeSession(lake))
    backfill(lake, DAY, DAY, ["raw"], force=True)
    return {row[4]: row[0] for row in content(lake, "raw")}


def anew(lake: Lake) -> Lake:
    """A lake of the same landed files, settings and record of erasures."""
    new = lake.root.with_name("new")
    for folder in ("landing", FORGOTTEN):
        shutil.copytree(lake.root / folder, new / folder)
    shutil.copy(lake.root / "lake.toml", new)
    return open_lake(new)


def agrees(lake: Lake, never: dict[str, int], *left: str) -> bool:
    """Whether the rows that are left have the numbers of a lake without the erasure, in a new lake
    of the files too."""
    return numbers(lake) == {k: never[k] for k in left} == numbers(anew(lake))


@pytest.mark.parametrize(
    ("first", "then"), [(PLAIN, BY_PATH), (BY_PATH, PLAIN)], ids=["to paths", "from paths"]
)
def test_select_changes_after_the_erasure(tmp_path: Path, first: str, then: str) -> None:
    lake = made(tmp_path / "lake", then)
    never = numbers(lake)
    scan_source(LakeSession(lake := named_by(lake.root, first)))
    erase(lake, "ann-77")
    assert agrees(named_by(lake.root, then), never, "k0", "k2", "k3")


def test_select_changes_between_two_erasures_of_a_file(tmp_path: Path) -> None:
    lake = made(tmp_path / "lake", BY_PATH)
    never = numbers(lake)
    for select, entity in ((PLAIN, "ann-77"), (BY_PATH, "bob-7")):
        scan_source(LakeSession(lake := named_by(lake.root, select)))
        erase(lake, entity)
    assert agrees(lake, never, "k0", "k3")


def test_a_rewritten_file_is_moved_and_the_file_as_it_landed_lands_again(tmp_path: Path) -> None:
    """By path both are other contents than before, as they are without the erasure."""
    lake = made(tmp_path / "lake", PLAIN)
    landed = lake.root / "landing" / FILE
    whole = landed.read_bytes()
    erase(lake, "ann-77")
    landed.rename(moved := landed.with_name("moved.jsonl"))
    withdraw_disputed(LakeSession(lake), "moved")
    lake = named_by(lake.root, BY_PATH)
    found = numbers(lake)
    assert numbers(anew(lake)) == found
    shutil.rmtree(tmp_path / "new")
    never = made(tmp_path / "never", BY_PATH)
    (never.root / "landing" / FILE).rename(never.root / "landing" / FILE.replace("a.", "moved."))
    withdraw_disputed(LakeSession(never), "moved")
    assert found == {k: n for k, n in numbers(never).items() if k != "k1"}
    moved.with_name("again.jsonl").write_bytes(whole)
    os.utime(moved.with_name("again.jsonl"), (LONG_AGO, LONG_AGO))
    again = numbers(lake)
    assert set(again) == {"k0", "k2", "k3"}
    assert numbers(anew(lake)) == again
