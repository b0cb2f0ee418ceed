"""An engine without Java: what the doctor says of it where nothing differs from Spark.

Tested here: `upkeep.doctor_engine` on Sail. Not tested here: which expressions differ
(`engines/test_sail_plans.py`), and the doctor's other checks (`test_doctor.py`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.cli.findings import Level
from backfill_assets.pipeline.tables import tables
from backfill_assets.upkeep.doctor_engine import examine_engine
from backfill_assets_tests.files import bare_lake


@pytest.mark.usefixtures("processes")
def test_an_engine_that_computes_as_spark_does_is_told_with_its_version(tmp_path: Path) -> None:
    pytest.importorskip("pysail")
    lake = bare_lake(tmp_path)
    spark = lake.settings.spark.model_copy(update={"engine": "sail"})
    lake = replace(lake, settings=lake.settings.model_copy(update={"spark": spark}))
    found = list(examine_engine(lake, tables(lake.settings)))
    assert [finding.level for finding in found] == [Level.OK, Level.OK]
    assert "in a private network" in found[0].what
    assert "check-engine" in found[1].what
