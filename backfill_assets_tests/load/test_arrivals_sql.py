"""The ledger's rows and the days a load changes, by SQL of the embedded engine, against the same counted in Python.

Tested here: `load.arrivals` over unruly deliveries, without an engine, load after load too. Not tested here: loads as
users run them (`test_arrivals`).
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backfill_assets.core.payload import LANDED
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.readings import deliveries_read
from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.audit import audit
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS
from backfill_assets.lake.replace import Provenance, Write, replace_days
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import read_view
from backfill_assets.load.arrivals import changed_days, commit_arrivals, ledger_rows, of_keys, placed_keys
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.oracle import Row, arrivals_of, unruly
from backfill_assets_tests.pipeline.built_in import contracts
from backfill_assets_tests.strategies import examples

CONTRACTS, START = tuple(contracts().values()), date(2024, 3, 1)
RAW = next(c for c in CONTRACTS if c.is_landed)
PARTS = deliveries_read(CONTRACTS, (c for c in RAW.column_names if c not in LANDED))
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
    return selection(stage_by_hand(lake, RAW, as_stored(rows)).paths, RAW)


def answer(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with connection(lake) as engine:
        return engine.execute(query).fetchall()


def on(rows: Sequence[Row], days: set[date]) -> list[Row]:
    return [r for r in rows if r["arrival_ts"].date() in days]


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_of_all_days_and_of_some_are_what_python_counts(lake: Lake, seed: int) -> None:
    rows = unruly(seed, START)
    some = {date(2024, 3, 2), date(2024, 3, 5)}
    everything = answer(lake, ledger_rows(query_for(lake, rows), None, RAW))
    assert {r[:2]: r[2:6] for r in everything} == arrivals_of(rows)
    placed = placed_keys(query_for(lake, rows))
    mine = answer(lake, ledger_rows(query_for(lake, on(rows, some)), placed, RAW))
    assert sorted(mine) == sorted(r for r in everything if r[0] in some), "fingerprints too"
    near = of_keys(placed, query_for(lake, on(rows, some)))
    assert sorted(answer(lake, ledger_rows(query_for(lake, on(rows, some)), near, RAW))) == sorted(mine)


@pytest.mark.parametrize("seed", range(4))
def test_the_days_a_load_changes_hold_every_day_whose_rows_differ(lake: Lake, seed: int) -> None:
    rows, moved = unruly(seed, START), {date(2024, 3, 4)}
    others = [r for r in rows if r["arrival_ts"].date() not in moved]
    none, mine, all_others = (placed_keys(query_for(lake, r)) for r in ([], on(rows, moved), others))
    changed = {day for (day,) in answer(lake, changed_days(none, mine, all_others))}
    near = of_keys(all_others, none, mine)
    assert len(answer(lake, near)) < len(answer(lake, all_others)), "rows of other keys are left out"
    assert {day for (day,) in answer(lake, changed_days(none, mine, near))} == changed
    before, after = arrivals_of(others), arrivals_of(rows)
    differ = {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert differ - moved <= changed
    event_days: dict[str, list[set[date]]] = defaultdict(lambda: [set(), set()])
    for side, held in enumerate((others, rows)):
        for row in held:
            if row["op"] == "upsert":
                event_days[row["event_key"]][side].add(row["event_ts"].date())
    told = {r["arrival_ts"].date() for r in rows if len(set(map(frozenset, event_days[r["event_key"]]))) > 1}
    assert changed == told


def load(lake: Lake, rows: Sequence[Row], days: set[date]) -> None:
    """These days of raw get these rows, and the ledger follows."""
    staged = stage_by_hand(lake, RAW, as_stored(rows))
    found, none = audit(lake, staged.paths, RAW), DayProfile()
    profiles = {d: found.get(d, none) for d in days}
    entries = {d: DayEntry(p.rows, p.fingerprint, p.fingerprint) for d, p in profiles.items()}
    write = Write(RAW, staged, entries, lake.store.view("raw", "arrival_date").version, Provenance("test"))
    replace_days(lake, write, lambda days: {d: entries[d].input_digest for d in days})
    staged.drop()
    commit_arrivals(LakeSession(lake), CONTRACTS, read_view(lake, CONTRACTS), Provenance("test"))


contents = st.integers(0, 4)  # of a day: none, or its rows in one of four histories of the same few keys
loads = st.lists(st.dictionaries(st.sampled_from(DAYS), contents, min_size=1, max_size=2), min_size=1, max_size=6)


@settings(max_examples=examples(9))
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
        kept = sorted(answer(lake, selection(lake.store.data_files(ARRIVALS), ARRIVALS)))
        assert {r[:2]: r[2:6] for r in kept} == arrivals_of(rows)
        assert kept == sorted(answer(lake, ledger_rows(query_for(lake, rows), None, RAW, PARTS))), "fingerprints too"
