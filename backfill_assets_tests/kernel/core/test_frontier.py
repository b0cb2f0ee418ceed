"""The frontier, sentence by sentence of design.md section 2: it decides cuts and maturity, and
never falls.

Tested here: `kernel.core.frontier`, on lakes told as stories. Not tested here: what digests and
states make of it.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.contracts import Input, InputKind
from backfill_assets.kernel.core.days import midnight
from backfill_assets.kernel.core.digests import raw_digest
from backfill_assets.kernel.core.frontier import (
    FRONTIERS,
    Frontiers,
    frontier_of,
    frontiers_in,
    is_loaded,
)
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, TableView
from backfill_assets_tests.builders import START, Story, contract, day, landed_day, loaded
from backfill_assets_tests.strategies import lake_steps, orders_of_loading

MIDDAY_OF_3 = midnight(day(3)) + timedelta(hours=12)


def test_there_is_no_frontier_before_anything_was_loaded() -> None:
    assert Story().frontier() is None
    assert Story().land(day(0), "file").frontier() is None
    assert Story(as_of=MIDDAY_OF_3).frontier() is None


def test_it_stops_at_the_start_of_the_oldest_day_that_landed_and_is_not_loaded() -> None:
    story = Story().land(day(0), "a").land(day(1), "b").land(day(2), "c").land(day(3), "d")
    assert story.load(day(0), day(3)).frontier() == midnight(day(1))
    assert story.load(day(1)).frontier() == midnight(day(2))
    assert story.load(day(2)).frontier() == midnight(day(4))


def test_a_day_that_landed_after_the_newest_loaded_one_does_not_move_it() -> None:
    assert loaded(2).land(day(9), "early bird").frontier() == midnight(day(2))


def test_it_is_at_least_what_a_receipt_of_raw_names() -> None:
    story = loaded(2)
    story.tables["raw"] = replace(story.tables["raw"], frontier=midnight(day(7)))
    assert story.frontier() == midnight(day(7))


def test_days_built_against_a_frontier_keep_it_from_falling() -> None:
    """A withdrawn file lets it rise without a load that would record it; then another file lands on
    the same day."""
    story = (
        Story().land(day(0), "a").land(day(1), "withdrawn").land(day(2), "c").load(day(0), day(2))
    )
    del story.landed[day(1)]
    assert story.frontier() == midnight(day(3))
    story.tables["features_as_known"] = replace(
        story.view().table("features_as_known"), frontier=midnight(day(3))
    )
    assert story.land(day(1), "another").frontier() == midnight(day(3))


def test_unusable_rows_never_count() -> None:
    story = loaded(2).land(day(0), "rubbish", usable=0).land(day(5), "more rubbish", usable=0)
    story.load(day(0), day(5))
    assert story.frontier() == midnight(day(2))


def test_a_raw_version_that_arrivals_does_not_name_is_not_loaded() -> None:
    story = loaded(2).land(day(2), "new").load(day(2), finish=False)
    assert not is_loaded(day(2), story.view().source("raw"))
    assert story.frontier() == midnight(day(2))
    assert story.finish().frontier() == midnight(day(3))


def test_a_raw_version_that_was_never_named_does_not_count_when_its_file_is_withdrawn() -> None:
    story = loaded(1).land(day(1), "withdrawn").load(day(1), finish=False)
    del story.landed[day(1)]
    assert story.frontier() == midnight(day(1))


def test_a_rewritten_day_that_arrivals_does_not_name_yet_waits_again() -> None:
    story = loaded(3).load(day(1), finish=False)
    assert not is_loaded(day(1), story.view().source("raw"))
    assert is_loaded(day(2), story.view().source("raw"))
    assert story.frontier() == midnight(day(3)), "it does not fall"


def test_it_is_as_of_once_everything_that_landed_before_is_loaded() -> None:
    story = loaded(3, as_of=MIDDAY_OF_3)
    assert story.frontier() == MIDDAY_OF_3
    assert story.land(day(1), "late").land(day(2), "late too").frontier() == MIDDAY_OF_3
    fresh = Story(as_of=MIDDAY_OF_3).land(day(0), "a").land(day(2), "c").load(day(0))
    assert fresh.frontier() == midnight(day(1)), "day 2 waits"


def test_what_landed_at_as_of_or_after_does_not_wait() -> None:
    story = (
        Story(as_of=midnight(day(3)))
        .land(day(0), "a")
        .land(day(3), "at as_of")
        .land(day(8), "after")
        .load(day(0))
    )
    assert story.frontier() == midnight(day(3))


def test_the_day_that_holds_as_of_waits_until_it_is_loaded() -> None:
    story = loaded(3, as_of=MIDDAY_OF_3)
    other = Story(as_of=MIDDAY_OF_3).land(day(0), "a").land(day(3), "b").load(day(0))
    assert other.frontier() == midnight(day(1))
    assert other.load(day(3)).frontier() == story.frontier() == MIDDAY_OF_3


def test_raising_as_of_lets_it_rise_after_the_day_it_cut_is_loaded_again() -> None:
    story = Story(as_of=MIDDAY_OF_3).land(day(3), "file").load(day(3))
    story.as_of = midnight(day(4))
    assert story.frontier() == MIDDAY_OF_3, "day 3 was loaded up to midday only"
    assert story.load(day(3)).frontier() == midnight(day(4))


@given(lake_steps)
def test_it_never_falls_whatever_lands_and_is_loaded_in_any_order(
    steps: list[tuple[str, int]],
) -> None:
    story, before = Story(), None
    for number, (step, at) in enumerate(steps):
        if step == "land":
            story.land(day(at), f"file-{number}")
        else:
            story.load(
                *map(day, range(6) if step == "load all" else (at,)), finish=step != "cut off"
            )
        now = story.frontier()
        assert before is None or (now is not None and now >= before)
        before = now


@given(orders_of_loading)
def test_where_it_ends_does_not_depend_on_the_order_of_loading(order: list[int]) -> None:
    story = Story()
    for n in order:
        story.land(day(n), f"file-{n}")
    for n in order:
        story.load(day(n))
    assert story.frontier() == midnight(day(6))


# several sources

TWO = (
    contract("raw_a", "arrival_date", Input("landing_a", kind=InputKind.FILES)),
    contract("raw_b", "arrival_date", Input("landing_b", kind=InputKind.FILES)),
    contract("staging_a", "event_date", Input("raw_a", kind=InputKind.ARRIVALS)),
    contract("staging_b", "event_date", Input("raw_b", kind=InputKind.ARRIVALS)),
    contract("features", "feature_date", Input("staging_a", before=2)),
    contract("labels", "label_date", Input("staging_b", after=2), Input("features"), matures=2),
    contract("truth", "day", Input("staging_b")),
)
MADE_FROM = {
    "raw_a": "a",
    "staging_a": "a",
    "features": "a",
    "raw_b": "b",
    "staging_b": "b",
    "truth": "b",
    "labels": "ab",
}


def view_of(
    landed: Mapping[str, Set[int]], loaded: Mapping[str, Set[int]], **told: datetime
) -> LakeView:
    """A lake whose sources have these arrival days landed, and of them these loaded; labels'
    receipts name `told`."""
    tables = {"labels": TableView(0, frontiers={f"raw_{name}": at for name, at in told.items()})}
    delivered = {
        f"raw_{name}": Deliveries({day(n): landed_day({f"{name}{n}"}, 1) for n in days}, name=name)
        for name, days in landed.items()
    }
    bare = LakeView(START, None, timedelta(), {}, delivered)
    for name, days in loaded.items():
        source = bare.source(f"raw_{name}")
        entries = {day(n): DayEntry(1, "F", raw_digest(day(n), source)) for n in days}
        latest = {
            d: DayReceipt(entry, 0, "write", "code", "settings", "run")
            for d, entry in entries.items()
        }
        tables[f"raw_{name}"] = TableView(0, latest) if latest else TableView()
        tables[f"arrivals_{name}"] = (
            TableView(0, inputs={f"raw_{name}": 0}) if latest else TableView()
        )
    return replace(bare, tables=tables)


ARRIVALS = st.sets(st.integers(0, 9), max_size=6)


@given(ARRIVALS, ARRIVALS, ARRIVALS, ARRIVALS)
def test_the_frontier_of_a_table_is_the_least_of_the_sources_it_is_made_from(
    landed_a: set[int], landed_b: set[int], loaded_a: set[int], loaded_b: set[int]
) -> None:
    loaded = {"a": loaded_a & landed_a, "b": loaded_b & landed_b}
    landed = {"a": landed_a, "b": landed_b}
    found = Frontiers(TWO, view_of(landed, loaded))
    alone = {
        n: frontier_of(view_of({n: landed[n]}, {n: loaded[n]}).source(f"raw_{n}")) for n in "ab"
    }
    for table, sources in MADE_FROM.items():
        known = [alone[n] for n in sources]
        assert found.of_table(table) == (
            None if None in known else min(f for f in known if f is not None)
        )
    inputs = {c.name: c.inputs for c in TWO}
    assert all(
        found.of_inputs(inputs[t]) == found.of_table(t)
        for t in ("staging_a", "features", "labels", "truth")
    )


@given(ARRIVALS, ARRIVALS, st.integers(0, 9))
def test_loading_a_source_moves_no_table_not_made_from_it_and_lowers_none(
    a: set[int], b: set[int], more: int
) -> None:
    before = Frontiers(TWO, view_of({"a": a, "b": b}, {"a": a, "b": b}))
    after = Frontiers(TWO, view_of({"a": a, "b": b | {more}}, {"a": a, "b": b | {more}}))
    for table, sources in MADE_FROM.items():
        then, now = before.of_table(table), after.of_table(table)
        assert now == then if sources == "a" else then is None or (now is not None and now >= then)


def test_a_receipt_tells_the_frontiers_of_its_sources_apart_so_that_none_stands_for_another() -> (
    None
):
    view = view_of({"a": {0, 5}, "b": {0}}, {"a": {0, 5}, "b": {0}})
    found = Frontiers(TWO, view)
    assert frontiers_in(found.tags_of("labels")) == {
        "raw_a": midnight(day(6)),
        "raw_b": midnight(day(1)),
    }
    assert frontiers_in(found.tags_of("features")) == {"raw_a": midnight(day(6))}
    assert (
        frontiers_in({}) == frontiers_in({FRONTIERS: "[]"}) == frontiers_in({FRONTIERS: "no"}) == {}
    )
    assert frontiers_in({FRONTIERS: '{"a": "2024-03-01"}'}) == {}, "no instant can be older"
    assert frontiers_in({FRONTIERS: "[" * 100_000}) == {}
    later = Frontiers(
        TWO,
        view_of({"a": {0}, "b": {0}}, {"a": {0}, "b": {0}}, a=midnight(day(9)), b=midnight(day(3))),
    )
    assert (later.of_table("features"), later.of_table("labels")) == (
        midnight(day(9)),
        midnight(day(3)),
    )


def test_a_lake_with_one_source_writes_no_tag() -> None:
    assert loaded(3).states().frontiers.tags_of("labels") == {}
