"""A table's Delta log, read without a JVM: receipts, gaps, torn commits and checkpoints, commits
that are not ours. Not here: what Spark writes into a log (`end_to_end`)."""

import json
import pickle
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.log.log import (
    HINT,
    MAGIC,
    CommittedWrites,
    DamagedLog,
    commit_name,
    open_delta,
    parsed_checkpoint,
    torn_checkpoints,
)
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.folder import Folder
from backfill_assets_tests.builders import add, commit_days, day, make_commit, receipt
from backfill_assets_tests.logs import commit_file, commits, place_of, read_commit, versions

COLUMN = "event_date"


def test_only_commit_files_are_versions(table: Path) -> None:
    for version in (0, 1, 10, 2, 9):
        make_commit(table, version)
    log = table / "_delta_log"
    strangers = (
        "_last_checkpoint",
        "00000000000000000001.checkpoint.parquet",
        "00000000000000000000.crc",
        "00000000000000000000.00000000000000000002.compacted.json",
        "00000000000000000003.json.tmp",
        "_sidecars",
    )
    for stranger in strangers:
        (log / stranger).write_text("{}")
    assert versions(table) == [0, 1, 2, 9, 10]


@pytest.mark.parametrize("after", [-1, 0, 3])
def test_a_gap_is_refused_by_the_number_that_is_missing(table: Path, after: int) -> None:
    for version in (0, 1, 3, 4):
        make_commit(table, version)
    with pytest.raises(BackfillError, match="the table staging: its log lacks version 2"):
        list(commits(table, after=after))


@dataclass(frozen=True)
class AskedFolder(Folder):
    """A folder that notes which files are opened."""

    opened: list[str] = field(default_factory=list, compare=False)

    def open(self, name: str, *, at_end: bool = False, at_hand: bool = False) -> BufferedReader:
        self.opened.append(name)
        return super().open(name, at_end=at_end, at_hand=at_hand)


def test_who_asks_for_many_writes_reads_a_commit_once_and_finds_one_that_came_meanwhile(
    table: Path,
) -> None:
    for version in range(10):
        make_commit(table, version, receipt(write_id=f"write-{version}"))
    place = AskedFolder(str(table))
    committed = CommittedWrites(place)
    assert [committed.version_of(f"write-{n}") for n in (3, 9, 0, 10)] == [3, 9, 0, None]
    make_commit(table, 10, receipt(write_id="write-10"))
    assert committed.version_of("write-10") == 10
    read = Counter(place.opened)
    # The newest is read before all others, to see whether it is torn.
    assert [read[commit_name(version)] for version in range(9)] == [1] * 9


TORN = {
    "empty": b"",
    "zero bytes, as a power cut leaves them": b"\x00" * 4096,
    "cut in the middle of its first line": b'{"commitInfo":{"operation":"WRI',
    "not text": b"\xff\xfe\x80",
    "a blank line": b"\n",
}


@pytest.mark.parametrize("content", TORN.values(), ids=TORN.keys())
def test_a_torn_newest_commit_is_refused_and_names_its_file(table: Path, content: bytes) -> None:
    make_commit(table, 0)
    make_commit(table, 1).write_bytes(content)
    with pytest.raises(BackfillError, match=r"version 1 of its log is torn \(0{19}1\.json\)"):
        LOGS.state(place_of(table), COLUMN)
    assert read_commit(table, 0).version == 0


def test_a_commit_without_commit_info_is_foreign(table: Path) -> None:
    path = make_commit(table, 0)
    path.write_text(json.dumps({"metaData": {"id": "x"}}))
    found = read_commit(table, 0)
    assert (found.receipt, found.timestamp_ms, found.operation) == (None, 0, "")


UNSAID = {
    "no partition values": {"remove": {"path": "x", "dataChange": True}},
    "another partition column": add("2024-02", "arrival_month"),
    "no month": add("2024-2x", "event_month"),
    "NULL": add(None),
    "change not said": {"add": {"path": "x", "partitionValues": {}}},
}


@pytest.mark.parametrize("action", UNSAID.values(), ids=UNSAID.keys())
def test_where_a_foreign_commit_names_no_days_all_known_ones_count(
    table: Path, action: dict[str, Any]
) -> None:
    commit_days(table, 0, 0, 1)
    make_commit(table, 1, actions=[action])
    commit_days(table, 2, 2)
    assert LOGS.state(place_of(table), COLUMN).foreign == {day(0), day(1)}


EARLY, LATE = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 5, tzinfo=UTC)
days = st.sets(st.integers(0, 5), min_size=1)
ours = st.tuples(
    days,
    st.dictionaries(st.sampled_from(["raw", "labels"]), st.integers(0, 9)),
    st.sampled_from([EARLY, LATE]),
)


