"""The seven states of a day, the order in which they match, and what a write says of a day.

Tested here: `kernel.core.states`, each state by an example. Not tested here: what moves a digest
(`test_digests.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.kernel.core.days import midnight
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.states import Codes, State, States
from backfill_assets.kernel.core.view import DayReceipt
from backfill_assets.kernel.core.write_mode import MERGE
from backfill_assets_tests.builders import CODE, CONTRACTS, Story, day, loaded
from backfill_assets_tests.calls import calls_during

ALL_DAYS = tuple(map(day, range(10)))


def _built() -> Story:
    """A lake of ten loaded days, every table built."""
    return loaded(10).build_all(*ALL_DAYS)


def test_days_before_the_first_day_of_a_table_are_pending_or_stay_as_they_were_made() -> None:
    story = loaded(3).build_all(*ALL_DAYS[1:3])
    own = tuple(replace(c, first_day=day(2)) if c.name == "staging" else c for c in CONTRACTS)
    story.land(day(2), "late for 1").load(day(2), touching=[day(2), day(1)])
    states = States(own, story.view(), story.codes)
    assert [states.of("staging", day(n)) for n in (0, 1, 2)] == [
        State.PENDING,
        State.FRESH,
        State.STALE,
    ]


def test_a_lake_without_tables_is_missing_until_the_cut_where_it_waits() -> None:
    found = {c.name: Story().state(c.name, day(0)) for c in CONTRACTS}
    waiting = {"features_as_known", "labels", "training"}
    assert {name for name, state in found.items() if state is State.PENDING} == waiting
    assert {state for name, state in found.items() if name not in waiting} == {State.MISSING}


def test_a_day_whose_inputs_changed_is_stale() -> None:
    story = _built()
    story.land(day(9), "late for 5").load(day(9), touching=[day(9), day(5)])
    assert story.state("staging", day(5)) is State.STALE
    assert story.state("staging", day(6)) is State.FRESH


def test_of_a_stale_day_it_is_asked_once_whether_its_inputs_are_todays() -> None:
    story = _built()
    story.land(day(9), "late for 5").load(day(9), touching=[day(9), day(5)])
    calls = calls_during(lambda: story.state("staging", day(5)))
    assert calls["is_current"] == 1


def test_staleness_travels_down_only_as_far_as_content_changes() -> None:
    story = _built()
    story.land(day(9), "late for 5").load(day(9), touching=[day(9), day(5)])
    same = story.tables["staging"].latest[day(5)].entry.fingerprint
    story.build("staging", day(5), content=same)
    assert {story.state("features", d) for d in ALL_DAYS[5:8]} == {State.FRESH}
    story.build("staging", day(5), content="other")
    assert [story.state("features", d) for d in ALL_DAYS[4:9]] == [
        State.FRESH,
        *[State.STALE] * 3,
        State.FRESH,
    ]


def test_a_day_that_a_commit_of_others_touched_is_stale() -> None:
    story = _built().edit("features", day(5))
    assert story.state("features", day(5)) is State.STALE
    assert story.state("features", day(6)) is State.FRESH
    assert story.build("features", day(5)).state("features", day(5)) is State.FRESH


def test_raw_is_stale_until_arrivals_names_its_version() -> None:
    story = loaded(3).land(day(3), "new").load(day(3), finish=False)
    assert story.state("raw", day(3)) is State.STALE
    assert story.state("raw", day(2)) is State.FRESH
    assert story.finish().state("raw", day(3)) is State.FRESH


def test_raw_of_another_select_is_outdated_and_stale_when_another_file_lands_on_its_day() -> None:
    story = loaded(3)
    story.codes["raw"] = Codes(CODE.code_digest, "settings-2")
    assert story.state("raw", day(1)) is State.OUTDATED
    assert story.land(day(1), "late").state("raw", day(1)) is State.STALE
    assert story.state("raw", day(2)) is State.OUTDATED


def test_the_raw_day_that_as_of_cut_is_stale_when_as_of_rises() -> None:
    story = Story(as_of=midnight(day(1)) + timedelta(hours=9)).land(day(1), "file").load(day(1))
    assert story.state("raw", day(1)) is State.FRESH
    story.as_of = None
    assert story.state("raw", day(1)) is State.STALE


def test_other_code_or_other_settings_make_a_day_outdated() -> None:
    story = _built()
    story.codes["features"] = Codes("code-2", CODE.settings_digest)
    assert story.state("features", day(5)) is State.OUTDATED
    assert story.state("staging", day(5)) is State.FRESH
    story.codes["features"] = Codes(CODE.code_digest, "settings-2")
    assert story.state("features", day(5)) is State.OUTDATED


def test_a_day_whose_cut_lies_after_the_frontier_is_pending_even_before_it_was_built() -> None:
    story = loaded(3)
    story.build("staging", *ALL_DAYS[:5])
    assert story.state("features_as_known", day(2)) is State.MISSING
    assert story.state("features_as_known", day(3)) is State.PENDING
    assert (
        story.build("features_as_known", day(3)).state("features_as_known", day(3)) is State.PENDING
    )
    assert story.state("features", day(3)) is State.MISSING, "features do not wait"


def test_a_pending_day_is_stale_when_the_frontier_passes_its_cut() -> None:
    story = loaded(3)
    story.build("staging", *ALL_DAYS[:5]).build("features_as_known", day(3))
    story.land(day(3), "file-3").load(day(3), touching=[])
    assert story.state("features_as_known", day(3)) is State.STALE
    assert (
        story.build("features_as_known", day(3)).state("features_as_known", day(3)) is State.FRESH
    )


def test_a_day_built_without_a_required_day_is_incomplete_until_that_day_exists() -> None:
    story = loaded(5)
    story.build("staging", day(2), day(3)).build("features", day(3))
    assert story.states().missing_inputs("features", day(3)) == [("staging", day(1))]
    assert story.state("features", day(3)) is State.INCOMPLETE
    assert story.build("staging", day(1)).state("features", day(3)) is State.STALE
    assert story.build("features", day(3)).state("features", day(3)) is State.FRESH


def test_the_first_match_counts() -> None:
    """One day, and one reason after another taken away: each uncovers the next state of the
    rule."""
    story = loaded(3).build_all(*ALL_DAYS[:3])
    table, last = "features_as_known", day(3)
    receipt = DayEntry(1, "A", "digest of other inputs", Built.HELD)
    story.codes[table] = Codes("code-2", "settings-2")
    story.receipt(table, last, receipt)
    story.codes[table] = Codes("code-3", "settings-3")
    seen = [story.state(table, last)]
    story.rewrite(table, last, built=Built.INCOMPLETE)
    story.codes[table] = Codes("code-4", "settings-4")
    seen.append(story.state(table, last))
    story.land(last, "file-3").load(last)
    story.build("staging", last).rewrite("staging", last, columns={"entity": "", "event_date": ""})
    seen.append(story.state(table, last))
    story.rewrite(table, last, input_digest=story.digest(table, last))
    story.codes[table] = Codes("code-5", "settings-5")
    seen.append(story.state(table, last))
    story.rewrite(table, last, built=Built.COMPLETE)
    story.codes[table] = Codes("code-6", "settings-6")
    seen.append(story.state(table, last))
    story.rewrite(table, last)
    seen.append(story.state(table, last))
    assert seen == [
        State.HELD,
        State.PENDING,
        State.STALE,
        State.INCOMPLETE,
        State.OUTDATED,
        State.FRESH,
    ]


class _AskedInFull(States):
    """States that ask all questions of the rule of each day."""

    def _is_plainly_right(self, table: str, day: date, receipt: DayReceipt) -> bool:
        return False


def _forget_parameters(story: Story) -> None:
    """The newest receipts of two tables do not name the parameters of their days."""
    for name in ("features", "labels"):
        before = story.tables[name]
        latest = {d: replace(receipt, parameters="") for d, receipt in before.latest.items()}
        story.tables[name] = replace(before, latest=latest)


def _give_grace(story: Story) -> None:
    story.grace = timedelta(hours=5)


SPOILED: dict[str, Callable[[Story], object]] = {
    "nothing": lambda story: story,
    "late data": lambda story: story.land(day(9), "late").load(day(9), touching=[day(5)]),
    "a load without an end": lambda story: story.land(day(9), "x").load(day(9), finish=False),
    "a day of others": lambda story: story.edit("features", day(5)),
    "another content": lambda story: story.build("staging", day(5), content="other"),
    "an incomplete day": lambda story: story.rewrite("staging", day(5), built=Built.INCOMPLETE),
    "a merged day": lambda story: story.rewrite("features", day(5), built=Built.MERGED),
    "a held day": lambda story: story.rewrite("features", day(5), built=Built.HELD),
    "no parameters": _forget_parameters,
    "another grace": _give_grace,
    "other code": lambda story: story.codes.update(features=Codes("code-2", CODE.settings_digest)),
    "other settings": lambda story: story.codes.update(labels=Codes(CODE.code_digest, "other")),
    "no code": lambda story: story.codes.pop("features"),
}


@pytest.mark.parametrize("spoil", SPOILED)
def test_a_day_that_is_fresh_by_its_digest_alone_is_so_by_the_whole_rule(spoil: str) -> None:
    story = _built()
    SPOILED[spoil](story)
    found, asked = (kind(CONTRACTS, story.view(), story.codes) for kind in (States, _AskedInFull))
    for contract in CONTRACTS:
        expected = [asked.of(contract.name, d) for d in ALL_DAYS]
        assert [found.of(contract.name, d) for d in ALL_DAYS] == expected, contract.name


def test_an_incomplete_input_makes_what_is_built_from_it_incomplete() -> None:
    story = loaded(10)
    story.build("staging", *ALL_DAYS[2:]).build("features_as_known", day(3)).build("labels", day(3))
    assert story.states().built_as("features_as_known", day(3)) is Built.INCOMPLETE
    assert story.states().built_as("labels", day(3)) is Built.INCOMPLETE
    assert story.states().built_as("training", day(3)) is Built.INCOMPLETE
    assert story.states().missing_inputs("training", day(3)) == []


def test_missing_days_of_a_horizon_count_only_before_the_frontier() -> None:
    story = loaded(5)
    story.build("staging", *ALL_DAYS[:4]).build("features_as_known", *ALL_DAYS[:4])
    assert story.states().missing_inputs("labels", day(3)) == [("staging", day(4))]
    assert story.states().missing_inputs("labels", day(1)) == []


@pytest.mark.parametrize("spoil", ["missing", "held", "late", "code", "edited"])
def test_nothing_is_settled_that_a_rebuild_could_change(spoil: str) -> None:
    story, asked = _built(), day(5)
    assert story.states().is_settled("staging", asked)
    if spoil == "missing":
        asked = day(11)
    elif spoil == "held":
        story.rewrite("staging", asked, built=Built.HELD)
    elif spoil == "late":
        story.land(day(9), "late").load(day(9), touching=[asked])
    elif spoil == "code":
        story.codes["staging"] = Codes("code-2", "settings-2")
    else:
        story.edit("staging", asked)
    assert not story.states().is_settled("staging", asked)


def test_a_merged_day_is_outdated_and_settled_only_for_who_merges_again() -> None:
    story, asked = _built(), day(5)
    story.rewrite("staging", asked, built=Built.MERGED)
    states = story.states()
    assert states.of("staging", asked) is State.OUTDATED
    assert not states.is_settled("staging", asked)
    assert states.is_settled("staging", asked, MERGE)
    story.land(day(9), "late").load(day(9), touching=[asked])
    assert story.states().of("staging", asked) is State.STALE
    assert not story.states().is_settled("staging", asked, MERGE)


def test_what_is_known_at_a_cut_follows_the_rows_that_a_merge_kept() -> None:
    story = _built()
    before = story.state("features_as_known", day(5))
    story.rewrite("staging", day(5), built=Built.MERGED)
    assert (before, story.state("features_as_known", day(5))) == (State.FRESH, State.STALE)


DAYS = {"entity": "STRING", "arrival_date": "DATE", "event_date": "DATE"}
OTHER, VALUE = (
    {**DAYS, "other": "BIGINT"},
    {**DAYS, "value": "BIGINT"},
)  # of files before and after a rename


def test_a_day_is_incomplete_until_its_input_is_made_with_every_column_that_it_reads() -> None:
    story = loaded(10).build_all(*ALL_DAYS)
    story.rewrite("staging", day(4), columns=OTHER)
    assert story.states().inputs_lacking_columns("features", day(5)) == [("staging", day(4))]
    assert story.build("features", day(5)).state("features", day(5)) is State.INCOMPLETE
    story.rewrite("staging", day(4), columns=VALUE)  # a new name gives the same fingerprint
    assert story.state("features", day(5)) is State.STALE
    assert story.build("features", day(5)).state("features", day(5)) is State.FRESH


def test_another_name_or_type_in_files_makes_readers_stale_and_a_wider_type_does_not() -> None:
    story = loaded(10).build_all(*ALL_DAYS).rewrite("staging", day(4), columns=VALUE)
    story.build("features", *ALL_DAYS)
    assert story.rewrite("staging", day(4), columns=VALUE).state("features", day(5)) is State.FRESH
    for columns, state in (
        ({**VALUE, "value": "INT"}, State.FRESH),
        ({**VALUE, "value": "DATE"}, State.STALE),
        (OTHER, State.STALE),
    ):
        assert (
            story.rewrite("staging", day(4), columns=columns).state("features", day(5)) is state
        ), columns


def test_rows_that_were_loaded_without_a_column_are_made_again_once_they_are_loaded_with_it() -> (
    None
):
    story = loaded(10).build_all(*ALL_DAYS).rewrite("raw", day(4), columns=OTHER).finish()
    story.build("staging", day(4)).rewrite("staging", day(4), columns=DAYS)
    assert story.states().undelivered_columns("staging", day(4)) == {"value"}
    assert story.state("staging", day(4)) is State.FRESH
    assert story.states().lacking_columns("staging", day(4)) == ["value"]
    story.rewrite("raw", day(4), columns=VALUE).finish()
    assert story.state("staging", day(4)) is State.STALE
    assert story.build("staging", day(4)).state("staging", day(4)) is State.FRESH
