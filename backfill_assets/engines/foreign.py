"""Sessions that are not ours: found, asked for what we need, and writing their frames where we can
read them.

Nothing of them is started, set or stopped. Not here: sessions of a lake's engine (`session`), and
what becomes of the files (`assets.given_rows`).
"""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from backfill_assets.engines.workers import (
    counted_write,
    has_local_master,
    is_connect,
    refuse_blind_workers,
)
from backfill_assets.kernel.core.engines import OWN_SERVERS
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPUTE_HERE_ADVICE = (
    "Return the rows as an Arrow table (`frame.toArrow()`), or give the server the lake's folder "
    "under the same path"
)

# The Java of the extra `java` lacks the module jdk.incubator.vector, which pyspark's own launcher
# asks for.
JAVA_OF_THEIRS = (
    "Give it a Java 17 or 21 of the machine (JAVA_HOME, or `java` on the PATH): a project's own "
    "Spark cannot use that "
    "of the extra `java`, which is for the engine `embedded`"
)

# What our own tables are computed by; rows that an asset computes are its own matter. Each: values,
# and why.
NEEDED_CONFS = {
    "spark.sql.session.timeZone": (
        ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"),
        "days end at midnight of UTC",
    ),
    "spark.sql.ansi.enabled": (("true",), "what overflows would become another number in silence"),
    "spark.sql.files.ignoreCorruptFiles": (("false",), "rows would be missing in silence"),
    "spark.sql.variable.substitute": (
        ("false",),
        "${env:HOME} in a text of SQL would be the server's",
    ),
    "spark.sql.parquet.outputTimestampType": (("TIMESTAMP_MICROS",), "readers of Delta expect it"),
}
DELTA_ADVICE = (
    'Make the session with .config("spark.sql.extensions", '
    '"io.delta.sql.DeltaSparkSessionExtension"), '
    '.config("spark.sql.catalog.spark_catalog", '
    '"org.apache.spark.sql.delta.catalog.DeltaCatalog") and the package '
    "io.delta:delta-spark for its version of Spark; or run `backfill-assets doctor`, which says "
    "who changed the table"
)


def session_maker(place: str) -> Callable[[], Any]:
    """A function that imports and calls MODULE:FUNCTION, which returns the session. It raises
    SettingsError where there is no such function."""

    def found() -> Any:
        """Import and call it."""
        module, _, name = place.partition(":")
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise SettingsError(
                f"[spark] session = {place!r}",
                str(error),
                "Nothing was run",
                "Name a function of a module that this Python can import, e.g. "
                "my_project.spark:get",
            ) from error
        return function()

    return found


def unwrapped_session(project_session: Any) -> "SparkSession":
    """The session behind what a project gave: itself, a resource with a `spark_session`
    (dagster-pyspark), or a function that returns either. Raises SettingsError for anything else,
    and where no session could be started."""
    from pyspark.errors import PySparkException

    try:
        given = _held_session(project_session)
    except PySparkException as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SettingsError(
            "the project's Spark session",
            f"it could not be started: {reason}",
            "Nothing was computed",
            JAVA_OF_THEIRS,
        ) from error
    if not hasattr(given, "createDataFrame"):
        raise SettingsError(
            "the project's Spark session",
            f"what was given for it is a {type(given).__name__}",
            "Nothing was run",
            "Give a SparkSession, a function that returns one, or dagster-pyspark's "
            "PySparkResource",
        )
    session: SparkSession = given
    return session


def _held_session(given: Any) -> Any:
    """What a resource holds, or a function returns; at most one within the other."""
    for _ in range(2):
        if given is not None and hasattr(given, "spark_session"):
            given = given.spark_session
        elif callable(given) and not hasattr(given, "createDataFrame"):
            given = given()
    return given


def refuse_unfit(session: "SparkSession") -> None:
    """Raise SettingsError that names every configuration by which the session would give our tables
    other rows."""
    wrong = {}
    for key, (values, why) in NEEDED_CONFS.items():
        if (value := session.conf.get(key)) not in values:
            wrong[key] = f"{key} is {value} ({why})"
    if not wrong and not _ranks_nulls_last(session):
        engines = " or ".join(f'engine = "{name}"' for name in OWN_SERVERS)
        raise SettingsError(
            "the project's Spark session",
            "it ranks NULL above all values, unlike Spark",
            "Nothing was computed",
            f"Set {engines}, which computes tables of the lake; assets that return frames may use "
            "this one",
        )
    if wrong:
        made = "".join(f'.config("{key}", "{NEEDED_CONFS[key][0][0]}")' for key in wrong)
        raise SettingsError(
            "the project's Spark session",
            "; ".join(wrong.values()),
            "Nothing was computed",
            f"Make it with {made}; assets that return a frame of it, and inputs of theirs, need "
            "none of this",
        )


