"""Lake versions: what readers see together, whatever stops a run, a publication or a rollback. Not
here: publications and rollbacks themselves (`candidates.test_publications`,
`plans.test_rollback`), and both under kills (`end_to_end.test_publish_killed`)."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.records import json_of, record_of
from backfill_assets.kernel.log.run_markers import BEAT, UNSEEN_SECONDS
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import RUNS, Token
from backfill_assets.kernel.place.processes import PlacedProcess, Process
from backfill_assets.kernel.tables import versions
from backfill_assets.kernel.tables.folder import VERSIONS
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.versions import (
    EPOCH,
    HeldBack,
    KeptEntries,
    LakeVersion,
    UnfinishedSwitch,
    entry_name,
    entry_numbers,
    find_version,
    newest_version,
    record_versions,
    switch_tables,
    unfinished_switches,
    versions_seen,
    why_readers_wait,
)
from backfill_assets.kernel.tables.view import settled_view
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.files import write_json
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.planned import BUILT, DAYS, Planned
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")
IN_ANOTHER_CONTAINER = replace(PlacedProcess.this(), numbering="pid:[1]", pid=7)


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """A lake whose readers see version 1 of both tables."""
    found = Planned(tmp_path / "lake")
    record_versions(found.lake, found.pipeline.contracts, "made")
    return found


def seen(made: Planned) -> list[int]:
    """The versions of both tables as a reader sees them."""
    view = settled_view(made.lake, made.pipeline.contracts)
    return [view.table(t).version for t in BUILT]


def write(made: Planned, table: str, run_id: str = "", **tags: str) -> None:
    made.write(table, dict.fromkeys(range(DAYS), made.view(table).version + 7), run_id, **tags)


def end(made: Planned, run_id: str = "") -> list[int]:
    """The end of a run, and what readers see then."""
    record_versions(made.lake, made.pipeline.contracts, "a run", run_id)
    return seen(made)


@contextmanager
def switch(made: Planned, name: str = "p9", *tables: str) -> Iterator[None]:
    """A switch of some tables (none: both)."""
    work = UnfinishedSwitch(name, f"publish {name}", f"Finish {name}")
    with switch_tables(made.lake, made.pipeline.contracts, tables or BUILT, work):
        yield


def stop(made: Planned, *written: str) -> None:
    """A switch p9 of both tables that stops after these were written."""

    def stopped() -> None:
        with switch(made):
            for table in written:
                write(made, table, plan="p9")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()


def by_process(made: Planned, process: PlacedProcess) -> None:
    """That process, and not this one, is what works on the unfinished switches."""
    entry = newest_version(made.lake)
    assert entry is not None
    works = tuple(replace(u, process=vars(process)) for u in entry.unfinished)
    number = entry.number + 1
    following = made.root / VERSIONS / f"{number:020d}.json"
    write_json(following, json_of(replace(entry, number=number, unfinished=works)))


def test_readers_see_what_a_run_wrote_once_it_ended_also_where_it_failed(made: Planned) -> None:
    write(made, "staging")
    assert seen(made) == [1, 1]
    assert end(made) == [2, 1], "features of the run failed: staging moves on all the same"
    write(made, "features")
    assert end(made) == [2, 2]
    count = len(entry_numbers(place_of(made.root)))
    assert (end(made), len(entry_numbers(place_of(made.root)))) == ([2, 2], count), (
        "nothing moved, nothing is written"
    )


def test_commits_of_a_run_that_still_runs_and_what_is_made_from_them_wait_for_its_end(
    made: Planned,
) -> None:
    write_json(made.root / RUNS / "here" / "long", vars(PlacedProcess.this()))
    write(made, "staging", "long")
    write(made, "staging", "short")
    write(made, "features", "short")
    assert end(made, "short") == [1, 1]
    (made.root / RUNS / "here" / "long").unlink()
    assert end(made, "long") == [3, 2]


def test_a_run_that_begins_while_heads_are_read_is_held_back_as_one_that_ran_before(
    made: Planned,
) -> None:
    """Another command's entry, made while a run begins and commits the first of its tables."""

    def begin() -> None:
        write_json(made.root / RUNS / "here" / "new", vars(PlacedProcess.this()))
        write(made, "staging", "new")

    with doing_before(TableStore.commits, begin, table="staging"):
        assert end(made, "another") == [1, 1]


