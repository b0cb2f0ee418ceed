"""The history of a table: what was done to its files is found, and unpacked it makes the log whole again.

Tested here: `lake.log_history` through `inspection`, and erasing from it. Not tested here: how commits get there
(`lake.test_checkpoints`).
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.checkpoints import move_commits
from backfill_assets.lake.forgotten import begin_erasure, erase
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.log import commits
from backfill_assets.lake.log_history import LOG, archives, commit_file, logged, unpack
from backfill_assets.lake.traces import Search, Trace
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

FIRST, LAST = 4, 5


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging has versions 0 to 5, of which the history holds those before 4."""
    made = bare_lake(tmp_path)
    for value in range(LAST):
        row = {"entity": "A", "value": value, "event_date": day(0)}
        publish_by_hand(made, STAGING, [row], digest="customer-7" if value == 1 else str(value))
    move_commits(made.table_path("staging"), FIRST)
    return made


@pytest.fixture
def history(lake: Lake) -> Path:
    """Its only file."""
    (file,) = archives(lake.table_path("staging")).values()
    return file


def replaced(file: Path, name: str, old: bytes, new: bytes) -> None:
    """Write a zip file again with another text in one of its files."""
    with zipfile.ZipFile(file) as source:
        contents = {n: source.read(n) for n in source.namelist()}
    contents[name] = contents[name].replace(old, new)
    with zipfile.ZipFile(file, "w") as sink:
        for n, content in contents.items():
            sink.writestr(n, content)


def test_an_edited_commit_of_the_history_is_found_by_the_one_behind_it(lake: Lake, history: Path) -> None:
    for version in (1, FIRST - 1):
        replaced(history, commit_file(Path(), version).name, b"entity", b"entitz")
        assert version in inspect(lake, STAGING).edited
    assert inspect(lake, STAGING).edited == (1, FIRST - 1), "the last one by a commit in the log"


def test_a_damaged_history_is_torn_and_a_missing_one_lacks(lake: Lake, history: Path) -> None:
    whole = history.read_bytes()
    history.write_bytes(whole[:-30])
    assert inspect(lake, STAGING).torn == tuple(range(FIRST))
    with pytest.raises(BackfillError, match=rf"version 0 of its log is torn \({history.name}\)"):
        list(commits(lake.table_path("staging")))
    history.write_bytes(whole[:60] + b"\0" * 20 + whole[80:])
    assert inspect(lake, STAGING).torn == (0,)
    history.unlink()
    assert inspect(lake, STAGING).lacking == tuple(range(FIRST))


def test_it_is_unpacked_by_any_program_into_the_log_of_before(lake: Lake, history: Path, tmp_path: Path) -> None:
    table = lake.table_path("staging")
    before = list(commits(table))
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", history, copy / LOG], check=True)  # as `unzip` does
    (copy / "_history" / history.name).unlink()
    unpack(table)
    for there in (copy, table):
        assert (logged(there), list(commits(there))) == ([*range(LAST + 1)], before)
    assert not archives(table)
    assert lake.store.rows("staging", 1)[0]["value"] == 0, "old versions can be opened again"


def test_an_entity_is_found_in_it_and_nothing_of_a_log_is_changed_or_deleted(lake: Lake) -> None:
    search, table = Search(lake, Trace({"entity": "customer-7"})), lake.table_path("staging")
    before = {p: p.read_bytes() for p in table.rglob("*") if p.is_file() and {LOG, "_history"} & {*p.parts}}
    assert [*archives(table).values()] == [p for p, f in search.below([table]).items() if f.held and p.suffix == ".zip"]
    erase(search, begin_erasure(lake, search.trace.values, "asked"))
    assert {p: p.read_bytes() for p in before} == before
    assert inspect(lake, STAGING).edited == ()
