"""The forms of rows: whole numbers that may be NULL stay whole, and files that cannot be read are told in one line.

Tested here: `operations.reader`, without an engine. Not tested here: which files are meant (`test_reader`).
"""

from pathlib import Path

import duckdb
import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.operations.reader import PinnedRows, Readable
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")

COLUMNS = (
    Column("day", "DATE", "d"), Column("key", "STRING", "k"), Column("n", "BIGINT", "n", nullable=True),
    Column("small", "INT", "s", nullable=True),
)  # fmt: skip
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())
GREAT = (1 << 53) + 1  # no float holds it


class Chosen(Readable):
    def __init__(self, lake: Lake, pinned: PinnedRows) -> None:
        self.lake, self._chosen = lake, pinned

    def pinned(self) -> PinnedRows:
        return self._chosen


@pytest.fixture
def chosen(tmp_path: Path) -> Chosen:
    lake = bare_lake(tmp_path)
    rows = [
        {"day": day(n), "key": k, "n": v, "small": v and 1}
        for n, k, v in ((0, "b", GREAT), (0, "a", None), (1, "c", 1))
    ]
    publish_by_hand(lake, TABLE, rows)
    return Chosen(lake, PinnedRows(TABLE, 1, lake.store.data_files(TABLE), [day(0)]))


def test_whole_numbers_that_may_be_null_stay_whole_in_pandas(chosen: Chosen) -> None:
    frame = chosen.pandas()
    assert [str(frame[c].dtype) for c in ("n", "small")] == ["Int64", "Int32"]
    assert frame["n"].isna().tolist() == [True, False]
    assert frame["n"].tolist()[1] == GREAT


def test_a_relation_may_be_of_the_callers_own_connection(chosen: Chosen) -> None:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE mine AS SELECT 'a' AS key")
        assert chosen.duckdb(own).join(own.table("mine"), "key").fetchall() == [(day(0), "a", None, None)]


def test_files_that_are_gone_are_told_in_one_line(chosen: Chosen) -> None:
    for file in chosen.pinned().files:
        Path(file).unlink()
    with pytest.raises(BackfillError, match="the table t: its files cannot be read"):
        chosen.arrow()


def test_no_days_are_no_rows_in_the_contracts_types(chosen: Chosen) -> None:
    none = Chosen(chosen.lake, PinnedRows(TABLE, -1, [], []))
    assert none.arrow().schema == chosen.arrow().schema