@lru_cache(maxsize=4)
def _ranks_nulls_last(session: "SparkSession") -> bool:
    """Whether it ranks NULL within a struct below all values. Another engine that answers with
    Spark's settings may not (nor stop where numbers overflow, but asking for that prints an error
    on a real Spark)."""
    ranked = session.sql(
        "SELECT max(named_struct('n', n)).n FROM VALUES (CAST(NULL AS INT)), (1) AS t(n)"
    ).first()
    return ranked is not None and ranked[0] == 1


def delta_frame(session: "SparkSession", table: str, version: int) -> "DataFrame":
    """The rows of a version by Delta's reader. Raises BackfillError where the session has none."""
    from pyspark.errors import AnalysisException

    try:
        frame = session.read.format("delta").option("versionAsOf", version).load(table)
        _ = frame.columns  # analysed now, where a client of a server would wait
    except AnalysisException as error:
        if not any(
            sign in str(error)
            for sign in ("DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION")
        ):
            raise
        raise BackfillError(
            f"the table {table.rpartition('/')[2]}",
            "its files alone do not give its rows, and the Spark session has "
            "no reader of Delta tables",
            "It was not read",
            DELTA_ADVICE,
        ) from error
    return frame


def write_parquet(
    frame: "DataFrame",
    folder: Path,
    observation: Callable[[], Any] | None = None,
    refuse_blind: Callable[
        ["SparkSession", Place, Callable[[str], str]], None
    ] = refuse_blind_workers,
) -> list[Path]:
    """Compute a frame once, by its own session, to plain Parquet files in a new folder; returns
    them.

    `observation` makes what counts the rows meanwhile (None: Spark's); `refuse_blind` asks the
    session's machines. Raises what Spark raises, and BackfillError if its machines do not write
    where this process reads.
    """
    session = frame.sparkSession
    folder.mkdir()
    refuse_unseen_folder(session, folder)
    if not is_connect(session) and has_local_master(session):
        _write_files(frame, folder)
        return _parquet_files(folder)
    counted = counted_write(frame, lambda rows: _write_files(rows, folder), observation)
    paths = _parquet_files(folder)
    if (found := _stored_row_count(paths)) == counted:
        return paths
    refuse_blind(session, Folder(str(folder)), lambda name: f"file://{folder / name}")
    if counted is not None:
        raise BackfillError(
            f"the folder {folder}",
            f"of {counted:,} rows that its session wrote, {found:,} are here: its machines have "
            "folders of their own",
            "Nothing was published",
            COMPUTE_HERE_ADVICE,
        )
    return paths


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.parquet") if not p.name.startswith(("_", ".")))


def _write_files(frame: "DataFrame", folder: Path) -> None:
    frame.write.mode("append").parquet(
        f"file://{folder}"
    )  # else it may be a folder of a cluster's own file system


def refuse_unseen_folder(session: "SparkSession", folder: Path) -> None:
    """Raise BackfillError unless the session's server sees this folder as we do."""
    if reason := unseen_folder_reason(session, folder):
        raise BackfillError(
            f"the folder {folder}",
            f"the server of the Spark session does not see it ({reason})",
            "Nothing was written",
            COMPUTE_HERE_ADVICE,
        )


def needs_bucket(session: "SparkSession", folder: Path, bucket: str) -> bool:
    """Whether a session must reach a lake's bucket by itself ("": it has none). A lake in a folder
    must be seen: raises BackfillError. The folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    if bucket:
        return bool(unshared_folder_reason(session, folder))
    refuse_unseen_folder(session, folder)
    return False


def unshared_folder_reason(session: "SparkSession", folder: Path) -> str:
    """Why not all machines of the session are known to see this folder as we do: the server of a
    client does not, or a classic session computes on a cluster; empty where they do."""
    if not is_connect(session) and not has_local_master(session):
        return f"its master is {scrub_secrets(str(session.sparkContext.master))}"
    return unseen_folder_reason(session, folder)


def is_ended_by_task(session: "SparkSession") -> bool:
    """Whether a task that takes too much memory ends the driver, which runs tasks itself, or does
    not say."""
    from pyspark.errors import PySparkException

    try:
        return f"{session.conf.get('spark.master', 'local')}".split("[")[0] == "local"
    except PySparkException:
        return True


def unseen_folder_reason(session: "SparkSession", folder: Path) -> str:
    """Why the session's server does not see this folder as we do; empty where it does. A classic
    session is here."""
    if not is_connect(session):
        return ""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.errors import PySparkException

    word, file = uuid4().hex, folder / "probe.parquet"
    pq.write_table(pa.table({"word": [word]}), file)
    try:
        read: Any = session.read.schema("word string").parquet(f"file://{file}").first()
        return "" if read is not None and read[0] == word else "it finds another file there"
    except PySparkException as error:
        return str(error).splitlines()[0][:200]
    finally:
        file.unlink()


def _stored_row_count(paths: list[Path]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in paths)
