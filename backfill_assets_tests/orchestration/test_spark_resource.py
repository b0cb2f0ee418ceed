"""The resource `pyspark`: a user's own op gets the lake's session, and nothing starts before it asks.

Tested here: `orchestration.lake_definitions` in the definitions, without an engine. Not tested here: that an op gets
the session when it asks (`end_to_end.test_own_tables`).
"""

from pathlib import Path

import dagster as dg
import pytest
from dagster_pyspark import PySparkResource

from backfill_assets.orchestration.assemble import assemble
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.files import bare_lake

pytestmark = pytest.mark.usefixtures("storages")


@dg.op
def does_not_ask(pyspark: PySparkResource) -> None:
    assert type(pyspark).__name__ == "LakePySparkResource"


@dg.op
def returns() -> int:
    return 1


@dg.job
def not_asking() -> None:
    does_not_ask()


@dg.job
def returning() -> None:
    returns()


@pytest.fixture
def defs(tmp_path: Path) -> dg.Definitions:
    lake = bare_lake(tmp_path / "lake")
    return dg.Definitions.merge(assemble(lake.root, tables), dg.Definitions(jobs=[not_asking, returning]))


def test_an_own_op_that_does_not_ask_for_a_session_starts_none(defs: dg.Definitions, tmp_path: Path) -> None:
    assert defs.resolve_job_def("not_asking").execute_in_process().success
    assert sorted(p.name for p in (tmp_path / "lake").iterdir()) == ["lake.toml"]


def test_an_own_op_that_returns_a_value_is_told_that_a_lake_does_not_keep_it(defs: dg.Definitions) -> None:
    result = defs.resolve_job_def("returning").execute_in_process(raise_on_error=False)
    [failure] = result.get_step_failure_events()
    assert "the op returns returned a int; only assets made by" in str(failure.step_failure_data.error)
