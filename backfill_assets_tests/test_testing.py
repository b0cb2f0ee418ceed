"""What users test their tables with: landing, running, asserting rows, a stopped clock, computing
days again. Not here: what runs do (`dagster`), and the proof of a rerun
(`compare.test_prove`)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets.testing import (
    Replayed,
    assert_rows,
    frozen_clock,
    land,
    materialize,
    new_lake,
    replay,
    rows_of,
    run_days,
    temporary_lake,
)
from backfill_assets_tests.lakes import SELECT, SHARED, delivery
from backfill_assets_tests.own import OWN_PIPELINE

if TYPE_CHECKING:
    import dagster as dg
    from pyspark.sql import SparkSession

DAYS = [f"2024-03-0{n}" for n in (1, 2, 3)]
SOURCE = {"files": "landing/**", "format": "jsonl", "select": SELECT}
ADA = delivery(1, f"{DAYS[0]}T10:00:00Z", None, "one", entity="ada")
BEN = delivery(2, f"{DAYS[0]}T11:00:00Z", None, "two", entity="ben")


@pytest.fixture
def own(tmp_path: Path, spark: "SparkSession", storages: None) -> Lake:
    """A lake with the table `totals`, one day of which is made."""
    lake = new_lake(
        tmp_path,
        DAYS[0],
        source=SOURCE,
        spark=dict(SHARED),
        pipeline={"tables": "pipeline.py:tables"},
    )
    (tmp_path / "pipeline.py").write_text(OWN_PIPELINE)
    land(lake, "one.jsonl", [ADA, BEN])
    return lake


@pytest.mark.users_do
def test_a_day_of_an_own_table_is_run_asserted_and_replayed_by_changed_code(own: Lake) -> None:
    assert run_days(own, DAYS[0]).success
    expected = [{"entity": "ben", "events": 1}, {"entity": "ada", "events": 1}]
    assert_rows(own, "totals", DAYS[0], expected)
    assert [row["entity"] for row in rows_of(own, "totals", DAYS[0])] == ["ada", "ben"]
    with pytest.raises(AssertionError) as failed:
        assert_rows(
            own, "totals", DAYS[0], [{"entity": "ada", "events": 2}, {"entity": "cid", "events": 1}]
        )
    assert str(failed.value).splitlines() == [
        f"totals of {DAYS[0]} has other rows:",
        "  entity='ada': events is 1, not 2",
        "  missing: {'entity': 'cid', 'events': 1}",
        "  unexpected: {'entity': 'ben', 'events': 1}",
    ]
    (same,) = replay(own, "totals", [DAYS[0]])
    assert (same.equal, str(same.day)) == (True, DAYS[0])
    doubled = ".count().selectExpr('entity', 'day', 'count * 2 AS count')"
    (own.root / "pipeline.py").write_text(OWN_PIPELINE.replace(".count()", doubled))
    (other,) = replay(own, "totals", [DAYS[0]])
    assert other == Replayed(same.day, changed=2, columns=("events",))
    assert not other.equal
    assert_rows(own, "totals", DAYS[0], expected)
    with pytest.raises(BackfillError, match=f"no receipt names {DAYS[1]}. Nothing was computed"):
        replay(own, "totals", DAYS[:2])


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ([{"id": "a", "amount": 1}, {"id": "b"}], "id='b': amount is 2, not None"),
        ([{"id": "a"}], "unexpected: {'id': 'b'}"),
        ([{"id": "a"}, {"id": "b"}, {"id": "b"}], "missing: {'id': 'b'}"),
        ([{"amount": 1}, {"amount": 3}], "missing: {'amount': 3}\n  unexpected: {'amount': 2}"),
        (
            [{"id": "a", "colour": 1}],
            "orders of 2024-03-01 has no column colour, but day, id, amount",
        ),
        ([], "unexpected: {"),
    ],
)
def test_days_of_assets_are_materialized_and_differing_rows_are_named(
    tmp_path: Path, storages: None, expected: list[dict[str, Any]], told: str
) -> None:
    orders, kept = orders_table(), tmp_path / "lake"
    assert materialize([orders], DAYS[0], DAYS[1], resources=lake_at(kept)).success
    assert_rows(kept, "orders", DAYS[1], [{"id": "b", "amount": 2}, {"amount": 1, "id": "a"}])
    assert_rows(kept, "orders", DAYS[0], [{"id": "b"}, {"id": "a"}])
    with pytest.raises(AssertionError) as failed:
        assert_rows(kept, "orders", DAYS[0], expected)
    assert told in str(failed.value)
    with pytest.raises(
        BackfillError, match=r"the asset orders returns its rows\. Nothing was computed"
    ):
        replay(Lake(kept, load_settings(kept)), "orders", [DAYS[0]])


def orders_table() -> "dg.AssetsDefinition":
    """Two rows a day."""
    import dagster as dg
    import pandas as pd

    from backfill_assets.dagster import daily_table

    @daily_table(start=DAYS[0], unique=["id"])
    def orders(context: dg.AssetExecutionContext) -> pd.DataFrame:
        days = [datetime.fromisoformat(k).date() for k in context.partition_keys]
        rows = [(day, name, amount) for day in days for name, amount in (("a", 1), ("b", 2))]
        return pd.DataFrame(rows, columns=["day", "id", "amount"])

    return orders


def lake_at(folder: Path) -> dict[str, Any]:
    from backfill_assets.dagster import LakeIOManager

    return {"io_manager": LakeIOManager(lake=str(folder))}


def test_a_temporary_lake_has_its_files_and_settings_and_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(OWN_PIPELINE)
    gates = {"tables": {"raw": {"min_rows": 1, "max_rows": 9}}}
    with temporary_lake(DAYS[0], [tmp_path / "pipeline.py"], source=SOURCE, gates=gates) as lake:
        assert (lake.root / "pipeline.py").is_file()
        assert lake.settings.gates.tables["raw"].max_rows == 9
        assert land(lake, "x/one.jsonl", [ADA]).read_text().count("\n") == 1
    assert not lake.root.exists()
    with pytest.raises(SettingsError), temporary_lake(DAYS[0], nonsense=1):
        pass


@pytest.mark.parametrize(
    "at", ["2024-03-05T08:00:00", "2024-03-05T09:00:00+01:00", datetime(2024, 3, 5, 8, tzinfo=UTC)]
)
def test_a_frozen_clock_stands_still_until_it_is_let_go(at: datetime | str) -> None:
    with frozen_clock(at):
        assert utc_now() == utc_now() == datetime(2024, 3, 5, 8, tzinfo=UTC)
    assert utc_now().year > 2024
