"""A day that is made again from the same inputs, code and settings has the same rows, or is told as broken.

Tested here: the check, the receipt's tag and `operations.status.unlike_days`, with a transform that reads a file.
Not tested here: the comparison by itself (`core.test_engines`), and days without an engine (`test_rebuild`).
"""

import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.lake.gates import PROFILE
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view
from backfill_assets.operations.status import unlike_days
from backfill_assets.pipeline.chosen import TablesOf
from backfill_assets_tests.lakes import ECHO, backfill, delivery, make_lake, prepared, request
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do

FIRST = date(2024, 3, 1)
ALL = (contract("raw"), ECHO)


def by_a_file(kept: Path) -> TablesOf:
    """raw -> echo, whose values are those that stand in a file: no digest knows it."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        def transform(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
            value = int(kept.read_text())
            return frames["raw"].selectExpr("event_key", f"{value}L AS value", "to_date(event_ts) AS event_date")

        return Table(contract("raw")), Table(ECHO, transform, sources=(sys.modules[__name__],))

    return tables_of


def test_a_forced_rerun_with_other_rows_from_the_same_inputs_is_told_as_broken_until_it_is_made_alike(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake = make_lake(tmp_path, [delivery(1, f"{FIRST} 02:00:00", f"{FIRST} 02:00:00", "k")], FIRST)
    (kept := tmp_path / "value").write_text("1")
    backfill(lake, FIRST, FIRST, tables_of=by_a_file(kept))
    kept.write_text("2")
    with prepared(request(lake, "echo", FIRST, FIRST, by_a_file(kept), force=True)) as again:
        (warned,) = [f for f in again.findings if f.check == PROFILE]
        assert not warned.passed
        assert "the transform depends on more than its inputs" in warned.message
        assert again.publish().unlike == {FIRST}
    (told,) = dict(unlike_days(read_view(lake, ALL))).values()
    assert told.startswith(f"echo {FIRST}: made again from the same inputs, code and settings, the rows are others")
    assert not backfill(lake, FIRST, FIRST, ["echo"], by_a_file(kept))["echo"].write_id, "a rerun that does nothing"
    assert dict(unlike_days(read_view(lake, ALL)))
    assert not backfill(lake, FIRST, FIRST, ["echo"], by_a_file(kept), force=True)["echo"].unlike
    assert not dict(unlike_days(read_view(lake, ALL)))
