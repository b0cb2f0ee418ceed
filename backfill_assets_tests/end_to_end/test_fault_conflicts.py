"""Two writers of the same days: the table is one of the two serial results, and newer inputs are
never overwritten.

Tested here: a second publish between build and publish of a first, a commit that Delta refuses
while ours runs, and what is retried. Not tested here: races of many processes (`test_races`) and
locks alone (`kernel.place.test_folder`).
"""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import backfill_assets.kernel.tables.store as store_module
from backfill_assets.kernel.core.errors import ContractBroken, Superseded, TransientError
from backfill_assets.kernel.place import folder as files
from backfill_assets.kernel.tables.committer import Conflict
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.staging import WRITES, sweep_writes
from backfill_assets.kernel.write.rebuild import SUPERSEDED_ATTEMPTS
from backfill_assets.kernel.write.replace import CONFLICT_ATTEMPTS
from backfill_assets_tests.files import publish_by_hand
from backfill_assets_tests.lakes import (
    ECHO,
    backfill,
    content,
    data_files,
    delivery,
    land,
    make_lake,
    prepared,
    request,
    snapshot,
    toy,
    version,
)

pytestmark = pytest.mark.users_do

FIRST, LAST = "2024-03-01", "2024-03-03"
DAY = date(2024, 3, 2)


@pytest.fixture(scope="module")
def loaded(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake whose raw holds three days; to be copied, never to be worked on."""
    rows = [delivery(n, f"2024-03-0{n} 09:00:00", None, f"k{n}") for n in (1, 2, 3)]
    lake = make_lake(tmp_path_factory.mktemp("three_days"), rows, FIRST)
    backfill(lake, FIRST, LAST, ["raw"])
    return lake.root


@pytest.fixture
def lake(loaded: Path, tmp_path: Path) -> Lake:
    """A lake of this test's own in which raw holds three days."""
    shutil.copytree(loaded, tmp_path / "lake")
    return open_lake(tmp_path / "lake")


def late(lake: Lake, key: str) -> None:
    """Another event of the second day arrives on the third and is loaded."""
    land(
        lake, f"{key}.jsonl", [delivery(10 + len(key), f"{LAST} 10:00:00", f"{DAY} 10:00:00", key)]
    )
    backfill(lake, LAST, LAST, ["raw"])


def echoed(lake: Lake) -> list[str]:
    return [row[0] for row in content(lake, "echo")]


def test_a_candidate_of_older_inputs_never_overwrites_newer_content_and_is_built_again(
    lake: Lake,
) -> None:
    backfill(lake, FIRST, LAST, ["echo"], toy())
    late(lake, "late")
    with prepared(request(lake, "echo", FIRST, LAST, toy())) as stale:
        late(lake, "later")
        backfill(lake, FIRST, LAST, ["echo"], toy())
        newest = snapshot(lake, toy()), version(lake, "echo"), data_files(lake, "echo")
        with pytest.raises(
            Superseded,
            match=rf"1 day\(s\) from {DAY} were written by another run from newer inputs",
        ):
            stale.ready.commit()
        assert (snapshot(lake, toy()), version(lake, "echo"), data_files(lake, "echo")) == newest
        done = stale.publish()
    assert not done.write_id
    assert echoed(lake) == ["k1", "k2", "k3", "late", "later"]
    assert (snapshot(lake, toy()), version(lake, "echo"), data_files(lake, "echo")) == newest


def test_two_writers_of_the_same_inputs_leave_what_one_of_them_would(lake: Lake) -> None:
    with (
        prepared(request(lake, "echo", FIRST, LAST, toy())) as one,
        prepared(request(lake, "echo", FIRST, LAST, toy())) as other,
    ):
        assert one.publish().write_id
        alone = content(lake, "echo"), snapshot(lake, toy()), version(lake, "echo")
        assert not other.publish().write_id
    assert (content(lake, "echo"), snapshot(lake, toy()), version(lake, "echo")) == alone
    assert not any(p.write_id for p in backfill(lake, FIRST, LAST, ["echo"], toy()).values())


def test_a_rebuild_of_a_superseded_candidate_is_judged_again(lake: Lake) -> None:
    with prepared(request(lake, "echo", FIRST, LAST, toy("twice"))) as stale:
        land(
            lake,
            "again.jsonl",
            [delivery(50 + n, f"{LAST} 1{n}:00:00", f"{DAY} 10:00:00", "twin") for n in (0, 1)],
        )
        backfill(lake, LAST, LAST, ["raw"])
        backfill(lake, FIRST, LAST, ["echo"], toy())
        before = snapshot(lake, toy()), version(lake, "echo")
        with pytest.raises(ContractBroken, match="unique_key fails on 1 of 3"):
            stale.publish()
    assert (snapshot(lake, toy()), version(lake, "echo")) == before


def test_a_foreign_commit_on_the_same_day_while_ours_runs_is_a_conflict_and_ours_is_tried_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    backfill(lake, FIRST, LAST, ["echo"], toy())
    path = lake.table_place("echo").local()
    tries: list[Any] = []

    def overtaken(*args: Any) -> None:
        if not tries:
            theirs = pa.table({"event_key": ["theirs"], "value": [2], "event_date": [DAY]})
            write_deltalake(str(path), theirs, mode="overwrite", predicate=f"event_date = '{DAY}'")
        tries.append(args)

    monkeypatch.setattr(files.Folder, "sync_new", overtaken)
    done = publish_by_hand(
        lake, ECHO, [{"event_key": "ours", "value": 1, "event_date": DAY}], "newest"
    )
    assert len(tries) == 2
    assert done.write_id
    assert echoed(lake) == ["k1", "k3", "ours"]


def attempts_of(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> tuple[int, BaseException]:
    """How often a commit is tried that always fails with `error`, and what comes of it."""
    tried: list[Any] = []

    def refuse(*args: Any) -> None:
        tried.append(args)
        raise error

    monkeypatch.setattr(store_module, "commit_files", refuse)
    with (
        prepared(request(lake, "echo", FIRST, LAST, toy())) as job,
        pytest.raises(Exception, match=r".") as told,
    ):
        job.publish()
    assert content(lake, "echo") == []
    sweep_writes(lake, "echo")
    assert not lake.table_place("echo").names(WRITES), (
        "what was not published is deleted by the next write"
    )
    return len(tried), told.value


def test_only_conflicts_are_tried_again_and_the_failure_is_clear(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, told = attempts_of(
        lake,
        monkeypatch,
        Conflict("the table echo", "another commit came first", "Nothing was written", "Run again"),
    )
    assert tried == CONFLICT_ATTEMPTS
    assert isinstance(told, TransientError)
    assert "the table echo: another commit came first" in str(told)
    assert attempts_of(lake, monkeypatch, ValueError("no room left"))[0] == 1
    assert attempts_of(lake, monkeypatch, TransientError("it", "is ill", "Nothing", "Wait"))[0] == 1
    behind = Superseded("echo", "is behind", "Nothing", "Again")
    assert attempts_of(lake, monkeypatch, behind) == (SUPERSEDED_ATTEMPTS, behind)


def test_a_commit_that_reports_an_error_after_it_happened_counts_as_done(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeltaTable.create_write_transaction

    def late_error(self: DeltaTable, *args: Any, **named: Any) -> None:
        real(self, *args, **named)
        raise ConnectionResetError("the answer was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late_error)
    done = backfill(lake, FIRST, LAST, ["echo"], toy())["echo"]
    assert done.write_id
    assert echoed(lake) == ["k1", "k2", "k3"]
    assert done.version == version(lake, "echo")
