"""The ledger's rows and the days a load changes, by SQL of the embedded engine, against the same
counted in Python. Not here: loads as users run them (`end_to_end.test_ledger_orders`)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.arrival_rows import (
    RawDeliveries,
    days_of_moved_keys,
    keys_with_days,
    ledger_rows,
    rows_of_keys,
)
from backfill_assets.intake.arrivals import BY_KEY, commit_arrivals
from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import Superseded
from backfill_assets.kernel.core.payload import LANDED
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.readings import delivery_sets_read
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.oracle import Row, arrivals_of, delivery, unruly
from backfill_assets_tests.pipeline.built_in import contracts
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")
CONTRACTS, START = tuple(contracts().values()), date(2024, 3, 1)
RAW = next(c for c in CONTRACTS if c.is_landed)
PARTS = delivery_sets_read(CONTRACTS, (c for c in RAW.column_names if c not in LANDED))
DAYS = [START + timedelta(days=n) for n in range(6)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return bare_lake(tmp_path_factory.mktemp("lake"))


def as_stored(rows: Sequence[Row]) -> list[Row]:
    return [
        {k: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for k, v in row.items()}
        | {"source_file": "f", "arrival_date": row["arrival_ts"].date()}
        for row in rows
    ]


def query_for(lake: Lake, rows: Sequence[Row]) -> str:
    files = stage_by_hand(lake, RAW, as_stored(rows)).paths
    return RawDeliveries(LakeSession(lake), RAW, PARTS).of(rows_query(files, RAW))


def answer(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with duckdb_cursor(lake) as engine:
        return engine.execute(query).fetchall()


def on(rows: Sequence[Row], days: set[date]) -> list[Row]:
    return [r for r in rows if r["arrival_ts"].date() in days]


@pytest.mark.parametrize("seed", range(4))
def test_the_days_a_load_changes_hold_every_day_whose_rows_differ(lake: Lake, seed: int) -> None:
    rows, moved = unruly(seed, START), {date(2024, 3, 4)}
    others = [r for r in rows if r["arrival_ts"].date() not in moved]
    none, mine, all_others = (
        keys_with_days(query_for(lake, r)) for r in ([], on(rows, moved), others)
    )
    changed = {day for (day,) in answer(lake, days_of_moved_keys(none, mine, all_others))}
    near = rows_of_keys(all_others, none, mine)
    assert len(answer(lake, near)) < len(answer(lake, all_others)), (
        "rows of other keys are left out"
    )
    assert {day for (day,) in answer(lake, days_of_moved_keys(none, mine, near))} == changed
    before, after = arrivals_of(others), arrivals_of(rows)
    differ = {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert differ - moved <= changed
    event_days: dict[str, list[set[date]]] = defaultdict(lambda: [set(), set()])
    for side, held in enumerate((others, rows)):
        for row in held:
            if row["op"] == "upsert":
                event_days[row["event_key"]][side].add(row["event_ts"].date())
    told = {
        r["arrival_ts"].date()
        for r in rows
        if len(set(map(frozenset, event_days[r["event_key"]]))) > 1
    }
    assert changed == told


def load(
    lake: Lake,
    rows: Sequence[Row],
    days: set[date],
    settings: str = "",
    dies: bool = False,
    raw: Contract = RAW,
) -> None:
    """These days of raw get these rows under some settings, and the ledger follows unless the load
    dies before it."""
    staged, contracts = (
        stage_by_hand(lake, raw, as_stored(rows)),
        [raw if c.is_landed else c for c in CONTRACTS],
    )
    found, none, provenance = (
        audit_files(lake, staged.paths, raw),
        DayProfile(),
        Provenance("test", settings_digest=settings),
    )
    profiles = {d: found.get(d, none) for d in days}
    entries = {d: DayEntry(p.rows, p.fingerprint, p.fingerprint) for d, p in profiles.items()}
    write = Write(raw, staged, entries, lake.store.view("raw", "arrival_date").version, provenance)
    replace_days(lake, write, lambda days: {d: entries[d].input_digest for d in days})
    staged.drop()
    if not dies:
        commit_arrivals(LakeSession(lake), contracts, read_view(lake, contracts), provenance)


def kept_in(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(answer(lake, rows_query(lake.store.data_files(ARRIVALS), ARRIVALS)))


def test_a_load_that_lost_its_lock_does_not_name_older_deliveries_over_newer_ones(
    tmp_path: Path,
) -> None:
    lake, history = bare_lake(tmp_path), unruly(0, START, days=6, rows=24, keys=6)
    for days in (set(DAYS[:2]), {DAYS[2]}):
        load(lake, on(history, days), days, dies=days == {DAYS[2]})
    paused = read_view(lake, CONTRACTS)
    load(lake, on(history, {DAYS[3]}), {DAYS[3]})
    kept = kept_in(lake)
    with pytest.raises(Superseded, match="arrivals: another run wrote it since this one read it"):
        commit_arrivals(LakeSession(lake), CONTRACTS, paused, Provenance("test"))
    assert kept_in(lake) == kept
    assert read_view(lake, CONTRACTS).source("raw").loaded_version == lake.store.head("raw")


contents = st.integers(
    0, 4
)  # of a day: none, or its rows in one of four histories of the same few keys
loads = st.lists(
    st.dictionaries(st.sampled_from(DAYS), contents, min_size=1, max_size=2), min_size=1, max_size=6
)


@settings(max_examples=examples(4))
@given(loads)
@example([{d: 1} for d in DAYS] + [{DAYS[2]: 2}, {DAYS[5]: 0}])
@example([dict.fromkeys(DAYS, 3), {DAYS[0]: 4}, {DAYS[0]: 3}])
def test_after_every_load_in_any_order_the_ledger_is_that_of_a_lake_loaded_at_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[date, int]]
) -> None:
    lake = bare_lake(tmp_path_factory.mktemp("loads"))
    histories = [[], *(unruly(seed, START, days=6, rows=24, keys=6) for seed in range(4))]
    loaded: dict[date, list[Row]] = {}
    for step in steps:
        found = {d: on(histories[which], {d}) for d, which in step.items()}
        loaded |= found
        load(lake, [r for rows in found.values() for r in rows], {*step})
        rows = [r for of_day in loaded.values() for r in of_day]
        kept = kept_in(lake)
        assert {r[:2]: r[2:6] for r in kept} == arrivals_of(rows)
        assert kept == sorted(answer(lake, ledger_rows(query_for(lake, rows), None, PARTS))), (
            "fingerprints too"
        )


def keyed(rows: Sequence[Row]) -> list[Row]:
    """The rows with keys that name a day: that of about half of their events."""
    return [
        r | {"event_key": f"{START + timedelta(days=int(r['event_key'][1:]) % 2)}{r['event_key']}"}
        for r in rows
    ]


def day_of_key(key: str) -> date:
    return date.fromisoformat(key[:10])


def promised(rows: Sequence[Row]) -> list[Row]:
    """The rows that judging leaves where keys name their event days."""
    upserts = [
        r
        for r in rows
        if r["op"] == "upsert" and r["event_ts"].date() == day_of_key(r["event_key"])
    ]
    early = timedelta(days=1)
    return upserts + [
        r
        for r in rows
        if r["op"] == "delete" and day_of_key(r["event_key"]) <= r["arrival_ts"].date() + early
    ]


def with_key_day(lake: Lake, template: str = "YYYY-MM-DD", early: int = 1) -> Lake:
    source = lake.settings.source.model_copy(update={"key_day": template})
    lateness = lake.settings.lateness.model_copy(update={"early_tolerance_days": early})
    return replace(
        lake, settings=lake.settings.model_copy(update={"single": source, "lateness": lateness})
    )


# Of each load the settings: "" without the promise, two others with it.
keyed_loads = st.lists(
    st.tuples(loads.map(lambda steps: steps[0]), st.sampled_from(["", "a", "b"])),
    min_size=1,
    max_size=8,
)
EVERY_DAY = dict.fromkeys(DAYS, 3)


@settings(max_examples=examples(4))
@given(keyed_loads)
@example([({d: 1}, "a") for d in DAYS] + [({DAYS[2]: 2}, "b"), ({DAYS[5]: 0}, "a")])
@example(
    [
        (EVERY_DAY, ""),
        ({DAYS[0]: 4}, "a"),
        (EVERY_DAY, "a"),
        ({DAYS[0]: 1}, "b"),
        ({DAYS[1]: 2}, ""),
    ]
)
@example(
    [({d: 2}, "a") for d in DAYS[1:]]
    + [({DAYS[0]: 2}, ""), ({DAYS[0]: 2}, "a"), ({DAYS[1]: 0}, "")]
)
@example([(EVERY_DAY, "a"), ({DAYS[0]: 1}, ""), ({DAYS[0]: 4}, "b"), ({DAYS[0]: 4}, "a")])
def test_where_keys_name_their_days_the_ledger_is_that_of_a_lake_loaded_at_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[dict[date, int], str]]
) -> None:
    lake, is_by_key = bare_lake(tmp_path_factory.mktemp("keyed")), False
    histories = [[], *(keyed(unruly(seed, START, days=6, rows=80, keys=40)) for seed in range(4))]
    loaded: dict[date, list[Row]] = {}
    judged: dict[date, str] = {}
    for step, name in steps:
        found = {d: on(histories[which], {d}) for d, which in step.items()}
        found = {d: promised(rows) if name else rows for d, rows in found.items()}
        loaded, judged = loaded | found, judged | dict.fromkeys(found, name)
        load(
            with_key_day(lake) if name else lake,
            [r for rows in found.values() for r in rows],
            {*step},
            name,
        )
        rows = [r for of_day in loaded.values() for r in of_day]
        known = (
            {name, "a", "b"} if is_by_key else {name}
        )  # a ledger that is as before does not know of other settings
        is_by_key = bool(name) and all(judged[d] in known for d, of_day in loaded.items() if of_day)
        kept = kept_in(lake)
        assert {r[:2]: r[2:6] for r in kept} == arrivals_of(rows, day_of_key if is_by_key else None)
        days = read_view(lake, CONTRACTS).source("raw").ledger.latest.values()
        assert is_by_key or not any(BY_KEY in r.entry.input_digest for r in days), (
            "else each load reads all"
        )
    at_once = bare_lake(tmp_path_factory.mktemp("at once"))
    load(with_key_day(at_once) if is_by_key else at_once, rows, {*loaded})
    assert kept == kept_in(at_once), "fingerprints too"


def test_a_load_without_the_promise_that_died_before_the_ledger_ends_it(tmp_path: Path) -> None:
    plain = bare_lake(tmp_path)
    lake, key = with_key_day(plain), f"{DAYS[0]}"
    rows = [
        delivery(n, f"{day} 10:00", f"{DAYS[n % 2]} 09:00", key=key)
        for n, day in enumerate(DAYS[:3])
    ]
    load(lake, [rows[0], rows[2]], {*DAYS[:3]}, "a")
    load(plain, [rows[1]], {DAYS[1]}, "", dies=True)
    load(lake, [delivery(9, f"{DAYS[3]} 10:00", f"{DAYS[0]} 09:00", key=key)], {DAYS[3]}, "a")
    found = {r[:2]: r[4] for r in kept_in(lake)}
    assert found == {(arrived, day): 1 for arrived in DAYS[:4] for day in DAYS[:2]}


def test_days_that_were_judged_by_another_bound_of_early_events_are_not_read_alone(
    tmp_path: Path,
) -> None:
    plain, key = bare_lake(tmp_path), f"{DAYS[3]}"
    load(
        with_key_day(plain, early=3),
        [delivery(1, f"{DAYS[0]} 10:00", key=key, op="delete")],
        {DAYS[0]},
        "a",
    )
    for number, day in ((2, DAYS[1]), (3, DAYS[3])):
        load(with_key_day(plain), [delivery(number, f"{day} 10:00", key=f"{day}")], {day}, "b")
    assert [row[:2] for row in kept_in(plain)] == [
        (DAYS[0], DAYS[3]),
        (DAYS[1], DAYS[1]),
        (DAYS[3], DAYS[3]),
    ]


def test_where_keys_name_their_days_a_load_reads_no_file_of_another_day(tmp_path: Path) -> None:
    lake, day = with_key_day(bare_lake(tmp_path)), DAYS[0]
    load(lake, [delivery(1, f"{day} 10:00", key=f"{day}")], {day})
    (file,) = lake.store.data_files(RAW)
    Path(file).unlink()
    gone = {"op": "delete", "event_ts": None, "entity": None, "value": None, "flag": None}
    keys = [
        f"{day}",
        "k2",
        "2024-02-30",
        f"{lake.settings.start_date - timedelta(days=1)}",
        "9999-12-31",
    ]
    load(
        lake,
        [delivery(n, f"{DAYS[3]} 10:00", key=key, **gone) for n, key in enumerate(keys)],
        {DAYS[3]},
    )
    assert [row[:5] for row in kept_in(lake)] == [(day, day, 1, 1, 0), (DAYS[3], day, 1, 1, 0)]