@pytest.mark.parametrize("read", BUILT)
def test_a_table_is_not_seen_without_the_input_that_it_was_made_from_while_heads_are_read(
    made: Planned, read: str
) -> None:
    """A run that ended commits both tables as another command reads the heads of one of them."""

    def commit() -> None:
        write(made, "staging", "ended")
        write(made, "features", "ended")

    with doing_before(TableStore.commits, commit, table=read):
        staging, features = end(made, "another")
    assert staging >= features
    assert end(made, "ended") == [2, 2]


def test_a_run_whose_end_nobody_sees_holds_its_commits_back_for_a_day_and_not_for_ever(
    made: Planned,
) -> None:
    marker = made.root / RUNS / "there" / "killed"
    write_json(marker, vars(IN_ANOTHER_CONTAINER))
    write(made, "staging", "killed")
    assert end(made, "another") == [1, 1]
    os.utime(marker, times=(time := utc_now().timestamp() - UNSEEN_SECONDS - 60, time))
    assert end(made, "another") == [2, 1]
    write_json(marker, vars(PlacedProcess.this()))
    os.utime(marker, times=(time, time))
    write(made, "staging", "killed")
    assert end(made, "another") == [2, 1], "it is seen to live, however old it is"
    write_json(marker, vars(replace(PlacedProcess.this(), pid=2**22 + 1)))
    assert end(made, "another") == [3, 1], "it is seen to be dead"


@pytest.mark.parametrize("ends", ["it ends", "it is killed with its pod"])
def test_readers_that_wait_for_a_run_say_so_and_go_on_when_it_is_over_without_a_further_entry(
    made: Planned, ends: str
) -> None:
    marker = made.root / RUNS / "there" / "long-running"
    write_json(marker, vars(replace(IN_ANOTHER_CONTAINER, host="pod-7")))
    marker.with_suffix(BEAT).write_bytes(b"of another kernel")
    write(made, "staging", "long-running")
    assert (seen(made), why_readers_wait(made.lake)) == ([1, 1], ""), "no other run has ended"
    write(made, "staging", "another")
    write(made, "features", "another")
    assert end(made, "another") == [1, 1]
    (line,) = why_readers_wait(made.lake).splitlines()
    assert "the run long-run on pod-7 since 20" in line
    count = len(entry_numbers(place_of(made.root)))
    if ends == "it is killed with its pod":
        os.utime(marker.with_suffix(BEAT), (0, 0))
    else:
        marker.unlink()
    assert (seen(made), why_readers_wait(made.lake), len(entry_numbers(place_of(made.root)))) == (
        [3, 2],
        "",
        count,
    )
    assert (end(made), why_readers_wait(made.lake)) == ([3, 2], "")
    os.utime(marker.with_suffix(BEAT))
    assert seen(made) == [3, 2], (
        "an entry of what readers see is not taken back by a run that shows itself again"
    )


def test_entries_of_a_lake_whose_readers_wait_for_nobody_hold_what_earlier_releases_read(
    made: Planned,
) -> None:
    write(made, "staging")
    end(made)
    names = {"number", "tables", "at", "by", "why", "unfinished", "digest"}
    assert json.loads((made.root / VERSIONS / f"{2:020d}.json").read_text()).keys() == names


def test_a_switch_that_was_stopped_halfway_is_ended_by_what_completes_it_and_by_nothing_else(
    made: Planned,
) -> None:
    stop(made, "staging")
    for others in ("staging", "features"):
        with (
            pytest.raises(BackfillError, match=r"publish p9 was stopped: .* Nothing was written"),
            switch(made, "p8", others),
        ):
            raise AssertionError("it began")
    with switch(made, "p7", "raw"):
        made.write("raw", {2: 5})
    assert (seen(made), end(made), [u.id for u in unfinished_switches(made.lake)]) == (
        [1, 1],
        [1, 1],
        ["p9"],
    )
    with switch(made):
        write(made, "features")
        assert seen(made) == [1, 1]
    assert (seen(made), unfinished_switches(made.lake)) == ([2, 2], ())


