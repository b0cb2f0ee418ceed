"""Spark and Sail of each other: days that one made, computed again by the other.

Tested here: values at which engines part, on lakes of either. Not tested here: whole data sets (`test_golden`), and
what is asked without Spark (`operations.test_check_engine`).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.engine.confs import EMBEDDED, SAIL
from backfill_assets.engine.sail import why_not_private
from backfill_assets.lake.model import make_pipeline
from backfill_assets.operations.check_engine import check_engine, other_engine
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.lakes import SHARED, Delivery, backfill, delivery, make_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on_spark("Spark is one of the two that are asked")

NAME = "\u00c4\u65e5"


def row(
    seq: int, arrived: str, event: str, key: str, entity: str | None = "A", value: int = 1, op: str = "upsert"
) -> Delivery:
    return delivery(seq, f"{arrived}T10:00:00.123456Z", f"{event}T23:59:59.999999Z", key, op, entity, value)


ROWS = [
    row(1, "1969-12-31", "1969-12-31", "a"),
    row(2, "1970-01-01", "1969-12-30", "b", value=2**62),
    row(3, "1970-01-02", "1969-12-31", "a", NAME, 2**62),
    row(4, "1970-01-02", "1970-01-01", "c", None),
    row(5, "1970-01-02", "1970-01-01", "d", NAME, 2**62),
    row(6, "1970-01-03", "1969-12-30", "b", op="delete"),
]


@pytest.mark.skipif(bool(why_not_private()), reason="Sail cannot be kept to one user here")
@pytest.mark.parametrize(("engine", "other"), [(SAIL, EMBEDDED), (EMBEDDED, SAIL)])
def test_spark_and_sail_agree_on_what_the_other_made_before_1970_beyond_64_bits_and_without_an_entity(
    spark: "SparkSession", tmp_path: Path, engine: str, other: str
) -> None:
    lake = make_lake(tmp_path / "lake", ROWS, "1969-12-28", spark={**SHARED, "engine": engine})
    backfill(lake, "1969-12-28", "1970-01-03")
    report = check_engine(lake, make_pipeline(tables(lake.settings)), None, None, other_engine(lake))
    assert (report.engine, report.refused, report.differing) == (other, (), 0), report.to_dict()
    assert report.compared >= 20
