"""The ledger's rows and the days a load changes, by SQL of the embedded engine, against the same counted in Python.

Tested here: `load.arrivals` over unruly deliveries, without Spark. Not tested here: the order of loads
(`test_arrivals`).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from backfill_assets.core.payload import LANDED
from backfill_assets.core.readings import fingerprint_in
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.home import Lake
from backfill_assets.load.arrivals import changed_days, ledger_rows, of_keys, placed_keys
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.oracle import Row, arrivals_of, unruly
from backfill_assets_tests.pipeline.built_in import contract

RAW, START = contract("raw"), date(2024, 3, 1)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return bare_lake(tmp_path_factory.mktemp("lake"))


def query_for(lake: Lake, rows: Sequence[Row]) -> str:
    made = [
        {k: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for k, v in row.items()}
        | {"source_file": "f", "arrival_date": row["arrival_ts"].date()}
        for row in rows
    ]
    return selection(stage_by_hand(lake, RAW, made).paths, RAW)


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
    mine = answer(lake, ledger_rows(query_for(lake, on(rows, some)), query_for(lake, rows), RAW))
    assert sorted(mine) == sorted(r for r in everything if r[0] in some), "fingerprints too"
    near = of_keys(query_for(lake, rows), query_for(lake, on(rows, some)))
    assert sorted(answer(lake, ledger_rows(query_for(lake, on(rows, some)), near, RAW))) == sorted(mine)


def test_deliveries_without_some_columns_have_the_fingerprint_of_deliveries_that_never_had_them(lake: Lake) -> None:
    rows, kept = unruly(1, START), tuple(c for c in RAW.column_names if c not in ("value", "flag"))
    narrow = replace(RAW, columns=tuple(RAW.column(c) for c in kept))
    parts = {"some": tuple(c for c in kept if c not in LANDED), "flagged": ("flag", "seq")}
    told = answer(lake, ledger_rows(query_for(lake, rows), None, RAW, parts))
    alone = answer(lake, ledger_rows(query_for(lake, rows), None, narrow))
    plain = answer(lake, ledger_rows(query_for(lake, rows), None, RAW))
    assert {r[:2]: fingerprint_in(r[6], "some") for r in told} == {r[:2]: r[6] for r in alone}
    assert {r[:2]: fingerprint_in(r[6]) for r in told} == {r[:2]: r[6] for r in plain}


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
