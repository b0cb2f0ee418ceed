"""What nobody reads makes nobody's days stale; other windows, cut or maturity alone make days
outdated, never stale.

Tested here: `kernel.core.readings` and parameters of days, alone and through digests and states of
lakes in memory. Not tested here: taking the fingerprints (`kernel.write.test_audit`,
`intake.test_arrivals`), receipts of a load (`kernel.write.test_candidate`).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, midnight
from backfill_assets.kernel.core.digests import Digests
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.readings import (
    NAME_END,
    SEPARATOR,
    Parameters,
    column_sets_read,
    delivery_columns,
    delivery_sets_read,
    narrowed_input,
    parse_parameters,
    set_name,
    todays_parameters,
)
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import Codes, State, States
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, TableView
from backfill_assets_tests.builders import (
    AS_KNOWN,
    CODE,
    CONTRACTS,
    FEATURES,
    HORIZON,
    LABELS,
    MATURITY,
    RAW,
    STAGING,
    START,
    TRAINING,
    WINDOW,
    Story,
    day,
    landed_day,
    loaded,
)
from backfill_assets_tests.strategies import days, texts

MORE = Column("more", "STRING", "what nobody reads", nullable=True)
READ = STAGING.column_names  # all but `more`
DELIVERED = tuple(c for c in RAW.column_names if c != "arrival_date")


def wider(contract: Contract) -> Contract:
    return replace(contract, columns=(*contract.columns, MORE))


def reader(kind: InputKind, columns: tuple[str, ...] | None) -> Contract:
    return Contract(
        "sums",
        "sums",
        (Column("entity", "STRING", "e"), Column("day", "DATE", "d")),
        "day",
        ("entity",),
        (Input("staging", before=1, kind=kind, columns=columns),),
        waits_for_cut=kind is InputKind.KNOWN_AT_CUT,
    )


def entry(whole: str, digest: str = "", **parts: str) -> DayEntry:
    return DayEntry(1, whole, digest, parts=parts)


def lake(staging: DayEntry, arrivals: str, *made: tuple[Contract, DayEntry, str]) -> LakeView:
    """One day of everything; staging is what its deliveries give."""
    latest = {"staging": DayReceipt(staging, 0, "w", "", "", "")}
    latest |= {
        c.name: DayReceipt(e, 0, "w", CODE.code_digest, CODE.settings_digest, "", text)
        for c, e, text in made
    }
    tables = {name: TableView(0, {day(0): receipt}) for name, receipt in latest.items()}
    tables["arrivals"] = TableView(0, {}, {"raw": 0}, midnight(day(0)) + timedelta(days=2))
    landed = {day(0): landed_day({"a"}, 1)}
    rows = {day(0): ((day(0), arrivals),)}
    view = LakeView(START, None, timedelta(), tables, {"raw": Deliveries(landed, rows)})
    contracts = (wider(RAW), wider(STAGING))
    digest = Digests(contracts, view, lambda _: None).of("staging", day(0))
    fresh = replace(latest["staging"], entry=replace(staging, input_digest=digest))
    return replace(view, tables=tables | {"staging": TableView(0, {day(0): fresh})})


def state(view: LakeView, contract: Contract) -> str:
    return (
        States((wider(RAW), wider(STAGING), contract), view, {"sums": CODE})
        .of("sums", day(0))
        .value
    )


def made_of(contract: Contract, staging: DayEntry, arrivals: str) -> tuple[Contract, DayEntry, str]:
    """A day of the reader's as it is made of these inputs, by its parameters of that moment."""
    view = lake(staging, arrivals)
    states = States((wider(RAW), wider(STAGING), contract), view, {})
    return (
        contract,
        entry("made", states.digests.of("sums", day(0))),
        todays_parameters(contract, view).to_json(),
    )


def told(whole: str, parts: Mapping[str, str]) -> str:
    """The text of the ledger, as `intake.arrivals` says it."""
    return SEPARATOR.join(
        (whole, *(f"{name}{NAME_END}{found}" for name, found in sorted(parts.items())))
    )