@pytest.mark.parametrize("where", ["another container", "this machine"])
def test_a_switch_of_another_process_is_completed_where_it_may_be_dead_not_twice(
    made: Planned, where: str
) -> None:
    stop(made, "staging")
    parent = Process.of(os.getppid())
    assert parent is not None
    alive = replace(PlacedProcess.this(), pid=parent.pid, started=parent.created)
    by_process(made, alive if where == "this machine" else IN_ANOTHER_CONTAINER)
    for name in ("p8",) if where == "another container" else ("p8", "p9"):
        with (
            pytest.raises(BackfillError, match="publish p9 runs or was stopped"),
            switch(made, name),
        ):
            raise AssertionError("it began")
    assert (end(made), [u.id for u in unfinished_switches(made.lake)]) == ([1, 1], ["p9"])
    if where == "another container":
        with switch(made):
            write(made, "features")
        assert (seen(made), unfinished_switches(made.lake)) == ([2, 2], ())


def test_a_switch_that_was_killed_with_its_pod_is_over_without_a_sign_of_life(
    made: Planned,
) -> None:
    stop(made, "staging")
    by_process(made, IN_ANOTHER_CONTAINER)
    switches = made.root / RUNS / "switches"
    write_json(switches / digest_of(["p9"]), vars(IN_ANOTHER_CONTAINER))
    beat = switches / f"{digest_of(['p9'])}{BEAT}"
    beat.write_bytes(b"of another kernel")
    with pytest.raises(BackfillError, match="publish p9 runs or was stopped"), switch(made):
        raise AssertionError("it began")
    os.utime(beat, (0, 0))
    assert "publish p9 was stopped" in str(unfinished_switches(made.lake)[0])
    with switch(made):
        write(made, "features")
        assert len([*switches.iterdir()]) == 2, "the switch shows itself"
    assert (seen(made), unfinished_switches(made.lake), [*switches.iterdir()]) == ([2, 2], (), [])


def test_a_switch_that_was_paused_before_its_first_commit_and_goes_on_is_seen_as_a_whole(
    made: Planned,
) -> None:
    beat = made.root / RUNS / "switches" / f"{digest_of(['p9'])}{BEAT}"
    with switch(made):
        by_process(made, IN_ANOTHER_CONTAINER)
        write_json(beat.with_suffix(""), vars(IN_ANOTHER_CONTAINER))
        beat.write_bytes(b"of another kernel")
        os.utime(beat, (0, 0))
        write(made, "raw", "another")
        assert end(made, "another") == [1, 1]
        assert "publish p9 was stopped" in str(unfinished_switches(made.lake)[0])
        write(made, "staging", plan="p9")
        assert end(made, "another") == [1, 1], "half of it is not seen"
        os.utime(beat)
        write(made, "features", plan="p9")
    assert (seen(made), unfinished_switches(made.lake)) == ([2, 2], ())


def test_a_killed_switch_without_a_commit_is_dropped_by_the_next_entry(made: Planned) -> None:
    with switch(made):
        entry = newest_version(made.lake)
        assert entry is not None
        killed = replace(entry, unfinished=tuple(replace(u, process={}) for u in entry.unfinished))
    later = replace(killed, number=entry.number + 50)
    write_json(made.root / VERSIONS / f"{later.number:020d}.json", json_of(later))
    assert unfinished_switches(made.lake) == ()
    with switch(made, "p8"):
        write(made, "staging")
    assert seen(made) == [2, 1]


def test_a_table_that_was_moved_away_and_made_anew_is_read_as_it_is(
    made: Planned, tmp_path: Path
) -> None:
    made.lake.table_place("staging").local().rename(tmp_path / "away")
    assert seen(made) == [-1, 1]
    made.write("staging", {0: 5})
    head = made.view("staging").version
    assert (seen(made), end(made)) == ([head, 1], [head, 1])
    write(made, "features")
    assert end(made) == [head, 2]


