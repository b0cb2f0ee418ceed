"""The reader: days and versions as asked, the same rows in every form, and a refusal where days are
not fit. Not here: Spark's form (`end_to_end`)."""

import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets import open_lake
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.fitness import UnfitDays, UnfitDaysWarning
from backfill_assets.reading.reader import LakeReader, PinnedRows, Readable, TableReader
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.readable_lake import FIRST, TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def table(reader: LakeReader) -> TableReader:
    return reader.table(TABLE).days("2024-03-01", "2024-03-02", unfit="take")


def test_days_are_inclusive_at_both_ends_and_rows_come_ordered_by_day_and_key(
    reader: LakeReader,
) -> None:
    rows = table(reader).arrow().to_pylist()
    assert [(str(r["event_date"]), r["event_key"], r["value"]) for r in rows] == [
        ("2024-03-01", "a", 1),
        ("2024-03-01", "b", 2),
        ("2024-03-02", "c", 30),
        ("2024-03-02", "d", 1 << 60),
    ]
    assert reader.table(TABLE).days(FIRST, unfit="take").arrow().num_rows == 2
    assert reader.table(TABLE).days("2024-03-09", unfit="take").arrow().num_rows == 0


def test_arrow_pandas_and_duckdb_give_the_same_rows(reader: LakeReader) -> None:
    arrow, pandas, relation = table(reader).arrow(), table(reader).pandas(), table(reader).duckdb()
    assert arrow.column_names == list(pandas.columns) == list(relation.columns)
    keys = ["event_date", "event_key", "entity", "value"]
    assert [tuple(r[k] for k in keys) for r in arrow.to_pylist()] == list(
        relation.order("event_date, event_key").project(", ".join(keys)).fetchall()
    )
    assert pandas["value"].tolist() == arrow.column("value").to_pylist()
    assert str(arrow.schema.field("event_ts").type) == "timestamp[us, tz=UTC]"


def test_a_table_is_read_as_it_was_at_a_version_a_time_or_a_write(reader: LakeReader) -> None:
    commits = list(reader.lake.store.commits(TABLE))
    first = commits[1]
    assert first.receipt is not None
    for then in (
        {"version": 1},
        {"time": first.at},
        {"time": first.at.isoformat()},
        {"write_id": first.receipt.write_id},
    ):
        assert table(reader).at(**then).arrow().column("value").to_pylist() == [1, 2, 3]
    assert table(reader).at().arrow().num_rows == 4
    for never, said in (
        ({"version": 9}, "no version 9"),
        ({"time": "2001-01-01"}, "no commit by"),
        ({"write_id": "x"}, "no write 'x'"),
    ):
        with pytest.raises(BackfillError, match=said):
            table(reader).at(**never)
    with pytest.raises(ValueError, match="name one of"):
        table(reader).at(version=1, write_id="x")


def test_days_that_are_not_fit_are_refused_unless_told(reader: LakeReader) -> None:
    asked = reader.table(TABLE)
    with pytest.raises(
        UnfitDays, match="1 of the days asked for are not fit to be used: missing 2024-03-03"
    ):
        asked.days("2024-03-01", "2024-03-03").arrow()
    with pytest.warns(UnfitDaysWarning, match="They were read all the same"):
        assert asked.days("2024-03-01", "2024-03-03", unfit="warn").arrow().num_rows == 4
    with pytest.raises(UnfitDays):
        asked.days("2024-03-03").duckdb()
    assert asked.arrow().num_rows == 4
    with pytest.raises(ValueError, match="unfit is one of"):
        asked.days("2024-03-01", unfit="maybe").arrow()  # type: ignore[arg-type]


@pytest.mark.usefixtures("processes")
def test_the_public_door_reads_without_spark_dagster_or_another_umask(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    code = (
        "import os, sys; os.umask(0o022); from backfill_assets import open_lake\n"
        f"t = open_lake({str(tmp_path)!r}).table('staging').days('2024-03-01', "
        "unfit='take').arrow()\n"
        "print(t.num_rows, os.umask(0), *(m for m in ('pyspark', 'dagster') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "18"]
    assert open_lake(tmp_path).tables[0] == "raw"
    with pytest.raises(BackfillError, match="there is no such table"):
        open_lake(tmp_path).table("nothing")


OF_WHOLE = (
    Column("day", "DATE", "d"),
    Column("key", "STRING", "k"),
    Column("n", "BIGINT", "n", nullable=True),
    Column("small", "INT", "s", nullable=True),
)
WHOLE = Contract("t", "t", OF_WHOLE, "day", ("key",), ())
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
    publish_by_hand(lake, WHOLE, rows)
    return Chosen(lake, PinnedRows(WHOLE, 1, lake.store.data_files(WHOLE), [day(0)]))


def test_whole_numbers_that_may_be_null_stay_whole_in_pandas(chosen: Chosen) -> None:
    frame = chosen.pandas()
    assert [str(frame[c].dtype) for c in ("n", "small")] == ["Int64", "Int32"]
    assert frame["n"].isna().tolist() == [True, False]
    assert frame["n"].tolist()[1] == GREAT
