"""Tables that stand beside those of a lake until they are published or thrown away.
Not here: building one by the command (`end_to_end.test_candidate`)."""

from collections.abc import Callable

import pytest

from backfill_assets.candidates.candidates import (
    _own_files,
    candidate_names,
    candidate_statuses,
    create_candidate,
    discard_candidate,
    find_candidate,
)
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.reading.whole import candidates_of
from backfill_assets_tests.builders import day
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.planned import BUILT, DAYS

pytestmark = pytest.mark.usefixtures("storages")


def test_a_candidate_writes_its_own_tables_and_reads_the_others_from_the_lake(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    assert beside.made.values("staging") == [1] * DAYS, "the lake's own rows are as they were"
    states = beside.there.states()
    assert {states.of(t, day(n)) for t in (*BUILT, "raw") for n in range(DAYS)} == {State.FRESH}
    with pytest.raises(
        BackfillError, match=r"the table raw: the candidate v2 reads it from the lake"
    ):
        beside.there.write("raw", {0: 1})


def test_a_candidate_that_a_killed_command_half_made_is_none_and_its_name_is_free(
    beside: CandidateWorld,
) -> None:
    lake, folder = beside.made.lake, beside.there.root
    (folder / "candidate.json").write_bytes(b'{"unfinished": "being made"}')
    assert candidate_names(lake) == []
    with pytest.raises(
        SettingsError, match="the candidate v2: it is being made, or that was stopped"
    ):
        open_lake(folder)
    create_candidate(lake, beside.made.pipeline, "v2", ("features",), lambda path: (path,))
    assert candidate_names(lake) == ["v2"]
    assert not (folder / "tables").exists(), "nothing of the first one is left"


def test_a_candidate_that_another_command_swept_while_it_was_made_says_so(
    beside: CandidateWorld,
) -> None:
    lake = beside.made.lake
    another = candidates_of(lake.place)  # by which the lock was taken over, after a pause
    with (
        doing_before(_own_files, another.sweep),
        pytest.raises(BackfillError, match="the candidate v3: another command took it for one"),
    ):
        create_candidate(lake, beside.made.pipeline, "v3", ("features",), lambda path: (path,))
    assert candidate_names(lake) == ["v2"]


def test_a_folder_without_its_file_is_discarded_by_name(beside: CandidateWorld) -> None:
    lake, folder = beside.made.lake, beside.there.root
    (folder / "candidate.json").unlink()
    with pytest.raises(BackfillError, match="it is there already"):
        create_candidate(lake, beside.made.pipeline, "v2", ("features",), lambda path: (path,))
    discard_candidate(lake, "v2")
    assert not folder.exists()


@pytest.mark.parametrize("damaged", [b"", b"{}", bytes(90), b'{"tables": 3}', b'{"tables": [1]}'])
def test_a_candidate_whose_file_is_damaged_is_no_lake_of_its_own(
    beside: CandidateWorld, damaged: bytes
) -> None:
    folder = beside.there.root
    (folder / "candidate.json").write_bytes(damaged)
    with pytest.raises(BackfillError, match=r"v2/candidate\.json: it is not what was written"):
        open_lake(folder)
    (found,) = candidate_statuses(beside.made.lake, lambda _: beside.made.pipeline)
    assert (found.name, found.error) == ("v2", "it cannot be read: it is not what was written")


def test_names_that_are_taken_or_none_and_landed_tables_are_refused(beside: CandidateWorld) -> None:
    lake, pipeline = beside.made.lake, beside.made.pipeline

    def create(name: str, *tables: str) -> Callable[[], Lake]:
        return lambda: create_candidate(lake, pipeline, name, tables, lambda path: (path,))

    for attempt, words in (
        (create("v2", "staging"), "it is there already"),
        (create("../x", "staging"), "it is no name"),
        (create("v3", "raw"), "raw is loaded from files"),
        (create("v3", "nowhere"), "no such table"),
    ):
        with pytest.raises(BackfillError, match=words):
            attempt()
    with pytest.raises(BackfillError, match="no such candidate"):
        find_candidate(lake, "v9")
