"""Counting landed contents: one that no query can judge is found, refused by name and tried again
under other settings. Not here: what the rows say (`intake.test_mapping`)."""

import math
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake import counting, landed_changes
from backfill_assets.intake.content_store import StoredFile, content_name_by_path
from backfill_assets.intake.counting import (
    DEADLY,
    Counted,
    count_days,
    ingest_into_lake,
    refuse_rules_that_leave_nothing,
    refused_if_flooded,
    stored_contents,
)
from backfill_assets.intake.files import LandingError, file_sha256
from backfill_assets.intake.forgotten import FORGOTTEN_REASON
from backfill_assets.intake.ingest import ingest_in_place
from backfill_assets.intake.landed_changes import listing_and_ledger
from backfill_assets.intake.ledger import FileRecord, RowCounts
from backfill_assets.kernel.core.engines import SAIL
from backfill_assets.kernel.core.errors import EngineLost, SettingsError
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.intake.test_limited_decoding import SKEWED
from backfill_assets_tests.landed import land
from backfill_assets_tests.synthetic import synthetic_lake

SEEN = datetime(2024, 3, 10, tzinfo=UTC)
LAKE: Any = None


class EngineError(Exception):
    """What pyspark raises, as far as it is looked at."""

    def __init__(self, state: str) -> None:
        super().__init__(f"[CONDITION] told\nmore. SQLSTATE: {state}")
        self._state = state

    def getSqlState(self) -> str:
        return self._state


def files(count: int) -> list[StoredFile]:
    return [
        StoredFile(f"{i:02d}", Folder("/none"), f"{i}", {}, f"schema {i % 3}", SEEN)
        for i in range(count)
    ]


def failing(
    monkeypatch: pytest.MonkeyPatch,
    culprits: set[str],
    state: str | Exception,
    times: float = math.inf,
) -> list[int]:
    """How many files each query was over; so many `times` it fails where one of the culprits is
    among them."""
    asked: list[int] = []

    def query(
        _session: object, over: Sequence[StoredFile], _settings: object, _gone: str
    ) -> dict[str, Counted]:
        asked.append(len(over))
        if len(asked) <= times and culprits & {f.sha256 for f in over}:
            raise EngineError(state) if isinstance(state, str) else state
        return {f.sha256: Counted({None: RowCounts(7, 0, 7)}) for f in over}

    monkeypatch.setattr(counting, "_count_files", query)
    return asked


