"""Input digests of raw, staging, features, labels and training: what moves them, and what must not.

Tested here: `kernel.core.digests` but for what is known at a cut (`test_digests_as_known.py`). Not
tested here: states.
"""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import midnight
from backfill_assets.kernel.core.digests import (
    DIGEST_CHARS,
    digest_of,
    is_as_written,
    is_required,
    raw_digest,
    with_digest,
)
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import Codes
from backfill_assets_tests.builders import (
    CONTRACTS,
    HORIZON,
    MATURITY,
    WINDOW,
    Story,
    day,
    landed_day,
    loaded,
    turned,
)
from backfill_assets_tests.calls import calls_during
from backfill_assets_tests.strategies import json_values, texts

MIDDAY_OF_3 = midnight(day(3)) + timedelta(hours=12)


@given(st.dictionaries(texts, json_values, max_size=4))
def test_no_digest_depends_on_the_order_of_keys(value: dict[str, object]) -> None:
    assert digest_of(turned(value)) == digest_of(value)


@given(st.lists(texts, unique=True, max_size=4), st.lists(texts, unique=True, max_size=4))
def test_different_lists_have_different_digests(one: list[str], other: list[str]) -> None:
    assert (digest_of(one) == digest_of(other)) == (one == other)
    assert len(digest_of(one)) == DIGEST_CHARS


# raw


def test_raw_is_the_set_of_contents_in_any_order() -> None:
    assert Story().land(day(0), "a", "b").digest("raw", day(0)) == Story().land(
        day(0), "b", "a"
    ).digest("raw", day(0))
    assert Story().land(day(0), "a").digest("raw", day(0)) != Story().land(day(0), "b").digest(
        "raw", day(0)
    )


def test_the_same_file_twice_counts_once() -> None:
    assert Story().land(day(0), "a", "a").digest("raw", day(0)) == Story().land(day(0), "a").digest(
        "raw", day(0)
    )


def test_raw_knows_contents_only_neither_rows_nor_other_days() -> None:
    story = Story().land(day(0), "a")
    before = story.digest("raw", day(0))
    story.landed[day(0)] = landed_day({"a"}, 99)
    assert story.land(day(1), "b").digest("raw", day(0)) == before


def test_as_of_counts_only_on_the_day_that_it_falls_within() -> None:
    free, cut = (
        Story().land(day(2), "a").land(day(3), "b"),
        Story(as_of=MIDDAY_OF_3).land(day(2), "a"),
    )
    cut.land(day(3), "b")
    assert cut.digest("raw", day(2)) == free.digest("raw", day(2))
    assert cut.digest("raw", day(3)) != free.digest("raw", day(3))


def test_as_of_at_another_time_of_its_day_is_another_digest() -> None:
    later = Story(as_of=MIDDAY_OF_3 + timedelta(microseconds=1)).land(day(3), "b")
    assert later.digest("raw", day(3)) != Story(as_of=MIDDAY_OF_3).land(day(3), "b").digest(
        "raw", day(3)
    )


def test_a_day_that_ends_at_as_of_counts_whole() -> None:
    whole = Story(as_of=midnight(day(4))).land(day(3), "b")
    assert whole.digest("raw", day(3)) == Story().land(day(3), "b").digest("raw", day(3))


@pytest.mark.parametrize("number", [3, 4, 400])
def test_days_at_as_of_or_after_it_are_empty_whatever_landed(number: int) -> None:
    story = Story(as_of=midnight(day(3))).land(day(number), "a")
    assert (
        story.digest("raw", day(number))
        == Story().digest("raw", day(number))
        == raw_digest(day(0), Story().view().source("raw"))
    )


# staging


def test_staging_is_the_arrivals_rows_of_its_day() -> None:
    story = loaded(3)
    before = {n: story.digest("staging", day(n)) for n in range(3)}
    story.land(day(3), "late for 1").load(day(3), touching=[day(1)])
    assert story.digest("staging", day(1)) != before[1]
    assert [story.digest("staging", day(n)) for n in (0, 2)] == [before[0], before[2]]


