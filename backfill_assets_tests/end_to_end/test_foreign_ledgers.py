"""Another program changes a ledger: nothing that was good is emptied, and what the doctor advises
repairs it.

Lives here: real foreign commits (Spark SQL) on the ledgers of a loaded lake, and the way back. Does
not live here: the rules as values (`kernel.core.test_view`) and the files that landed
(`intake.test_ledger`).
"""

import re
import shutil
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.intake.ledger import ARRIVALS, QUARANTINE
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import InputMissing
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.upkeep.doctor_tables import examine_table
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.lakes import (
    SUMS,
    backfill,
    content,
    delivery,
    land,
    make_lake,
    request,
    snapshot,
    toy,
)

pytestmark = [pytest.mark.long, pytest.mark.on_spark("Spark is the other program that writes")]
FIRST, MIDDLE, LAST = date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)
DELIVERIES = [
    delivery(1, f"{FIRST} 10:00:00", None, "one"),
    delivery(2, f"{MIDDLE} 10:00:00", None, "two"),
    delivery(3, f"{MIDDLE} 11:00:00", f"{FIRST} 09:00:00", "late"),
    delivery(4, f"{LAST} 10:00:00", None, "three"),
]
COMMAND = re.compile(r"`backfill-assets backfill --from (\S+) --to (\S+) --tables raw`")


@pytest.fixture(scope="module")
def made(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Made once; each test hurts a copy."""
    lake = make_lake(tmp_path_factory.mktemp("made"), DELIVERIES, FIRST)
    land(lake, "bad.jsonl", [delivery(9, f"{MIDDLE} 12:00:00", None, "")])
    backfill(lake, FIRST, LAST, None, toy())
    return lake


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Lake:
    copied = shutil.copytree(made.root, tmp_path / "lake", copy_function=shutil.copy2)
    return open_lake(copied)


def another_program(spark: "SparkSession", lake: Lake, statement: str, ledger: str) -> None:
    """A statement of Spark's on a ledger, by someone who knows nothing of us."""
    spark.sql(statement.format(f"delta.`{lake.table_place(ledger).local()}`")).collect()


def states_of(lake: Lake) -> States:
    return request(lake, "raw", FIRST, LAST, toy()).known.states


def advised(lake: Lake, contract: Contract) -> tuple[str, str]:
    """The first and last day of the command that the doctor gives for a ledger."""
    (finding,) = examine_table(lake, contract, "raw")
    found = COMMAND.search(finding.advice)
    assert found is not None, finding
    return found[1], found[2]


def everything(lake: Lake) -> dict[str, object]:
    tables = ("raw", "quarantine", "arrivals", "echo", "sums")
    return {"said": snapshot(lake, toy()), **{t: content(lake, t) for t in tables}}


def test_a_day_taken_from_arrivals_by_others_empties_nothing_and_is_repaired_by_the_doctor(
    spark: "SparkSession", lake: Lake
) -> None:
    before = everything(lake)
    another_program(spark, lake, f"DELETE FROM {{}} WHERE arrival_date = '{MIDDLE}'", "arrivals")
    states = states_of(lake)
    assert states.of("echo", MIDDLE) is State.STALE
    assert {
        d for n, days in rebuild_needs(states, {}).ready.items() if n != "raw" for d in days
    } == set()
    assert rebuild_needs(states, {}).ready["raw"] == {FIRST, MIDDLE}, (
        "the arrival days of that month"
    )
    for force in (False, True):
        with pytest.raises(
            InputMissing, match=r"another program changed the ledger arrivals"
        ) as refused:
            backfill(lake, MIDDLE, MIDDLE, ["echo"], toy(), force=force)
        assert COMMAND.search(str(refused.value)) is not None
    backfill(lake, *advised(lake, ARRIVALS), ["raw"], toy())
    assert everything(lake) == before
    assert not any(rebuild_needs(states_of(lake), {}).needed.values())
    assert "log whole" in next(examine_table(lake, ARRIVALS, "raw")).what


def test_any_load_repairs_the_ledger_even_where_all_its_days_are_settled(
    spark: "SparkSession", lake: Lake
) -> None:
    before = everything(lake)
    row = f"DATE'{FIRST}', DATE'{LAST}', 1L, 1L, 0L, 0L, 'made up', '2024-02'"
    another_program(spark, lake, f"INSERT INTO {{}} SELECT {row}", "arrivals")
    backfill(lake, LAST, LAST, None, toy())
    assert {t: rows for t, rows in everything(lake).items() if t != "said"} == {
        t: rows for t, rows in before.items() if t != "said"
    }
    assert states_of(lake).of("echo", LAST) is State.FRESH


def test_rows_taken_from_quarantine_come_back_with_the_load_of_their_day(
    spark: "SparkSession", lake: Lake
) -> None:
    before = everything(lake)
    another_program(spark, lake, "DELETE FROM {}", "quarantine")
    assert content(lake, "quarantine") == []
    assert rebuild_needs(states_of(lake), {}).ready == {
        "raw": {MIDDLE},
        "echo": set(),
        SUMS.name: set(),
    }
    backfill(lake, *advised(lake, QUARANTINE), ["raw"], toy())
    assert everything(lake) == before
    assert not any(rebuild_needs(states_of(lake), {}).needed.values())