def test_a_lake_version_is_found_by_number_and_by_instant(made: Planned) -> None:
    first = newest_version(made.lake)
    write(made, "staging")
    end(made)
    assert first is not None
    assert find_version(made.lake, first.at) == find_version(made.lake, 1) == first
    assert find_version(made.lake, utc_now()) == newest_version(made.lake)
    assert find_version(made.lake, first.at.replace(year=2000)) is None
    with pytest.raises(BackfillError, match=r"no lake version 9: it keeps 1 to 2"):
        find_version(made.lake, 9)
    (made.root / VERSIONS / f"{2:020d}.json").write_text("{")
    with pytest.raises(BackfillError, match=r"0002\.json of its log is not what was written"):
        seen(made)


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(-9, 9)), max_size=6),
    st.integers(-2, 400),
)
@settings(max_examples=examples(60), deadline=None)
def test_an_instant_finds_the_newest_entry_by_then_whatever_times_the_place_tells(
    waits: Sequence[int], copied: Sequence[tuple[int, int]], asked: int
) -> None:
    """`copied`: entries that a copy of the lake wrote at other times."""
    with TemporaryDirectory() as folder:
        place, times = Folder(folder), [*accumulate(waits)]
        for number, seconds in enumerate(times):
            name, at = entry_name(number), EPOCH + timedelta(seconds=seconds)
            entry = LakeVersion(number, {}, at, "me", "a run", ())
            place.write(name, json.dumps(json_of(entry)).encode())
            os.utime(place.local(name), (seconds, seconds))
        for number, off in copied:
            if number < len(times):
                os.utime(place.local(entry_name(number)), (1000 + off, 1000 + off))
        found = KeptEntries(place).count_by(EPOCH + timedelta(seconds=asked))
        assert found == sum(seconds <= asked for seconds in times)


@dataclass(frozen=True)
class LongHistory(Folder):
    """Ten thousand entries, one a minute, as the port gives them; which of them were read."""

    asked: list[int] = field(default_factory=list, compare=False)
    copied_at: float = 0.0

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        times = {n: max(self.copied_at, 60.0 * n + (0, 0.03)[n % 2]) for n in range(10_000)}
        return {entry_name(n): Token((n,), 1, at) for n, at in times.items()}

    def read(self, name: str) -> bytes:
        number = int(name.rpartition("/")[2].removesuffix(".json"))
        self.asked.append(number)
        entry = LakeVersion(number, {}, EPOCH + timedelta(minutes=number), "me", "a run", ())
        return json.dumps(json_of(entry)).encode()


@pytest.mark.parametrize("number", [-1, 0, 1, 4_999, 5_000, 9_998, 9_999])
def test_of_ten_thousand_entries_an_instant_reads_three_at_most(number: int) -> None:
    """A listing of their names comes before."""
    place = LongHistory("/nowhere")
    assert KeptEntries(place).count_by(EPOCH + timedelta(minutes=number)) == number + 1
    assert len(place.asked) <= 3


@pytest.mark.parametrize("number", [0, 1, 4_999, 5_000, 7_777, 9_998])
def test_of_ten_thousand_entries_of_a_copied_lake_an_instant_reads_four_at_most(
    number: int,
) -> None:
    """With the listing of their names, eleven requests to a store, that is 15."""
    place = LongHistory("/nowhere", copied_at=1e9)
    assert KeptEntries(place).count_by(EPOCH + timedelta(minutes=number)) == number + 1
    assert len(place.asked) <= 4


def test_a_lake_version_that_was_thinned_out_is_named_with_those_beside_it(made: Planned) -> None:
    for value in range(3):
        made.write("staging", {0: value})
        end(made)
    made.lake.place.delete(entry_name(2))
    with pytest.raises(BackfillError, match="thinned it out, and keeps 1 and 3"):
        find_version(made.lake, 2)


def test_an_entry_that_goes_between_the_listing_and_the_reading_is_passed_over(
    made: Planned,
) -> None:
    first = newest_version(made.lake)
    made.write("staging", {0: 8})
    end(made)
    second = newest_version(made.lake)
    made.write("staging", {0: 9})
    end(made)
    assert first is not None
    assert second is not None
    with doing_before(
        versions._read_entry, lambda: made.lake.place.delete(entry_name(second.number))
    ):
        assert find_version(made.lake, second.at) == first