def test_a_raw_day_that_is_rewritten_with_the_same_content_moves_nothing_below() -> None:
    story = loaded(2)
    before = story.digest("staging", day(1))
    assert story.load(day(1)).digest("staging", day(1)) == before


# features: a trailing window


@pytest.mark.parametrize(
    ("number", "inside"), [(3, False), (4, False), (5, True), (6, True), (7, True), (8, False)]
)
def test_features_cover_exactly_their_window(number: int, inside: bool) -> None:
    story = loaded(10)
    story.build("staging", *map(day, range(10)))
    before = story.digest("features", day(7))
    story.rewrite("staging", day(number), fingerprint="restated")
    assert (story.digest("features", day(7)) != before) is inside
    assert 7 - WINDOW + 1 == 5


def test_days_before_the_lakes_first_are_neither_required_nor_seen() -> None:
    story = loaded(2)
    story.build("staging", day(0), day(1))
    before = story.digest("features", day(0))
    assert story.build("staging", day(-1)).digest("features", day(0)) == before
    assert story.states().missing_inputs("features", day(0)) == []


def test_a_missing_day_differs_from_an_empty_one() -> None:
    missing, empty = loaded(3), loaded(3)
    missing.build("staging", day(0), day(2))
    empty.build("staging", day(0), day(2)).build("staging", day(1), rows=0)
    assert missing.digest("features", day(2)) != empty.digest("features", day(2))


def test_a_new_scheme_of_fingerprints_moves_nothing_until_a_day_is_made_again_by_it() -> None:
    story = loaded(3)
    story.build("staging", *map(day, range(3)))
    before = story.digest("features", day(2))
    story.rewrite("staging", day(1), scheme=1)
    assert story.digest("features", day(2)) == before
    story.rewrite("staging", day(1), scheme=2, fingerprint="of the same rows")
    assert story.digest("features", day(2)) != before


def test_rows_count_even_if_fingerprints_agree() -> None:
    story = loaded(3)
    story.build("staging", *map(day, range(3)))
    before = story.digest("features", day(2))
    assert story.rewrite("staging", day(1), rows=7).digest("features", day(2)) != before


def test_what_is_made_from_an_edited_day_is_made_again_when_the_day_is_repaired() -> None:
    story = loaded(3)
    story.build("staging", *map(day, range(3)))
    honest = story.digest("features", day(2))
    story.edit("staging", day(1))
    assert story.digest("features", day(2)) != honest
    assert story.build("staging", day(1)).digest("features", day(2)) == honest


# labels: a horizon, with days that may not exist yet


def _labelled(days: int, staged: int) -> Story:
    """A lake with raw loaded for `days` days, and staging and the features known of the first
    `staged`."""
    story = loaded(days)
    story.build("staging", *map(day, range(staged)))
    return story.build("features_as_known", *map(day, range(staged)))


@pytest.mark.parametrize(
    ("number", "inside"), [(3, False), (4, False), (5, True), (6, True), (7, False)]
)
def test_labels_cover_exactly_their_horizon(number: int, inside: bool) -> None:
    story = _labelled(10, 10)
    before = story.digest("labels", day(4))
    story.rewrite("staging", day(number), fingerprint="restated")
    assert (story.digest("labels", day(4)) != before) is inside


def test_days_of_a_horizon_are_required_from_the_frontier_on_that_covers_them() -> None:
    frontier = midnight(day(6))
    assert is_required(day(5), day(4), frontier)
    assert not is_required(day(6), day(4), frontier)
    assert is_required(day(4), day(4), None)
    assert not is_required(day(5), day(4), None)


def test_before_the_frontier_a_missing_day_of_the_horizon_differs_from_an_empty_one() -> None:
    missing, empty = _labelled(8, 5), _labelled(8, 5).build("staging", day(5), rows=0)
    assert missing.frontier() == midnight(day(8))
    assert missing.digest("labels", day(4)) != empty.digest("labels", day(4))


