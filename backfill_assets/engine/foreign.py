"""Sessions that are not ours: writing a frame by its own session where we can read it. Nothing of one is set or ended.

Not here: sessions of a lake's engine (`session`), and what becomes of the files (`lake.given_rows`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from backfill_assets.core.errors import BackfillError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = "Return the rows as an Arrow table (`frame.toArrow()`), or give the server the lake's folder under the same path"


def is_connect(session: "SparkSession") -> bool:
    """Whether the session is a client of a server, which may see other folders than we do."""
    return ".connect." in f"{type(session).__module__}."


def write_parquet(frame: "DataFrame", folder: Path, observation: Callable[[], Any] | None = None) -> list[Path]:
    """Compute a frame once, by its own session, to plain Parquet files in a new folder; returns them.

    `observation` makes what counts the rows meanwhile (None: Spark's). Raises what Spark raises, and BackfillError if
    its machines do not write where this process reads.
    """
    session = frame.sparkSession
    folder.mkdir()
    if is_connect(session):
        refuse_elsewhere(session, folder)
    is_here = not is_connect(session) and f"{session.sparkContext.master}".split("[")[0] == "local"
    counted = _write(frame, folder, None if is_here else observation or _observation)
    paths = sorted(p for p in folder.rglob("*.parquet") if not p.name.startswith(("_", ".")))
    if counted is not None and (found := _rows(paths)) != counted:
        raise BackfillError(
            f"the folder {folder}",
            f"of {counted:,} rows that its session wrote, {found:,} are here: its machines have folders of their own",
            "Nothing was published",
            HERE,
        )
    return paths


def refuse_elsewhere(session: "SparkSession", folder: Path) -> None:
    """Raise BackfillError unless the session's server sees this folder as we do."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.errors import PySparkException

    word, file = uuid4().hex, folder / "probe.parquet"
    pq.write_table(pa.table({"word": [word]}), file)
    try:
        read: Any = session.read.schema("word string").parquet(f"file://{file}").first()
        reason = "" if read is not None and read[0] == word else "it finds another file there"
    except PySparkException as error:
        reason = str(error).splitlines()[0][:200]
    finally:
        file.unlink()
    if reason:
        raise BackfillError(
            f"the folder {folder}", f"the server of the Spark session does not see it ({reason})",
            "Nothing was written", HERE,
        )  # fmt: skip


def _observation() -> Any:
    from pyspark.sql import Observation

    return Observation()


def _write(frame: "DataFrame", folder: Path, observation: Callable[[], Any] | None) -> int | None:
    """Write, and return how many rows that were, as Spark counts them meanwhile; None where it was not asked or does
    not count."""
    from pyspark.errors import UnsupportedOperationException
    from pyspark.sql import functions as F

    place = f"file://{folder}"  # else it may be a folder of a cluster's own file system
    if observation is not None:
        rows = observation()
        try:
            frame.observe(rows, F.count(F.lit(1)).alias("rows")).write.mode("append").parquet(place)
        except UnsupportedOperationException:  # Sail
            pass
        else:
            return int(rows.get["rows"])
    frame.write.mode("append").parquet(place)
    return None


def _rows(paths: list[Path]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in paths)
