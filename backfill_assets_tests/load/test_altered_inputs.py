"""A data file that something altered in place is refused as an input by name, and making its day again mends it.

Tested here: the sizes that builds hold against the log, on every table of a lake. Not tested here: other readers
(`operations.test_snapshots`, `operations.test_status`).
"""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import Altered
from backfill_assets.lake.data_files import altered_text
from backfill_assets_tests.lakes import ECHO, backfill, content, delivery, make_lake, toy
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

FIRST = date(2024, 3, 1)
TABLES = [("raw", contract("raw"), "echo"), ("echo", ECHO, "sums")]


@pytest.mark.parametrize(("table", "contract", "below"), TABLES)
def test_an_altered_input_is_refused_by_name_and_mended_by_making_its_day_again(
    spark: "SparkSession", tmp_path: Path, table: str, contract: Contract, below: str
) -> None:
    lake = make_lake(tmp_path, [delivery(1, f"{FIRST} 02:00:00", f"{FIRST} 02:00:00", "k", value=7)], FIRST)
    backfill(lake, FIRST, FIRST, tables_of=toy())
    before = content(lake, "sums")
    [file] = lake.store.data_files(contract)
    Path(file).write_bytes(Path(file).read_bytes() + b"x")
    assert altered_text(lake, contract)
    with pytest.raises(Altered, match=rf"the table {table}: the data file .* was altered: .*It was not read"):
        backfill(lake, FIRST, FIRST, [below], toy(), force=True)
    assert content(lake, "sums") == before
    backfill(lake, FIRST, FIRST, [table], toy(), force=True)
    assert altered_text(lake, contract) == ""
    backfill(lake, FIRST, FIRST, [below], toy(), force=True)
    assert content(lake, "sums") == before