PART, DELIVERY = set_name(READ), set_name(DELIVERED)
BEFORE = entry("old"), "old"
ADDED = entry("new", **{PART: "old"}), told("new", {DELIVERY: "old"})
CHANGED = entry("new", **{PART: "newer"}), told("new", {DELIVERY: "newer"})
UNKNOWN = entry("new"), "new"
KINDS = [InputKind.CONTENT, InputKind.KNOWN_AT_CUT]
PARTS_ALONE = entry("old", **{PART: "of a part"}), told("old", {DELIVERY: "of a part"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("by", "of", "now", "found"),
    [
        (READ, READ, BEFORE, "fresh"),
        (READ, READ, ADDED, "fresh"),
        (READ, READ, CHANGED, "stale"),
        (READ, READ, UNKNOWN, "stale"),
        (READ, READ, PARTS_ALONE, "fresh"),
        (None, None, ADDED, "stale"),
        (None, READ, BEFORE, "fresh"),
        (None, READ, ADDED, "fresh"),
        (None, READ, CHANGED, "stale"),
    ],
    ids=[
        "as it was",
        "a column nobody reads",
        "one that is read",
        "parts unknown",
        "parts alone are new",
        "who reads every column",
        "of before columns could be named",
        "its added column",
        "its changed column",
    ],
)
def test_a_day_is_stale_only_where_a_column_that_is_read_has_changed(
    kind: InputKind,
    by: tuple[str, ...] | None,
    of: tuple[str, ...] | None,
    now: tuple[DayEntry, str],
    found: str,
) -> None:
    assert state(lake(*now, made_of(reader(kind, by), *BEFORE)), reader(kind, of)) == found


def test_the_sets_that_are_asked_for_are_proper_parts_and_named_by_their_columns() -> None:
    contracts = (wider(RAW), wider(STAGING), reader(InputKind.CONTENT, READ))
    assert column_sets_read(contracts, "staging") == {PART: READ}
    assert delivery_sets_read(contracts, (*DELIVERED, "more")) == {}
    known = (*contracts[:2], reader(InputKind.KNOWN_AT_CUT, READ))
    assert (
        column_sets_read(known, "staging"),
        delivery_sets_read(known, (*DELIVERED, "more")),
    ) == (
        {},
        {DELIVERY: DELIVERED},
    )
    everything = reader(InputKind.CONTENT, wider(STAGING).column_names)
    assert column_sets_read((*contracts[:2], everything), "staging") == {}
    assert set_name(("a", "b")) == set_name(("b", "a")) != set_name(("ab",))


def test_what_decides_which_version_is_current_reaches_who_reads_none_of_it() -> None:
    columns = tuple(
        Column(c, "STRING", c) for c in ("event_key", "version_ts", "paid", "more", "event_date")
    )
    versions = Contract(
        "staging",
        "s",
        columns,
        "event_date",
        ("event_key",),
        (Input("raw", kind=InputKind.ARRIVALS),),
    )
    wanted = Input(
        "staging", kind=InputKind.KNOWN_AT_CUT, columns=("event_key", "paid", "event_date")
    )
    delivered = ("seq", "event_key", "version_ts", "op", "paid", "more")
    assert delivery_columns(wanted, {"staging": versions}, delivered) == delivered[:-1]


def test_an_input_takes_the_columns_that_another_reads_of_the_same() -> None:
    wide, narrow = Input("staging", before=1), Input("staging", columns=("entity",))
    assert narrowed_input(wide, [narrow]) == replace(wide, columns=("entity",))
    assert narrowed_input(narrow, [replace(narrow, columns=("value",))]) == narrow
    assert (
        narrowed_input(
            wide, [replace(narrow, table="raw"), replace(narrow, kind=InputKind.KNOWN_AT_CUT)]
        )
        == wide
    )


def test_parameters_say_which_columns_were_read_and_nothing_where_it_was_all() -> None:
    view = lake(*BEFORE)
    for columns in (None, READ):
        made = todays_parameters(reader(InputKind.CONTENT, columns), view)
        assert parse_parameters(made.to_json()) == made
    assert (
        '["staging",1,0,"content"]'
        in todays_parameters(reader(InputKind.CONTENT, None), view).to_json()
    )


ALL_DAYS = [day(n) for n in range(12)]
OTHER = Codes("code-1", "settings-2")
WIDER = replace(FEATURES, inputs=(Input("staging", before=WINDOW + 1),))
FARTHER = replace(LABELS, inputs=(Input("staging", before=-1, after=HORIZON + 1), LABELS.inputs[1]))
RIPER = replace(TRAINING, matures_after_days=HORIZON + MATURITY + 2)
KNOWN_LONGER = replace(
    AS_KNOWN, inputs=(Input("staging", before=WINDOW + 1, kind=InputKind.KNOWN_AT_CUT),)
)
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


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[]", '{"inputs":[["staging"]]}', "null", "[" * 100_000]
)
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


@pytest.mark.parametrize(
    ("number", "state"), [(4, State.OUTDATED), (5, State.OUTDATED), (6, State.STALE)]
)
def test_inputs_are_those_of_the_window_that_the_day_was_made_with(
    number: int, state: State
) -> None:
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
    last = next(
        d for d in ALL_DAYS if story.frontier() == midnight(d + ONE_DAY * (HORIZON + MATURITY))
    )
    assert under(story, later).of("labels", last) is State.OUTDATED
    story.land(day(8), "file-8").load(day(8), touching=[])
    assert under(story, later).of("labels", last) is State.STALE


def forgetful(story: Story, table: str) -> Story:
    """The story as an earlier version would have written it: its receipts name no parameters."""
    view = story.tables[table]
    latest = {d: replace(r, parameters="") for d, r in view.latest.items()}
    story.tables[table] = replace(view, latest=latest)
    return story


def test_older_receipts_are_outdated_under_other_settings_and_unchanged_under_the_same() -> None:
    assert under(forgetful(built(), "features"), WIDER).of("features", day(8)) is State.OUTDATED
    assert forgetful(built(), "features").state("features", day(8)) is State.FRESH
    restated = built().rewrite("staging", day(7), fingerprint="restated")
    assert forgetful(restated, "features").state("features", day(8)) is State.STALE


def test_an_earlier_first_day_makes_only_those_days_outdated_whose_window_reaches_it() -> None:
    story = built()
    story.start = day(-1)
    assert story.state("features", day(0)) is State.OUTDATED
    assert story.state("features", day(WINDOW - 1)) is State.FRESH
