"""A frame of a session that is not ours is written where we can read it, whole, or is refused.
Not here: sessions of Spark in another program (`engines/test_session_theirs.py`)."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql.utils import is_remote

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.foreign import (
    NEEDED_CONFS,
    delta_frame,
    refuse_unfit,
    refuse_unseen_folder,
    session_maker,
    unwrapped_session,
    write_parquet,
)
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.session import is_project_session, open_session, own_server
from backfill_assets.engines.workers import is_connect
from backfill_assets.kernel.core.engines import PROJECT_SESSION
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets_tests.lakes import make_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_frame_of_a_server_is_written_beside_a_classic_session(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, folder = spark.range(3), tmp_path / "a folder"
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    assert (is_remote(), is_connect(spark)) == (False, True)
    paths = write_parquet(frame, folder)
    assert sum(pq.read_metadata(path).num_rows for path in paths) == 3
    assert {path.parent for path in paths} == {folder}


class Elsewhere:
    """A client of a server that has another file in the same place."""

    __module__ = "their.connect.session"

    def __init__(self, other: "DataFrame") -> None:
        self.read = Mock(**{"schema.return_value.parquet.return_value": other})


def test_a_server_with_folders_of_its_own_is_refused_with_what_to_do(
    spark: "SparkSession", tmp_path: Path
) -> None:
    other = spark.sql("SELECT 'another' AS word")
    with pytest.raises(
        BackfillError, match=r"does not see it \(it finds another file there\).*frame\.toArrow\(\)"
    ):
        refuse_unseen_folder(cast("SparkSession", Elsewhere(other)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_frame_whose_rows_went_elsewhere_is_refused_with_their_count(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """As of executors on other machines that are gone: the driver is content, and nothing lies in
    its folder."""

    class Classic:
        sparkContext = SimpleNamespace(master="spark://another:7077")

    written: list[str] = []
    writer = SimpleNamespace(parquet=written.append)
    observed = SimpleNamespace(write=SimpleNamespace(mode=lambda mode: writer))
    frame = SimpleNamespace(sparkSession=Classic(), observe=lambda rows, count: observed)
    counted = SimpleNamespace(get={"rows": 3})
    with pytest.raises(BackfillError, match="of 3 rows that its session wrote, 0 are here"):
        write_parquet(
            cast("DataFrame", frame), tmp_path / "folder", lambda: counted, lambda *_: None
        )
    assert written == [f"file://{tmp_path / 'folder'}"]


class Session:
    """As much of a session as is asked here."""

    sparkContext: Any = None

    def __init__(self, **changed: str) -> None:
        fit = {key: values[0] for key, (values, _) in NEEDED_CONFS.items()}
        self.conf = fit | {f"spark.sql.{key}": value for key, value in changed.items()}

    def createDataFrame(self) -> None: ...

    def sql(self, text: str) -> Any:
        return SimpleNamespace(first=lambda: (1,))


@pytest.mark.parametrize("master", ["local[2]", "spark://another:7077"])
def test_a_session_on_a_cluster_is_handed_addresses_of_a_lake_in_a_bucket_and_else_paths(
    master: str, tmp_path: Path
) -> None:
    session = Session()
    session.sparkContext = SimpleNamespace(master=master)
    for bucket in ("", "s3://b/l"):
        made = EngineSettings(PROJECT_SESSION, bucket=bucket, project_session=session)
        opened = open_session(tmp_path / f"lake{bucket[:2]}", made)
        assert (own_server(opened) is None) == (master.startswith("spark") and bool(bucket))


def given_session() -> Session:
    return SESSION


SESSION = Session()
RESOURCE = SimpleNamespace(spark_session=SESSION)


@pytest.mark.parametrize("given", [SESSION, given_session, RESOURCE, lambda: RESOURCE])
def test_a_session_is_found_in_what_a_project_gives(given: object) -> None:
    assert unwrapped_session(given) is cast("SparkSession", SESSION)


@pytest.mark.parametrize("given", [None, 3, lambda: None])
def test_what_is_no_session_is_refused(given: object) -> None:
    with pytest.raises(SettingsError, match="Give a SparkSession, a function that returns one"):
        unwrapped_session(given)


@pytest.mark.parametrize("place", ["no_such_module.at_all:get", f"{__name__}:no_such_function"])
def test_a_named_session_that_is_not_there_is_refused_when_it_is_needed(place: str) -> None:
    found = session_maker(place)
    with pytest.raises(SettingsError, match=r"\[spark\] session = .*no_such.*Nothing was run"):
        found()


def test_a_session_that_gives_our_tables_other_rows_is_refused_with_each_setting() -> None:
    refuse_unfit(cast("SparkSession", Session()))
    bad = Session(**{"session.timeZone": "Europe/Berlin", "ansi.enabled": "false"})
    with pytest.raises(SettingsError) as refusal:
        refuse_unfit(cast("SparkSession", bad))
    assert (
        "timeZone is Europe/Berlin (days end at midnight of UTC); spark.sql.ansi.enabled is false"
        in str(refusal.value)
    )
    assert (
        '.config("spark.sql.session.timeZone", "UTC").config("spark.sql.ansi.enabled", "true")'
        in str(refusal.value)
    )


def test_an_engine_that_ranks_null_otherwise_than_spark_is_refused(spark: "SparkSession") -> None:
    """Sail does, and answers with Spark's settings."""

    class Configured(Session):
        def sql(self, text: str) -> Any:
            return spark.sql(text)

    with pytest.raises(SettingsError, match="it ranks NULL above all values, unlike Spark"):
        refuse_unfit(cast("SparkSession", Configured()))


def test_a_session_without_a_reader_of_delta_is_refused_with_what_to_configure(
    tmp_path: Path,
) -> None:
    missing = AnalysisException("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.")
    session = Mock(**{"read.format.return_value.option.return_value.load.side_effect": missing})
    with pytest.raises(
        BackfillError, match=r"has no reader of Delta tables.*DeltaSparkSessionExtension"
    ):
        delta_frame(session, str(tmp_path), 3)


def test_a_session_that_a_project_gives_to_another_lake_stays_its_own(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """As dagster-pyspark's resource of a lake does it: else nothing would be set on the session any
    more."""
    opened = LakeSession(make_lake(tmp_path / "own", [], "2024-01-01"))
    session = opened.spark()
    before = own_server(session)
    assert (
        open_session(tmp_path / "other", EngineSettings(PROJECT_SESSION, project_session=session))
        is session
    )
    assert not is_project_session(session)
    assert own_server(session) == before


def test_a_session_that_cannot_start_is_refused_with_the_java_that_it_needs() -> None:
    def start() -> None:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.\nmore")

    with pytest.raises(
        SettingsError, match=r"could not be started: \[JAVA_GATEWAY_EXITED\] Java.*JAVA_HOME"
    ) as found:
        unwrapped_session(start)
    assert "more" not in str(found.value)
