"""A user's transform is refused by its plan, with the function named.
Not here: the functions (`engines.test_frames`), mistakes in transforms (`pipeline.test_own_files`),
and rows computed again (`test_computing`, `test_computing_ties`)."""

import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from backfill_assets import LakeSettings
from backfill_assets.engines.steadiness import refuse_unsteady
from backfill_assets.kernel.core.contracts import Column, Contract, Input
from backfill_assets.kernel.core.days import day_range
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.engines.test_frames import SCHEMA
from backfill_assets_tests.files import SMALLEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark(
    "on Sail expressions from a tested list are let in, and no others"
)

DAY = Column("event_date", "DATE", "d")
STAGING = Contract(
    "staging", "s", (Column("event_key", "STRING", "k"), DAY), "event_date", ("event_key",), ()
)
OWN = Contract("own", "o", (DAY,), "event_date", ("event_date",), (Input("staging"),))


@pytest.fixture(scope="module")
def staging(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], SCHEMA)


def refuse(staging: "DataFrame", frame: "DataFrame") -> None:
    table = Table(OWN, lambda frames, chunk: frame)
    refuse_unsteady(frame.sparkSession, table, frame, {"staging": staging}, {"staging": STAGING})


def test_what_may_give_other_rows_from_the_same_inputs_is_refused_and_named(
    staging: "DataFrame",
) -> None:
    told = (
        r"the transform of own: the same inputs may give other rows: `current_date\(\)` reads the "
        r"clock\. The "
        r"transform was not run, and nothing was written\. Take days and times from the chunk or "
        r"from columns"
    )
    with pytest.raises(ContractBroken, match=told):
        refuse(staging, staging.selectExpr("current_date() AS d"))


def test_the_tables_of_this_package_are_steady(staging: "DataFrame") -> None:
    """They are not looked at in every run: here they are, as if a user had brought them."""
    ours = tables(LakeSettings.model_validate(tomllib.loads(SMALLEST)))
    contracts = {t.name: t.contract for t in ours}
    session, chunk = (
        staging.sparkSession,
        Chunk(day_range("2024-03-01", "2024-03-03"), datetime(2024, 4, 1, tzinfo=UTC)),
    )
    for table in ours[1:]:
        frames = {
            i.table: session.createDataFrame([], _schema(contracts[i.table]))
            for i in table.contract.inputs
        }
        assert table.transform is not None
        assert not table.brings_code
        theirs = replace(table, sources=(sys.modules[__name__],))
        assert theirs.brings_code
        refuse_unsteady(session, theirs, table.transform(frames, chunk), frames, contracts)


def _schema(contract: Contract) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in contract.columns)