@pytest.mark.parametrize("state", ["22018", "22003", "42846", "KD001", "0A000"])
def test_files_over_which_a_query_fails_are_refused_alone(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    asked = failing(monkeypatch, {"03", "40"}, state)
    found = count_days(lambda: LAKE, files(64), LAKE)
    assert {sha for sha, c in found.items() if c.refused} == {"03", "40"}
    assert found["03"] == Counted(
        {None: RowCounts(1, 1, 0)}, "its rows cannot be judged: [CONDITION] told"
    )
    assert found["04"] == Counted({None: RowCounts(7, 0, 7)})
    assert len(asked) <= 4 * 6 + 1


@pytest.mark.parametrize("many", [64, 1])
def test_a_file_in_place_that_ends_engines_is_found_by_halves_and_no_other_file_is(
    monkeypatch: pytest.MonkeyPatch, many: int, tmp_path: Path
) -> None:
    landed, mark = Folder(str(tmp_path)), Folder(str(tmp_path)).write("f", b"PAR1").mark
    in_place = [
        replace(f, store=landed, name="f", mark=mark, is_undecoded=True, rows=7)
        for f in files(many)
    ]
    asked, started = failing(monkeypatch, {"00"}, EngineLost("Spark", "it died", "", "")), Mock()
    found = count_days(started, in_place, LAKE)
    assert {sha: c.refused for sha, c in found.items() if c.refused} == {
        "00": f"its rows cannot be judged: {DEADLY}"
    }
    assert (len(asked), started.call_count) == ((2 * 6 + 1, 2 * 6 + 2) if many > 1 else (2, 3)), (
        "it ends 7 engines, or 2"
    )
    with pytest.raises(EngineLost):
        count_days(started, files(many), LAKE)
    failing(monkeypatch, {f.sha256 for f in in_place}, EngineLost("Spark", "it died", "", ""))
    with (
        pytest.raises(EngineLost) if many > 1 else nullcontext()
    ):  # it is no fault of several that all end it
        count_days(started, in_place, LAKE)


def test_a_file_that_the_engine_does_not_see_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing(monkeypatch, {"00"}, ValueError("[PATH_NOT_FOUND] Path does not exist"))
    mark = Folder(str(tmp_path)).write("f", b"PAR1").mark
    in_place = [
        replace(f, store=Folder(str(tmp_path)), name="f", mark=mark, is_undecoded=True)
        for f in files(2)
    ]
    with pytest.raises(LandingError, match="the engine does not see it"):
        count_days(lambda: LIVES, in_place, LAKE)


def test_a_copy_that_lies_here_and_not_for_a_worker_is_not_blamed_and_the_worker_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = (
        "[FAILED_READ_FILE.FILE_NOT_EXIST] File does not exist: Lost task 0.3 (TID 7) (10.0.0.3 "
        "executor 2)"
    )
    failing(monkeypatch, {"00"}, ValueError(said))
    store = Folder(str(tmp_path))
    store.write("f", b"PAR1")
    with pytest.raises(
        LandingError,
        match=r"worker 10\.0\.0\.3 executor 2 does not see its copy .*, which lies here",
    ):
        count_days(lambda: LIVES, [replace(f, store=store, name="f") for f in files(2)], LAKE)


@pytest.mark.parametrize(
    ("failures", "is_here", "refused"), [(2, False, False), (9, False, True), (2, True, True)]
)
def test_a_file_over_which_one_machine_fails_is_read_by_another_before_it_is_judged(
    failures: int, is_here: bool, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine of this machine has no other: its word is enough."""
    failing(monkeypatch, {"00"}, "XX000", failures)
    master = {"sparkContext.master": "local[2]"} if is_here else {}
    session = Mock(**{"range.return_value.count.return_value": 1, **master})
    assert [
        c.refused is not None for c in count_days(lambda: session, files(1), LAKE).values()
    ] == [refused]


LIVES, DEAD = (
    Mock(**{"range.return_value.count.return_value": 1}),
    Mock(**{"range.side_effect": OSError()}),
)


@pytest.mark.parametrize("state", ["XX000", ""])
def test_what_a_living_engine_says_over_one_file_alone_is_its_fault(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    failing(monkeypatch, {"03"}, state)
    assert [sha for sha, c in count_days(lambda: LIVES, files(8), LAKE).items() if c.refused] == [
        "03"
    ]
    with pytest.raises(EngineError):
        count_days(lambda: DEAD, files(8), LAKE)
    failing(monkeypatch, {f.sha256 for f in files(4)}, state)
    with pytest.raises(EngineError):  # over each of several it is no fault of theirs
        count_days(lambda: LIVES, files(4), LAKE)
    assert [c.refused is not None for c in count_days(lambda: LIVES, files(1), LAKE).values()] == [
        True
    ]


def test_what_the_stock_lost_is_taken_again_from_the_landing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Mock(wraps=listing_and_ledger)
    monkeypatch.setattr(landed_changes, "listing_and_ledger", looks)
    synthetic_lake(tmp_path, 2)
    lake_session = LakeSession(open_lake(tmp_path))
    files = [land(tmp_path / "landing", f"{n}.jsonl", b'{"seq": %d}\n' % n) for n in range(5)]
    by_path = [
        content_name_by_path(file_sha256(f), f.name) for f in files[:3]
    ]  # the others landed when `select` named arrival_ts
    named = zip(files, [*by_path, *map(file_sha256, files[3:])], strict=True)
    records = [
        FileRecord(f.name, sha, f.size, f.mtime_ns, SEEN, SEEN.date(), {}) for f, sha in named
    ]
    assert [f.rows for f in stored_contents(lake_session, records)] == [1] * 5
    assert looks.call_count == 1, "one look at the landing folder for all that is lost"
    for file in files:
        file.path.unlink()
    assert [f.rows for f in stored_contents(lake_session, records)] == [1] * 5, (
        "nothing is lost any more"
    )
    assert looks.call_count == 1


def of_a_master(master: str | Exception) -> Mock:
    """A project's own session."""
    asked = {"side_effect": master} if isinstance(master, Exception) else {"return_value": master}
    return Mock(spec=["createDataFrame", "conf"], conf=Mock(get=Mock(**asked)))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("master", "decoded"),
    [
        ("local[2]", True),
        ("local", True),
        (PySparkException("hidden"), True),
        ("yarn", False),
        ("local-cluster[2,1,1024]", False),
    ],
)
def test_no_file_ends_the_driver_of_a_project_for_it_is_decoded_apart_where_that_runs_tasks(
    tmp_path: Path, master: str | Exception, decoded: bool
) -> None:
    synthetic_lake(tmp_path, 2)
    settings = tmp_path / "lake.toml"
    settings.write_text(
        re.sub('format *= *"jsonl"', 'format = "parquet"\nin_place = true', settings.read_text())
    )
    ours = LakeSession(open_lake(tmp_path))
    theirs = replace(ours, project_session=of_a_master(master))
    bomb = land(tmp_path / "landing", "bomb.parquet", SKEWED)
    found = ingest_into_lake(theirs, bomb)
    assert (found.refused is not None, found.is_undecoded) == (decoded, not decoded)
    assert ingest_into_lake(ours, bomb).is_undecoded, "a server of ours is started again"


@pytest.mark.usefixtures("processes")
def test_contents_that_another_engine_was_to_judge_are_decoded_apart_before_sail_reads_them(
    tmp_path: Path,
) -> None:
    synthetic_lake(tmp_path, 2)
    lake = open_lake(tmp_path)
    settings = lake.settings.model_copy(
        update={"spark": lake.settings.spark.model_copy(update={"engine": SAIL})}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"seq": [1, 2]}), sink)
    named = {"bomb": SKEWED, "good": sink.getvalue().to_pybytes()}
    files = [
        land(tmp_path / "landing", f"{name}.parquet", content) for name, content in named.items()
    ]
    taken = [
        ingest_in_place(f, StoredFile("", lake.stock, "", is_undecoded=True), by_path=False)
        for f in files
    ]
    records = [
        FileRecord(f.name, s.sha256, f.size, 0, SEEN, SEEN.date(), {})
        for f, s in zip(files, taken, strict=True)
    ]
    assert [f.is_undecoded for f in stored_contents(LakeSession(lake), records)] == [True, True]
    for _ in range(2):
        bomb, good = stored_contents(LakeSession(replace(lake, settings=settings)), records)
        assert (good.rows, good.is_undecoded, bomb.rows, bomb.is_undecoded) == (2, False, 1, False)
        assert "more memory than a file may" in str(bomb.refused)
    assert files[0].path.read_bytes() == SKEWED


