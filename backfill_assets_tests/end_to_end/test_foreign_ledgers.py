"""Another program changes a ledger: nothing that was good is emptied, and what the doctor advises repairs it.

Lives here: real foreign commits (delta-rs) on the ledgers of a loaded lake, and the way back. Does not live here: the
rules as values (`core.test_view`) and the files that landed (`lake.test_ledger`).
"""

import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import InputMissing
from backfill_assets.core.needs import needs
from backfill_assets.core.states import State, States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, QUARANTINE
from backfill_assets.operations.doctor_tables import examine_table
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.lakes import SUMS, backfill, content, delivery, land, make_lake, request, snapshot, toy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, MIDDLE, LAST = date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)
DELIVERIES = [
    delivery(1, f"{FIRST} 10:00:00", None, "one"),
    delivery(2, f"{MIDDLE} 10:00:00", None, "two"),
    delivery(3, f"{MIDDLE} 11:00:00", f"{FIRST} 09:00:00", "late"),
    delivery(4, f"{LAST} 10:00:00", None, "three"),
]
COMMAND = re.compile(r"`backfill-assets backfill --from (\S+) --to (\S+) --tables raw`")


@pytest.fixture
def lake(spark: "SparkSession", tmp_path: Path) -> Lake:
    made = make_lake(tmp_path, DELIVERIES, FIRST)
    land(made, "bad.jsonl", [delivery(9, f"{MIDDLE} 12:00:00", None, "")])
    backfill(made, FIRST, LAST, None, toy())
    return made


def states_of(lake: Lake) -> States:
    return request(lake, "raw", FIRST, LAST, toy()).states()


def advised(lake: Lake, contract: Contract) -> tuple[str, str]:
    """The first and last day of the command that the doctor gives for a ledger."""
    (finding,) = examine_table(lake.table_path(contract.name), contract)
    found = COMMAND.search(finding.advice)
    assert found is not None, finding
    return found[1], found[2]


def everything(lake: Lake) -> dict[str, object]:
    tables = ("raw", "quarantine", "arrivals", "echo", "sums")
    return {"said": snapshot(lake, toy()), **{t: content(lake, t) for t in tables}}


def test_a_day_that_another_program_took_from_arrivals_empties_nothing_and_is_repaired_as_the_doctor_says(
    lake: Lake,
) -> None:
    before = everything(lake)
    DeltaTable(str(lake.table_path("arrivals"))).delete(f"arrival_date = '{MIDDLE}'")
    states = states_of(lake)
    assert states.of("echo", MIDDLE) is State.STALE
    assert {d for n, days in needs(states, {}).ready.items() if n != "raw" for d in days} == set()
    assert needs(states, {}).ready["raw"] == {FIRST, MIDDLE}, "the arrival days of that month"
    for force in (False, True):
        with pytest.raises(InputMissing, match=r"another program changed the ledger arrivals") as refused:
            backfill(lake, MIDDLE, MIDDLE, ["echo"], toy(), force=force)
        assert COMMAND.search(str(refused.value)) is not None
    backfill(lake, *advised(lake, ARRIVALS), ["raw"], toy())
    assert everything(lake) == before
    assert not any(needs(states_of(lake), {}).needed.values())
    assert "log whole" in examine_table(lake.table_path("arrivals"), ARRIVALS)[0].what


def test_any_load_repairs_the_ledger_even_one_that_finds_all_its_days_settled(lake: Lake) -> None:
    before = everything(lake)
    made_up = {"deliveries": 1, "keys": 1, "moved_keys": 0, "greatest_lateness_s": 0, "fingerprint": "made up"}
    row = {"arrival_date": FIRST, "event_date": LAST, "arrival_month": "2024-02", **made_up}
    write_rows(lake.table_path("arrivals"), ARRIVALS, [row])
    backfill(lake, LAST, LAST, None, toy())
    assert {t: rows for t, rows in everything(lake).items() if t != "said"} == {
        t: rows for t, rows in before.items() if t != "said"
    }
    assert states_of(lake).of("echo", LAST) is State.FRESH


def test_rows_that_another_program_took_from_quarantine_come_back_with_the_load_of_their_day(lake: Lake) -> None:
    before = everything(lake)
    DeltaTable(str(lake.table_path("quarantine"))).delete()
    assert content(lake, "quarantine") == []
    assert needs(states_of(lake), {}).ready == {"raw": {MIDDLE}, "echo": set(), SUMS.name: set()}
    backfill(lake, *advised(lake, QUARANTINE), ["raw"], toy())
    assert everything(lake) == before
    assert not any(needs(states_of(lake), {}).needed.values())