def test_after_the_frontier_a_missing_day_of_the_horizon_is_an_empty_one() -> None:
    missing, empty = _labelled(5, 5), _labelled(5, 5).build("staging", day(5), day(6), rows=0)
    assert missing.frontier() == midnight(day(5))
    assert missing.digest("labels", day(4)) == empty.digest("labels", day(4))


def test_a_day_after_the_frontier_that_has_rows_counts() -> None:
    missing, early = (
        _labelled(5, 5),
        _labelled(5, 5).build("staging", day(6), content="delivered before it happened"),
    )
    assert missing.digest("labels", day(4)) != early.digest("labels", day(4))


def test_labels_move_once_when_they_mature_and_never_after() -> None:
    story = loaded(4)
    story.build("staging", *map(day, range(12))).build("features_as_known", day(1))
    seen = []
    for n in range(4, 9):
        seen.append(story.digest("labels", day(1)))
        story.land(day(n), f"file-{n}").load(day(n), touching=[])
    assert story.frontier() == midnight(day(9))
    ripe = 1 + 1 + HORIZON + MATURITY
    assert [n for n, (a, b) in enumerate(pairwise(seen), start=5) if a != b] == [ripe]


def test_what_windows_read_is_computed_once_for_all_days_that_read_it() -> None:
    days = [*map(day, range(10))]
    states = loaded(10).build("staging", *days).states()
    calls = calls_during(lambda: [states.digests.of("features", of) for of in (*days, *days)])
    assert calls["content_at"] == calls["digest_at"] == len(days)
    assert calls["_content_by_number"] == 1, "which columns are read is the same for all days"


def test_labels_follow_the_features_they_are_for() -> None:
    story = _labelled(10, 10)
    before = story.digest("labels", day(4))
    assert (
        story.rewrite("features_as_known", day(3), fingerprint="x").digest("labels", day(4))
        == before
    )
    assert (
        story.rewrite("features_as_known", day(4), fingerprint="x").digest("labels", day(4))
        != before
    )


# training, and everything


@pytest.mark.parametrize("table", ["features_as_known", "labels"])
def test_training_follows_both_its_inputs(table: str) -> None:
    story = _labelled(10, 10).build("labels", day(4))
    before = story.digest("training", day(4))
    assert story.rewrite(table, day(4), fingerprint="restated").digest("training", day(4)) != before


@pytest.mark.parametrize(
    ("table", "below"), [("features_as_known", "labels"), ("labels", "training")]
)
def test_an_incomplete_input_shows_in_the_digest(table: str, below: str) -> None:
    story = _labelled(10, 10).build("labels", day(4))
    before = story.digest(below, day(4))
    assert story.rewrite(table, day(4), built=Built.INCOMPLETE).digest(below, day(4)) != before


def test_digests_contain_neither_versions_nor_runs_nor_code() -> None:
    story = _labelled(10, 10).build("features", *map(day, range(10))).build("labels", day(4))
    before = [story.digest(c.name, day(4)) for c in CONTRACTS]
    for name, table in story.tables.items():
        found = table.latest.items()
        latest = {
            d: replace(s, write_id="w", code_digest="c", settings_digest="s", run_id="r")
            for d, s in found
        }
        newer = {"raw": table.inputs["raw"] + 50} if table.inputs else {}
        story.tables[name] = replace(table, version=table.version + 50, latest=latest, inputs=newer)
        story.codes[name] = Codes(
            "c", "s"
        )  # as in the receipts: days of old code count by their write
    assert [story.digest(c.name, day(4)) for c in CONTRACTS] == before


def test_values_that_are_not_what_was_written_show_by_their_digest() -> None:
    written = with_digest({"a": [1, 2], "b": {"c": None}})
    assert is_as_written(json.loads(json.dumps(written)))
    assert is_as_written({"a": 1}), "earlier releases wrote none"
    changes: list[dict[str, object]] = [{"a": [2, 1]}, {"d": 1}, {"digest": None}]
    assert not [change for change in changes if is_as_written({**written, **change})]