def test_a_link_to_no_entry_is_said_and_not_read_for_ever(made: Planned) -> None:
    (made.root / VERSIONS / f"{9:020d}.json").symlink_to("nothing")
    with pytest.raises(BackfillError, match="a link there that leads to no file"):
        newest_version(made.lake)


@pytest.mark.parametrize("lacking", ["tables", "at", "unfinished"])
def test_an_entry_that_lacks_what_was_written_is_damaged(made: Planned, lacking: str) -> None:
    file = made.root / VERSIONS / f"{1:020d}.json"
    entry = json.loads(file.read_text())
    del entry[lacking]
    file.write_text(json.dumps(entry))
    with pytest.raises(BackfillError, match=r"0001\.json of its log is not what was written"):
        newest_version(made.lake)


def test_a_lake_version_of_a_candidate_names_what_it_read_of_the_lake_then(tmp_path: Path) -> None:
    beside = CandidateWorld.of(Planned(tmp_path / "lake"), *BUILT)
    for value in (6, 7, 8):
        beside.made.write("raw", {2: value})
        end(beside.made)
    beside.build_all(5)
    end(beside.there)
    beside.made.write("raw", {2: 9})
    end(beside.made)
    then = versions_seen(beside.there.lake, 1)
    assert then is not None
    assert {t: then[t] for t in ("raw", *BUILT)} == {"raw": 4, "staging": 1, "features": 1}


def test_tables_of_a_publication_wait_together_for_a_run_that_wrote_one_of_them(
    tmp_path: Path,
) -> None:
    beside = CandidateWorld.of(Planned(tmp_path / "lake"), *BUILT)
    made, marker = beside.made, beside.made.root / RUNS / "here" / "long"
    beside.build_all(5)
    end(made)
    write_json(marker, vars(PlacedProcess.this()))
    made.write("features", {3: 50}, "long")
    beside.publish()
    assert (seen(made), end(made, "another")) == ([1, 1], [1, 1])
    marker.unlink()
    assert end(made, "long") == [2, 3]


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("another entry of the log", lambda entries: entries[1]),
        ("another version of a table", lambda entries: entries[2].replace(b": 2,", b": 1,")),
        ("no object", lambda _: b"[]"),
        ("too deep for a parser", lambda _: b"[" * 100_000),
    ],
)
def test_an_entry_that_is_not_what_was_written_is_named_and_never_read_as_another(
    made: Planned, what: str, content: Callable[[dict[int, bytes]], bytes]
) -> None:
    write(made, "staging")
    end(made)
    folder = made.root / VERSIONS
    entries = {n: (folder / f"{n:020d}.json").read_bytes() for n in (1, 2)}
    changed = content(entries)
    assert changed != entries[2], what
    (folder / f"{2:020d}.json").write_bytes(changed)
    with pytest.raises(BackfillError, match=rf"{2:020d}.json of its log is not what was written"):
        seen(made)


def test_the_text_of_an_entry_stays_the_same_byte_for_byte() -> None:
    work = UnfinishedSwitch("i", "a rollback", "Do it again", {"raw": 1}, {"pid": 7})
    entry = LakeVersion(3, {"raw": 2}, datetime(2024, 3, 1, tzinfo=UTC), "ann", "load", (work,))
    text = (
        '{"number": 3, "tables": {"raw": 2}, "at": "2024-03-01T00:00:00+00:00", "by": "ann", '
        '"why": "load", "unfinished": [{"id": "i", "what": "a rollback", "fix": "Do it again", '
        '"tables": {"raw": 1}, "process": {"pid": 7}}]}'
    )
    held = replace(entry, held=HeldBack({"r": "2024"}, {"raw": 1}))
    more = ', "held": {"runs": {"r": "2024"}, "then": {"raw": 1}}}'
    assert [json.dumps(json_of(e)) for e in (entry, held)] == [text, text[:-1] + more]
    assert record_of(LakeVersion, json.loads(text)) == entry
    assert record_of(LakeVersion, json.loads(text[:-1] + more)) == held
