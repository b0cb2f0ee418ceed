"""A transform that changes the session's settings is refused by name, and what is computed after it
is right. Not here: how the settings are read on each kind of engine (`engines.test_session`)."""

import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.kernel.core.errors import BackfillError, ContractBroken
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.derived import build_candidate
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.pipeline.chosen import TablesOf
from backfill_assets_tests.lakes import ECHO, backfill, content, delivery, make_lake, request, toy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do

FIRST, ZONE = date(2024, 3, 1), "spark.sql.session.timeZone"
Does = Callable[["SparkSession"], object]


def changing(does: Does) -> TablesOf:
    """raw -> echo -> sums, where the transform of echo does this with the session."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        raw, echo, sums = toy()(settings)

        def transform(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
            does(frames["raw"].sparkSession)
            assert echo.transform is not None
            return echo.transform(frames, chunk)

        return raw, Table(ECHO, transform, sources=(sys.modules[__name__],)), sums

    return tables_of


def to_new_york(session: "SparkSession") -> None:
    session.conf.set(ZONE, "America/New_York")


def to_new_york_and_fail(session: "SparkSession") -> None:
    to_new_york(session)
    raise KeyError("nothing")


def loose_casts_and_a_setting_of_its_own(session: "SparkSession") -> None:
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.of_mine", "x")


def test_a_transform_that_changes_a_setting_is_refused_and_the_next_is_right(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake = make_lake(
        tmp_path, [delivery(1, f"{FIRST} 02:00:00", f"{FIRST} 02:00:00", "k", value=7)], FIRST
    )
    backfill(lake, FIRST, FIRST, ["raw"], toy())
    with pytest.raises(
        ContractBroken,
        match=rf"the transform of echo: settings of the Spark session .*{ZONE} from 'UTC' to "
        r"'America/New_York'.*"
        r"Nothing was written, and they were put back.*spark\.confs",
    ):
        backfill(lake, FIRST, FIRST, ["echo"], changing(to_new_york))
    assert spark.conf.get(ZONE) == "UTC"
    backfill(lake, FIRST, FIRST, ["echo", "sums"], toy())
    assert content(lake, "sums") == [(7, FIRST)]


@pytest.mark.parametrize("does", [to_new_york_and_fail, loose_casts_and_a_setting_of_its_own])
def test_what_a_transform_changes_is_put_back_where_it_fails(
    spark: "SparkSession", tmp_path: Path, does: Does
) -> None:
    lake = make_lake(tmp_path, [delivery(1, f"{FIRST} 02:00:00", f"{FIRST} 02:00:00", "k")], FIRST)
    backfill(lake, FIRST, FIRST, ["raw"], toy())
    before = dict(spark.conf.getAll)
    with pytest.raises(BackfillError, match="the transform of echo: "):
        build_candidate(request(lake, "echo", FIRST, FIRST, changing(does)))
    assert dict(spark.conf.getAll) == before
