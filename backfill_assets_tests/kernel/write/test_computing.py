"""A transform whose rows depend on other days of a run, chance or order is found at the first write
by its code. Not here: the catch-up that stops for it (`cli.test_catch_up`), and proofs of written
days (`compare.test_prove`)."""

import random
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import OTHER_ROWS_AGAIN, OTHER_ROWS_ALONE, ContractBroken
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.gates import PROFILE
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.pipeline.chosen import TablesOf
from backfill_assets.reading.fitness import irreproducible_days
from backfill_assets_tests.lakes import (
    ECHO,
    SUMS,
    backfill,
    content,
    delivery,
    land,
    make_lake,
    prepared,
    request,
    toy,
)
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.users_do
Transform = Callable[[Mapping[str, "DataFrame"], Chunk], "DataFrame"]
FIRST, LAST = "2024-03-01", "2024-03-04"
ROWS = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}", value=n) for n in (1, 2, 3, 4)]


def greatest(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """For every day the greatest value of all days of the run."""
    rows = frames["echo"].where(
        frames["echo"].event_date.between(chunk.days.start, chunk.days.last)
    )
    return rows.select("event_date").distinct().crossJoin(rows.selectExpr("max(value) AS total"))


def reading_other_days(contract: Contract = SUMS, transform: Transform = greatest) -> TablesOf:
    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        return (*toy()(settings)[:2], Table(contract, transform, {}, (sys.modules[__name__],)))

    return tables_of


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> Lake:
    made = make_lake(tmp_path, ROWS, FIRST)
    backfill(made, FIRST, LAST, ["raw", "echo"], toy())
    return made


def test_rows_that_depend_on_the_other_days_of_a_run_are_refused_and_nothing_is_written(
    lake: Lake,
) -> None:
    asked = request(lake, "sums", FIRST, LAST, reading_other_days())
    told = (
        f"the transform of sums: 2024-03-03 {OTHER_ROWS_ALONE} 4 days: 0 added, 0 removed, 1 "
        "changed, in total"
    )
    with pytest.raises(ContractBroken, match=told), prepared(asked):
        pass
    assert not lake.store.exists("sums")
    assert not [*(lake.root / ".staging" / "sums").iterdir()]
    backfill(lake, FIRST, FIRST, ["sums"], reading_other_days())
    assert len(content(lake, "sums")) == 1, "a day alone depends on no other"


def sharing(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """For every day how many rows of the run have its value."""
    rows = frames["echo"].where(
        frames["echo"].event_date.between(chunk.days.start, chunk.days.last)
    )
    return rows.selectExpr("event_date", "count(*) OVER (PARTITION BY value) AS total")


def test_code_that_passed_while_days_had_no_key_in_common_is_looked_at_again(lake: Lake) -> None:
    tables_of = reading_other_days(SUMS, sharing)
    backfill(lake, FIRST, LAST, ["sums"], tables_of)
    land(
        lake,
        "later.jsonl",
        [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}", value=7) for n in (5, 6)],
    )
    backfill(lake, "2024-03-05", "2024-03-06", ["raw", "echo"], tables_of)
    told = (
        f"the transform of sums: 2024-03-06 {OTHER_ROWS_ALONE} 2 days: 0 added, 0 removed, 1 "
        "changed, in total"
    )
    with pytest.raises(ContractBroken, match=told):
        backfill(lake, "2024-03-05", "2024-03-06", ["sums"], tables_of)
    assert len(content(lake, "sums")) == 4


def by_chance(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """For every day a number of the process's own."""
    return frames["echo"].selectExpr(
        "event_date", f"CAST({random.randrange(10**15)} AS BIGINT) AS total"
    )


def by_clock(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    """For every day the time at which its rows were computed."""
    return frames["echo"].selectExpr("event_date", f"{time.time_ns()}L AS total")


@pytest.mark.parametrize("transform", [by_chance, by_clock])
def test_chance_and_the_clock_in_python_are_refused_at_the_first_write_also_of_a_day_alone(
    lake: Lake, transform: Transform
) -> None:
    tables_of = reading_other_days(SUMS, transform)
    for last, told in ((FIRST, OTHER_ROWS_AGAIN), (LAST, OTHER_ROWS_ALONE)):
        with pytest.raises(
            ContractBroken, match=rf"2024-03-0\d {told}.*0 added, 0 removed, 1 changed, in total"
        ):
            backfill(lake, FIRST, last, ["sums"], tables_of)
    assert not lake.store.exists("sums")


def test_a_day_alone_is_computed_once_where_its_code_made_a_day_before(lake: Lake) -> None:
    computed = []

    def counted(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
        computed.append(chunk.days)
        return frames["echo"].selectExpr("event_date", "CAST(value AS BIGINT) AS total")

    tables_of = reading_other_days(SUMS, counted)
    for day in (FIRST, LAST):
        backfill(lake, day, day, ["sums"], tables_of)
    assert [str(days.start) for days in computed] == [FIRST, FIRST, LAST]


MADE_ON = date(2024, 3, 1)
ALL = (contract("raw"), ECHO)


def by_a_file(kept: Path) -> TablesOf:
    """raw -> echo, whose values are those that stand in a file: no digest knows it."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        def transform(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
            value = int(kept.read_text())
            return frames["raw"].selectExpr(
                "event_key", f"{value}L AS value", "to_date(event_ts) AS event_date"
            )

        return Table(contract("raw")), Table(ECHO, transform, sources=(sys.modules[__name__],))

    return tables_of


def test_a_forced_rerun_with_other_rows_from_equal_inputs_is_broken_until_made_alike(
    spark: object, tmp_path: Path
) -> None:
    lake = make_lake(
        tmp_path, [delivery(1, f"{MADE_ON} 02:00:00", f"{MADE_ON} 02:00:00", "k")], MADE_ON
    )
    (kept := tmp_path / "value").write_text("1")
    backfill(lake, MADE_ON, MADE_ON, tables_of=by_a_file(kept))
    kept.write_text("2")
    with prepared(request(lake, "echo", MADE_ON, MADE_ON, by_a_file(kept), force=True)) as again:
        (warned,) = [f for f in again.findings if f.check == PROFILE]
        assert not warned.passed
        assert "the transform depends on more than its inputs" in warned.message
        assert again.publish().irreproducible == {MADE_ON}
    (told,) = dict(irreproducible_days(read_view(lake, ALL))).values()
    assert told.startswith(
        f"echo {MADE_ON}: made again from the same inputs, code and settings, the rows are others"
    )
    assert not backfill(lake, MADE_ON, MADE_ON, ["echo"], by_a_file(kept))["echo"].write_id, (
        "a rerun that does nothing"
    )
    assert dict(irreproducible_days(read_view(lake, ALL)))
    assert not backfill(lake, MADE_ON, MADE_ON, ["echo"], by_a_file(kept), force=True)[
        "echo"
    ].irreproducible
    assert not dict(irreproducible_days(read_view(lake, ALL)))
