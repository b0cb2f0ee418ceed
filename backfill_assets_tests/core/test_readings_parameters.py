"""Other windows, cut or maturity alone make days outdated, never stale; changed inputs make them stale all the same.

Tested here: `core.digests`, and digests and states of days made with other parameters than today's. Not tested here:
that a load's receipts carry them (`load.test_candidate`).
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.contracts import Contract, Input, InputKind
from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.core.needs import needed_days
from backfill_assets.core.readings import Parameters, parse_parameters
from backfill_assets.core.states import Codes, State, States
from backfill_assets_tests.builders import (
    AS_KNOWN,
    CONTRACTS,
    FEATURES,
    HORIZON,
    LABELS,
    MATURITY,
    TRAINING,
    WINDOW,
    Story,
    day,
    loaded,
)
from backfill_assets_tests.strategies import days, texts

ALL_DAYS = [day(n) for n in range(12)]
OTHER = Codes("code-1", "settings-2")
WIDER = replace(FEATURES, inputs=(Input("staging", before=WINDOW + 1),))
FARTHER = replace(LABELS, inputs=(Input("staging", before=-1, after=HORIZON + 1), LABELS.inputs[1]))
RIPER = replace(TRAINING, matures_after_days=HORIZON + MATURITY + 2)
KNOWN_LONGER = replace(AS_KNOWN, inputs=(Input("staging", before=WINDOW + 1, kind=InputKind.KNOWN_AT_CUT),))
parameters = st.builds(
    Parameters,
    st.lists(
        st.builds(
            Input,
            texts,
            st.integers(0, 400),
            st.integers(0, 400),
            st.sampled_from([b for b in InputKind if b is not InputKind.FILES]),
        ),
        max_size=3,
    ).map(tuple),
    st.booleans(),
    st.none() | st.integers(0, 400),
    st.integers(0, 10**6).map(lambda s: timedelta(seconds=s)),
    days,
)


@given(parameters)
def test_what_is_written_is_what_is_read(made: Parameters) -> None:
    assert parse_parameters(made.to_json()) == made


@pytest.mark.parametrize("text", ["", "x", "{}", "[]", '{"inputs":[["staging"]]}', "null"])
def test_a_text_that_is_not_understood_tells_no_parameters(text: str) -> None:
    assert parse_parameters(text) is None


def under(story: Story, *changed: Contract) -> States:
    """The states of a story under other contracts, whose settings digests are other ones."""
    codes = {**story.codes, **{c.name: OTHER for c in changed}}
    by_name = {c.name: c for c in changed}
    return States([by_name.get(c.name, c) for c in CONTRACTS], story.view(), codes)


def built() -> Story:
    return loaded(12).build_all(*ALL_DAYS)


@pytest.mark.parametrize("changed", [WIDER, FARTHER, RIPER, KNOWN_LONGER], ids=lambda c: c.name)
def test_other_settings_alone_make_all_days_outdated_and_ask_for_nothing(changed: Contract) -> None:
    states = under(built(), changed)
    found = {states.of(changed.name, d) for d in ALL_DAYS}
    assert State.OUTDATED in found
    assert found <= {State.OUTDATED, State.INCOMPLETE, State.PENDING}
    assert not any(needed_days(states).values())


def test_another_window_that_no_digest_of_code_or_settings_knows_of_is_outdated_too() -> None:
    story = built()
    states = States([WIDER if c is FEATURES else c for c in CONTRACTS], story.view(), story.codes)
    assert states.of("features", day(8)) is State.OUTDATED
    assert not states.is_settled("features", day(8))


@pytest.mark.parametrize(("number", "state"), [(4, State.OUTDATED), (5, State.OUTDATED), (6, State.STALE)])
def test_inputs_are_those_of_the_window_that_the_day_was_made_with(number: int, state: State) -> None:
    story = built().rewrite("staging", day(number), fingerprint="restated")
    assert under(story, WIDER).of("features", day(8)) is state
    assert story.state("features", day(8)) is (State.STALE if state is State.STALE else State.FRESH)
    assert 8 - WINDOW - 1 == 4


def test_late_data_is_found_in_a_horizon_of_before_and_in_what_was_known_of_before() -> None:
    story = built()
    story.land(day(5), "resent").load(day(5)).build("staging", day(5))
    assert under(story, FARTHER).of("labels", day(4)) is State.STALE
    assert under(story, KNOWN_LONGER).of("features_as_known", day(6)) is State.STALE
    assert under(story, KNOWN_LONGER).of("features_as_known", day(8)) is State.OUTDATED


def test_a_label_still_ripens_when_the_maturity_of_its_making_has_passed() -> None:
    later = replace(LABELS, matures_after_days=HORIZON + MATURITY + 2)
    story = loaded(8).build_all(*ALL_DAYS[:8])
    last = next(d for d in ALL_DAYS if story.frontier() == midnight(d + ONE_DAY * (HORIZON + MATURITY)))
    assert under(story, later).of("labels", last) is State.OUTDATED
    story.land(day(8), "file-8").load(day(8), touching=[])
    assert under(story, later).of("labels", last) is State.STALE


def forgetful(story: Story, table: str) -> Story:
    """The story as an earlier version would have written it: its receipts name no parameters."""
    view = story.tables[table]
    latest = {d: replace(r, parameters="") for d, r in view.latest.items()}
    story.tables[table] = replace(view, latest=latest)
    return story


def test_receipts_of_before_are_outdated_under_other_settings_and_judged_as_before_under_the_same() -> None:
    assert under(forgetful(built(), "features"), WIDER).of("features", day(8)) is State.OUTDATED
    assert forgetful(built(), "features").state("features", day(8)) is State.FRESH
    restated = built().rewrite("staging", day(7), fingerprint="restated")
    assert forgetful(restated, "features").state("features", day(8)) is State.STALE


def test_an_earlier_first_day_makes_only_those_days_outdated_whose_window_reaches_it() -> None:
    story = built()
    story.start = day(-1)
    assert story.state("features", day(0)) is State.OUTDATED
    assert story.state("features", day(WINDOW - 1)) is State.FRESH