@given(st.lists(st.one_of(days, ours), min_size=1, max_size=8))
def test_a_table_is_its_newest_receipts_and_days_that_others_wrote_since(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any]
) -> None:
    table, latest, foreign = (
        tmp_path_factory.mktemp("log") / "staging",
        dict[date, int](),
        set[date](),
    )
    inputs, frontiers = dict[str, int](), list[datetime]()
    for version, what in enumerate(history):
        touched = {*map(day, what[0] if isinstance(what, tuple) else what)}
        if isinstance(what, tuple):
            commit_days(table, version, *what[0], inputs=what[1], frontier=what[2])
            latest, foreign, inputs = (
                latest | dict.fromkeys(touched, version),
                foreign - touched,
                inputs | what[1],
            )
            frontiers.append(what[2])
        else:
            remove = {"remove": {**add(str(min(touched)))["add"], "dataChange": True}}
            make_commit(table, version, actions=[remove, *(add(str(d)) for d in touched)])
            foreign |= touched
    found = LOGS.state(place_of(table), COLUMN)
    assert (found.version, {d: r.version for d, r in found.latest.items()}) == (
        len(history) - 1,
        latest,
    )
    assert found.foreign == foreign
    assert found.inputs == inputs
    assert found.frontier == max(frontiers, default=None)
    for d, version in latest.items():
        assert found.latest[d].entry == DayEntry(version, f"content-{version}", f"digest-{version}")
        assert found.latest[d].write_id == f"write-{version}"


def test_a_foreign_commit_to_a_table_laid_out_by_month_touches_all_days_of_that_month(
    table: Path,
) -> None:
    commit_days(table, 0, 0, 9)
    make_commit(table, 1, actions=[add("2024-02", "event_month")])
    found = LOGS.state(place_of(table), COLUMN).foreign
    assert (min(found), max(found), len(found)) == (date(2024, 2, 1), date(2024, 2, 29), 29)
    commit_days(table, 2, 0)
    assert day(0) not in LOGS.state(place_of(table), COLUMN).foreign


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (f"{3:020d}.checkpoint.parquet", (3, 1)),
        (f"{3:020d}.checkpoint.{1:010d}.{4:010d}.parquet", (3, 4)),
        (f"{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", (3, 1)),
        (f"{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet", (3, 1)),
        (f"{3:020d}.checkpoint.json", None),
        (f"{3:020d}.checkpoint.{1:010d}.{4:010d}.json", None),
        (f"{3:020d}.json", None),
        ("3.checkpoint.parquet", None),
        (HINT, None),
    ],
)
def test_a_checkpoint_is_known_by_each_form_of_its_name(
    name: str, told: tuple[int, int] | None
) -> None:
    assert parsed_checkpoint(name) == told


def checkpoint(table: Path, version: int, content: bytes, hint: str) -> Path:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    file = log / f"{version:020d}.checkpoint.parquet"
    file.write_bytes(content)
    (log / f"{version:020d}.json").write_text('{"commitInfo":{}}\n')
    (log / HINT).write_text(hint)
    return file


def test_a_checkpoint_of_a_version_without_a_whole_commit_counts_as_torn(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 3}')
    file.with_name(f"{3:020d}.json").write_text('{"commitInfo"')
    assert torn_checkpoints(place_of(tmp_path)) == [file.name, HINT]


def test_a_hint_to_a_checkpoint_that_is_gone_misleads_and_one_that_nobody_can_read_does_not(
    tmp_path: Path,
) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 4}')
    assert torn_checkpoints(place_of(tmp_path)) == [HINT]
    for unreadable in ("{", '{"version": "4"}', '{"version": [4]}', "[" * 100_000):
        file.with_name(HINT).write_text(unreadable)
        assert torn_checkpoints(place_of(tmp_path)) == []


def test_a_log_that_delta_rs_cannot_read_is_an_error_of_one_line_that_names_the_table(
    table: Path,
) -> None:
    commit_days(table, 0, 0)
    commit_days(table, 1, 0)
    commit_file(table, 0).write_text("[" * 100_000)
    with pytest.raises(DamagedLog, match=rf"the table {table.name}: its log cannot") as raised:
        open_delta(place_of(table))
    assert "\n" not in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert str(again) == str(raised.value)


def test_a_hint_to_a_checkpoint_in_parts_misleads_where_a_part_is_lacking_or_torn(
    tmp_path: Path,
) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 3}')
    parts = [file.with_name(f"{3:020d}.checkpoint.{n:010d}.{2:010d}.parquet") for n in (1, 2)]
    file.rename(parts[0])
    assert torn_checkpoints(place_of(tmp_path)) == [HINT]
    parts[1].write_bytes(MAGIC * 2)
    assert torn_checkpoints(place_of(tmp_path)) == []
    parts[1].write_bytes(b"torn")
    assert torn_checkpoints(place_of(tmp_path)) == [parts[1].name, HINT]