@pytest.mark.parametrize(("bad", "refused"), [(100_000, False), (100_250, False), (100_251, True)])
def test_a_content_with_more_unusable_rows_than_its_bytes_pay_for_is_refused_whole(
    bad: int, refused: bool
) -> None:
    counted = Counted(
        {date(2024, 3, 1): RowCounts(bad, bad, 0), date(2024, 3, 2): RowCounts(5, 0, 5)}
    )
    found = refused_if_flooded(counted, size=1_000)
    assert (found.refused is not None) == refused
    assert found.days == ({None: (1, 1, 0)} if refused else counted.days)


def test_rules_by_which_nothing_is_usable_any_more_are_refused_unless_an_entity_was_forgotten() -> (
    None
):
    before = FileRecord("a.jsonl", "a", 9, 0, SEEN, SEEN.date(), {SEEN.date(): RowCounts(3, 0, 3)})
    nothing = Counted({SEEN.date(): RowCounts(3, 3, 0)}, example="total is NULL")
    refuse_rules_that_leave_nothing(
        {"a": Counted({SEEN.date(): RowCounts(3, 2, 1)}, example="total is NULL")}, [before]
    )
    refuse_rules_that_leave_nothing({"a": replace(nothing, example=FORGOTTEN_REASON)}, [before])
    with pytest.raises(SettingsError, match=r"none of 3 row.*: total is NULL"):
        refuse_rules_that_leave_nothing({"a": nothing}, [before])
