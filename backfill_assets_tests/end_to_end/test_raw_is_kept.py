"""Raw holds what landed: what others change of it is found, refused and made again; a correction is
a new event.

Tested here: UPDATE and DELETE of raw by delta-rs, and a corrected event, from landing to staging.
Not tested here: the ledgers beside raw (`test_foreign_ledgers`), the alarm
(`dagster.adapter.test_ticks`), raw that is not put back (`kernel.tables.test_restore`).
"""

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.upkeep.doctor_tables import examine_table
from backfill_assets_tests.lakes import (
    backfill,
    content,
    delivery,
    land,
    make_lake,
    request,
    snapshot,
)

FIRST, LAST = date(2024, 3, 1), date(2024, 3, 2)
TABLES = ["raw", "staging"]
ROWS = [
    delivery(n, f"{day} 10:00:00", None, f"k{n}", value=n) for n, day in enumerate((FIRST, LAST), 1)
]


@pytest.fixture(scope="module")
def made(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; each test hurts a copy."""
    lake = make_lake(tmp_path_factory.mktemp("made"), ROWS, FIRST)
    backfill(lake, FIRST, LAST, TABLES)
    return lake.root


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    return open_lake(shutil.copytree(made, tmp_path / "lake", copy_function=shutil.copy2))


def updated(raw: DeltaTable) -> None:
    raw.update({"value": "99"}, predicate="event_key = 'k1'")


def deleted(raw: DeltaTable) -> None:
    raw.delete("event_key = 'k1'")


@pytest.mark.parametrize("change", [updated, deleted])
def test_what_others_change_of_raw_is_found_reaches_no_table_and_is_made_again(
    lake: Lake, change: Callable[[DeltaTable], None]
) -> None:
    before = [content(lake, table) for table in TABLES], snapshot(lake)
    change(DeltaTable(str(lake.table_place("raw").local())))
    assert content(lake, "raw") != before[0][0]
    states = request(lake, "raw", FIRST, LAST).known.states
    assert [states.of("raw", day) for day in (FIRST, LAST)] == [State.STALE, State.FRESH]
    (finding,) = [f for f in examine_table(lake, states.contracts["raw"], "raw") if f.advice]
    assert f"--from {FIRST} --to {FIRST} --tables raw" in finding.advice
    backfill(lake, FIRST, LAST, ["staging"], force=True)
    assert content(lake, "staging") == before[0][1], "what others wrote is not read as ours"
    backfill(lake, FIRST, LAST, TABLES)
    assert ([content(lake, table) for table in TABLES], snapshot(lake)) == before


def test_a_correction_is_a_new_event_that_folds_in_and_leaves_the_old_one(lake: Lake) -> None:
    before = content(lake, "raw")
    land(
        lake,
        "correction.jsonl",
        [delivery(9, f"{LAST} 11:00:00", f"{FIRST} 10:00:00", "k1", value=7)],
    )
    backfill(lake, FIRST, LAST, TABLES)
    assert set(before) < set(content(lake, "raw"))
    rows = DeltaTable(str(lake.table_place("staging").local())).to_pyarrow_table().to_pylist()
    told = {(r["value"], r["known_until"] is None) for r in rows if r["event_key"] == "k1"}
    assert told == {(1, False), (7, True)}
