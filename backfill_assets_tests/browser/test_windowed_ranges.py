"""How Dagster ends a backfill of a range of an asset whose days read several days of another.

Here: by `dagster dev` over somebody's project, what the guide *In your project* says of ranges of
both assets, and of one after the other. Not here: what a step writes and says of such days
(`dagster.test_steps`, `dagster.test_messages`).
"""

import os
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pytest

from backfill_assets.reading.opening import open_lake
from backfill_assets_tests.browser.site import (
    PATIENCE_SECONDS,
    backfill_status,
    dagster_dev_of,
    launch_backfill,
)
from backfill_assets_tests.processes import until

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.in_turn("ranges with windows"),
    pytest.mark.usefixtures("processes"),
]
PROJECT = """
import datetime
import dagster as dg
import pandas as pd
from backfill_assets.dagster import Input, LakeIOManager, daily_table

def days_of(context):
    return [datetime.date.fromisoformat(key) for key in context.partition_keys]

@daily_table(start="2024-01-01")
def orders(context) -> pd.DataFrame:
    return pd.DataFrame({"day": days_of(context), "amount": 1})

@daily_table(inputs=[Input("orders", before=6)], start="2024-01-01")
def weekly(context, orders: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"day": days_of(context), "total": len(orders)})

defs = dg.Definitions(assets=[orders, weekly], resources={"io_manager": LakeIOManager(lake="lake")})
"""
FIRST = date(2024, 1, 1)
KEEP_GOOD = {"key": "on_bad_days", "value": "keep_good"}


def two_days(first: int) -> list[str]:
    """The names of two days, of which the first is that many days after the assets' first."""
    return [str(FIRST + timedelta(first + n)) for n in range(2)]


def ended(url: str, log: Path, assets: list[str], days: list[str], *tags: dict[str, str]) -> str:
    """How a backfill of these days of these assets ended."""
    status = partial(backfill_status, url, launch_backfill(url, assets, days, tags))
    until(lambda: status().startswith(("COMPLETED", "FAILED")), log, PATIENCE_SECONDS)
    return status()


@pytest.mark.slow
def test_days_that_dagster_adds_end_a_range_as_failed_and_one_asset_after_the_other_does_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "project.py").write_text(PROJECT, encoding="utf-8")
    environ = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    log, file = tmp_path / "dev.log", str(tmp_path / "project.py")

    def made(table: str) -> set[str]:
        rows = open_lake(tmp_path / "lake", newest=True).table(table).arrow()
        return set(map(str, rows["day"].to_pylist()))

    with dagster_dev_of(tmp_path, log, environ, "-f", file) as url:
        both = ["orders", "weekly"]
        assert ended(url, log, both, two_days(0), KEEP_GOOD) == "COMPLETED_FAILED"
        assert made("orders") == made("weekly") == {*two_days(0)}, "what was chosen is made"
        for asset in both:
            assert ended(url, log, [asset], two_days(2)) == "COMPLETED_SUCCESS"
        assert made("orders") == made("weekly") == {*two_days(0), *two_days(2)}
