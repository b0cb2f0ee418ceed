"""What the machines of an engine elsewhere write, held against what of it this process finds.

Such machines (workers of a cluster, a server at an address) may have a folder of their own under
the path of ours: what they write there is lost without an error. Here: counting rows in the tasks
that write them, and asking all machines at once. Not here: sessions (`session`), and where an
engine finds a lake's files (`engines.engine_paths`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from backfill_assets.engines.loss import is_engine_loss, is_poisoned, write_failed_error
from backfill_assets.kernel.core.errors import SettingsError, TransientError
from backfill_assets.kernel.core.texts import printable_text, scrub_secrets, shortened_text
from backfill_assets.kernel.place.port import LOCKS, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows by which machines name themselves: more than an engine has cores, each of which is a task.
ASKED_ROWS = 1 << 12
HOST = "coalesce(try_reflect('java.net.InetAddress', 'getLocalHost'), 'a machine')"
PROCESS = "coalesce(try_reflect('java.lang.ProcessHandle', 'current'), 'unknown')"
WORKER = f"concat({HOST}, ' process ', {PROCESS})"
UNNAMED_MACHINE = "'a machine that the engine does not name'"
MOST_SAID_CHARS = 200  # characters of what a task said, in an error
_LOST_TASK = re.compile(r"\(TID \d+\) \(([^)]+)\)")
GIVE_FOLDER = (
    "Give each machine of the engine the lake's folder under the same path (one file system, "
    "mounted on all), or take "
    "the machine out of the cluster; then run again"
)


def is_connect(session: "SparkSession") -> bool:
    """Whether the session is a client of a server, which may see other folders than we do."""
    return ".connect." in f"{type(session).__module__}."


def has_local_master(session: "SparkSession") -> bool:
    """Whether a session that is no client of a server computes in this process alone."""
    return f"{session.sparkContext.master}".split("[")[0] == "local"


def counted_write(
    frame: "DataFrame",
    write: "Callable[[DataFrame], None]",
    observation: Callable[[], Any] | None = None,
) -> int | None:
    """Let `write` write a frame, computed once; returns the rows that its tasks wrote, as the
    engine counts them meanwhile. None where the engine counts none.

    `observation` makes what counts (None: Spark's). A task that is tried again counts once. Raises
    what the engine raises.
    """
    from pyspark.errors import UnsupportedOperationException

    functions = _sql_functions(frame.sparkSession)
    rows = (observation or _observation_maker(frame.sparkSession))()
    try:
        write(frame.observe(rows, functions.count(functions.lit(1)).alias("rows")))
    except UnsupportedOperationException:
        write(frame)
        return None
    return int(rows.get["rows"])


def refuse_lost_rows(
    session: "SparkSession",
    place: Place,
    address: Callable[[str], str],
    what: str,
    rows: tuple[int | None, int],
) -> None:
    """Raise unless this process finds as many rows as an engine elsewhere counted in one write:
    `rows` has the engine's number and the one found. Where the engine counts none (None), its
    machines are asked once more instead.

    SettingsError names the machine whose folder is another; TransientError if all machines see the
    folder now. `place` and `address` as `refuse_blind_workers` has them.
    """
    counted, found = rows
    if counted == found:
        return
    refuse_blind_workers(session, place, address)
    if counted is not None:
        raise TransientError(
            what,
            f"of {counted:,} rows that the machines of the engine wrote, {found:,} are here, and "
            "all of its "
            f"machines of now see {place.uri()}",
            "Nothing was published",
            f"Run again. If it comes again, a machine that comes and goes is blind: {GIVE_FOLDER}",
        )


def refuse_blind_workers(
    session: "SparkSession", place: Place, address: Callable[[str], str]
) -> None:
    """Raise SettingsError, naming them, if machines of a session's engine cannot write to a place,
    or write there what this process does not find. Each machine that has a free core now is asked.

    `place`: a lake's, in which a folder is made for this and deleted. `address` gives the engine's
    address of a name in it.
    """
    name = f"{LOCKS}/probe-{uuid4().hex}"
    place.prepared(name)
    try:
        with _naming_worker(place):
            writing = _write_worker_names(session, address(name))
        found = list(_found_worker_names(place, name))
    finally:
        place.delete_below(name)
    if len(found) == ASKED_ROWS:
        return
    raise SettingsError(
        f"the engine that writes to {place.uri()}",
        f"its worker {blind_workers(writing, found)} sees another folder under this path: "
        f"of {ASKED_ROWS:,} rows that its machines wrote there, {len(found):,} are here",
        "Nothing was published",
        GIVE_FOLDER,
    )


def blind_workers(writing: Collection[str], found: Iterable[str]) -> str:
    """In words, the machines that wrote their names and of which no name was found."""
    blind = sorted({*writing} - {*found})
    return ", ".join(scrub_secrets(worker) for worker in blind) or "that it does not name"


def failed_worker(error: BaseException) -> str:
    """The machine whose task failed with Spark's `error`, as Spark calls it; empty if it names
    none."""
    found = _LOST_TASK.search(str(error))
    return found[1] if found else ""


@contextmanager
def _naming_worker(place: Place) -> Iterator[None]:
    """Raise SettingsError, which names the machine and what it says, for a task that fails while it
    writes to a place; a lost engine's error passes."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        is_of_task = failed_worker(error) or write_failed_error(error) is not None
        if is_engine_loss(error) or is_poisoned(error) or not is_of_task:
            raise
        worker = scrub_secrets(failed_worker(error)) or "that it does not name"
        raise SettingsError(
            f"the folder {place.uri()}",
            f"the engine's worker {worker} cannot write there ({_task_message(error)})",
            "Nothing was published",
            f"Let the worker's account write there. {GIVE_FOLDER}",
        ) from error


def _task_message(error: BaseException) -> str:
    """What the failed task said first, or else Spark, fit to print."""
    text = str(error)
    found = _LOST_TASK.search(text)
    said = text[found.end() :].removeprefix(": ") if found else text
    return shortened_text(
        printable_text(scrub_secrets(said.strip().partition("\n")[0])), MOST_SAID_CHARS
    )


def _write_worker_names(session: "SparkSession", address: str) -> set[str]:
    """Let each task of a query write the name of its machine to an address; returns the names, as
    the engine collects them meanwhile: none where it collects nothing."""
    from pyspark.errors import PySparkException, UnsupportedOperationException

    frame = session.range(0, ASKED_ROWS).selectExpr(f"{UNNAMED_MACHINE} AS worker")
    try:
        named = session.range(0, ASKED_ROWS).selectExpr(f"{WORKER} AS worker")
        _ = named.columns  # analysed now, where a client of a server would wait
        frame = named
    except PySparkException:  # an engine that forbids calling Java, or has none
        pass
    seen, functions = _observation_maker(session)(), _sql_functions(session)
    try:
        observed = frame.observe(
            seen, functions.collect_set(functions.col("worker")).alias("workers")
        )
        observed.write.mode("append").parquet(address)
    except UnsupportedOperationException:
        frame.write.mode("append").parquet(address)
        return set()
    return {*seen.get["workers"]}


def _found_worker_names(place: Place, name: str) -> Iterable[str]:
    import pyarrow.parquet as pq

    for file in place.below(name):
        if file.endswith(".parquet") and "_temporary" not in file:
            with place.open(file) as opened:
                yield from pq.read_table(opened).column("worker").to_pylist()


def _sql_functions(session: "SparkSession") -> Any:
    """By the session, not by the process: a project may have sessions of both kinds."""
    return import_module(
        "pyspark.sql.connect.functions" if is_connect(session) else "pyspark.sql.functions"
    )


def _observation_maker(session: "SparkSession") -> Callable[[], Any]:
    made: Callable[[], Any] = import_module(
        "pyspark.sql.connect.observation" if is_connect(session) else "pyspark.sql"
    ).Observation
    return made
