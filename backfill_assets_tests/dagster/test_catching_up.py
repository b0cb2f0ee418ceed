"""A catch-up of some tables leaves the others as they are.

Not tested here: halves, attempts and what is left (`cli.test_catch_up`), and runs of Dagster
(`adapter.test_catch_up_job`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.dagster.catching_up import MadeTable, RunMaker, catch_up_lake
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.dagster.adapter.ticking import day, stale
from backfill_assets_tests.synthetic import Made, build, synthetic_lake

MARKS = {"note": "", "reason": "catch-up", "tags": {}}


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return synthetic_lake(tmp_path / "lake", 8)


@dataclass
class Ended:
    """A run that succeeded."""

    success: bool = True
    only_kept_back: bool = False
    tables: Sequence[MadeTable] = ()


def made_by(lake: Made, tables: Sequence[str] | None) -> list[tuple[str, date]]:
    """The days of tables that the runs of a catch-up of `tables` are asked for."""
    asked = list[tuple[str, date]]()

    def make(_: KnownStates, work: Work) -> Ended:
        for table in work.tables:
            asked.extend((table, d) for d in work.days)
            build(*lake, table, dict.fromkeys(work.days, 4))
        return Ended()

    maker = RunMaker(lambda: lake, make, lambda _: None, tables)
    assert catch_up_lake(maker, lake[0], MARKS).success
    return asked


def test_only_chosen_tables_are_made_also_where_others_follow(lake: Made) -> None:
    stale(lake, 3)
    assert made_by(lake, ["raw", "staging"]) == [("staging", day(3))]
    rest = made_by(lake, None)
    assert rest
    assert {table for table, _ in rest}.isdisjoint({"raw", "staging"})


def test_days_of_tables_that_were_not_chosen_are_no_days_left(lake: Made) -> None:
    stale(lake, 3)
    assert made_by(lake, ["raw"]) == []
