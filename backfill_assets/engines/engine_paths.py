"""Where the engine of a session finds a lake's files: paths of this machine, or addresses in the
lake's bucket.

Not here: places (`kernel.place`), engines and what they are told of a store (`engines`). Whatever
hands the name of a lake's file to an engine asks `engine_path`.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from backfill_assets.engines.loss import is_engine_loss
from backfill_assets.engines.session import is_of_this_machine, own_server
from backfill_assets.engines.workers import refuse_blind_workers, refuse_lost_rows
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.port import LOCKS, Place, answers_of
from backfill_assets.kernel.tables.columns import footer_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As the lake is called, and as Hadoop's client calls it wherever it is installed.
S3, S3A = "s3://", "s3a://"


def reads_bucket_itself(session: "SparkSession", place: Place) -> bool:
    """Whether the machines of the session's engine do not see this one's copies of the files in a
    bucket."""
    return place.is_store and own_server(session) is None


def hadoop_address(address: str) -> str:
    """An address as Spark and Hadoop's clients write it."""
    return address.replace(S3, S3A, 1)


def engine_path(session: "SparkSession", place: Place, name: str = "") -> str:
    """The path or address of a file or folder, to read or to fill, for the engine of a session. A
    file of a bucket is fetched for an engine of this machine, and one that waits here is sent for
    one elsewhere. Raises SettingsError for an engine elsewhere and another store than S3."""
    if reads_bucket_itself(session, place.at(name)):
        if not (address := place.uri(name)).startswith((S3, S3A)):
            raise SettingsError(
                address,
                "the lake's engine computes on machines that reach tables in S3 only",
                "Nothing was run",
                'Set engine = "embedded", whose machine fetches copies, or have the table kept at '
                "s3://…",
            )
        place.at(name).sync_new([""])
        return hadoop_address(address)
    return str(place.local(name))


@lru_cache(maxsize=4)
def refuse_blind_engine(session: "SparkSession", place: Place) -> None:
    """Raise SettingsError unless the machines of a session's engine read what this process has just
    written to a lake's bucket; asked once for a session. Else what they write would be in another
    store, and its days would seem empty."""
    from pyspark.errors import PySparkException

    name, word, reason = f"{LOCKS}/probe-{uuid4().hex}", uuid4().hex, "they find another file there"
    place.write(name, word.encode())
    address = engine_path(session, place, name)
    try:
        read = session.read.schema("word string").text(address).first()
        if read is not None and read[0] == word:
            return
    except PySparkException as error:
        if is_engine_loss(error):
            raise
        reason = str(error).splitlines()[0][:300]
    finally:
        place.delete(name)
    raise SettingsError(
        f"the engine of the lake {place.uri()}",
        f"its machines do not read {address} ({reason})",
        "Nothing was run",
        "Give them Hadoop's S3A (the jar hadoop-aws of their Hadoop), for a store of your own "
        "fs.s3a.endpoint and "
        "fs.s3a.path.style.access, and credentials by a role or their environment "
        "(`backfill-assets guide buckets`)",
    )


@lru_cache(maxsize=4)
def refuse_blind_machines(session: "SparkSession", place: Place) -> None:
    """Raise SettingsError where a machine of a session's engine writes to a lake what this process
    does not find in it; asked once for a session, of the machines that the engine has then. What
    those write that come later is counted (`refuse_lost_files`)."""
    refuse_blind_workers(session, place, partial(engine_path, session, place))


def refuse_lost_files(
    session: "SparkSession", lake: Place, table: Place, files: Iterable[str], counted: int | None
) -> None:
    """Raise unless the files that this process finds hold all rows that the machines of an engine
    elsewhere wrote to a table; `counted`: so many, as the engine says (None: it does not). Nothing
    is asked of an engine of this machine."""
    if is_of_this_machine(session):
        return
    found = sum(answers_of(table, lambda name: _rows_in(table, name), [*files]))
    what = f"the table {table.name}"
    refuse_lost_rows(session, lake, partial(engine_path, session, lake), what, (counted, found))


def _rows_in(table: Place, name: str) -> int:
    rows: int = footer_in(table, name).metadata.num_rows
    return rows


def linked_folder(scratch: Path, column: str, named: Iterable[tuple[str, Path]]) -> Path:
    """A folder below `scratch` with a link to each (value, file), laid out as `column=value`;
    deleted at exit.

    Spark takes a column from a folder once per file, from the name of a row's file once per row. An
    engine may have no `_metadata`, and take columns from folders only if it is given the folder
    that they lie in.
    """
    folder = Path(tempfile.mkdtemp(prefix="links-", dir=scratch))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number, (value, path) in enumerate(named):
        place = folder / f"{column}={value}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.parquet").symlink_to(path)
    return folder
