"""A frame of a session that is not ours is written where we can read it, whole, or is refused.

Tested here: `engine.foreign`. Not tested here: sessions of Spark in another program (`lake/test_their_sessions.py`).
"""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.foreign import is_connect, refuse_elsewhere, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_frame_is_written_by_its_own_session(spark: "SparkSession", tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    paths = write_parquet(spark.range(3), folder)
    assert is_connect(spark)
    assert sum(pq.read_metadata(path).num_rows for path in paths) == 3
    assert {path.parent for path in paths} == {folder}


def test_an_empty_frame_has_no_rows(spark: "SparkSession", tmp_path: Path) -> None:
    paths = write_parquet(spark.range(3).where("id > 5"), tmp_path / "folder")
    assert sum(pq.read_metadata(path).num_rows for path in paths) == 0


class Elsewhere:
    """A server that has another file in the same place."""

    def __init__(self, session: "SparkSession") -> None:
        self.session = session

    @property
    def read(self) -> Any:
        other = self.session.sql("SELECT 'another' AS word")
        reader = SimpleNamespace(parquet=lambda path: other)
        return SimpleNamespace(schema=lambda schema: reader)


def test_a_server_with_folders_of_its_own_is_refused_with_what_to_do(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(BackfillError, match=r"does not see it \(it finds another file there\).*frame\.toArrow\(\)"):
        refuse_elsewhere(cast("SparkSession", Elsewhere(spark)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_frame_whose_rows_went_elsewhere_is_refused_with_how_many_are_missing(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """As of executors on other machines: the driver is content, and nothing lies in its folder."""

    class Classic:
        sparkContext = SimpleNamespace(master="spark://another:7077")

    written: list[str] = []
    writer = SimpleNamespace(parquet=written.append)
    observed = SimpleNamespace(write=SimpleNamespace(mode=lambda mode: writer))
    frame = SimpleNamespace(sparkSession=Classic(), observe=lambda rows, count: observed)
    with pytest.raises(BackfillError, match="of 3 rows that its session wrote, 0 are here"):
        write_parquet(cast("DataFrame", frame), tmp_path / "folder", lambda: SimpleNamespace(get={"rows": 3}))
    assert written == [f"file://{tmp_path / 'folder'}"]
