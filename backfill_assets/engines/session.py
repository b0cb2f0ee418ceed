"""Sessions on the engine of a lake: opened, checked and dropped, with the settings that were set on
them.

Not here: the lake's own server (`server`), and which errors mean a loss (`loss`).
"""

import atexit
import logging
import os
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.engines.abilities import SPARK, Engine
from backfill_assets.engines.confs import NOT_FOR_ROWS, EngineSettings, session_confs
from backfill_assets.engines.foreign import needs_bucket, unwrapped_session
from backfill_assets.engines.loss import (
    disk_full_error,
    engine_lost_error,
    is_disk_full,
    is_engine_loss,
    is_poisoned,
    is_short_of_memory,
    memory_exceeded_error,
    silence_raised_errors,
    write_failed_error,
)
from backfill_assets.engines.server import (
    end_server,
    ensure_server,
    hold_server,
    release_server,
    server_engine,
)
from backfill_assets.engines.standalone import await_first_task
from backfill_assets.engines.supervisor import Record, ServerFolder
from backfill_assets.engines.workers import counted_write, has_local_master, is_connect
from backfill_assets.kernel.core.engines import PROJECT_SESSION
from backfill_assets.kernel.core.errors import BackfillError, unusable_file_error
from backfill_assets.kernel.core.process import freeze_objects
from backfill_assets.kernel.place.processes import Process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RETRIES, _FIRST_BACKOFF_MS, _LONGEST_BACKOFF_MS = 4, 200, 2000  # 6 s; Spark's own take ten minutes
# Below the lake: links to files that a project's own session reads.
LINKS = Path(".staging", ".links")
# So long a living server is taken to know a session: it forgets one after an hour.
_ANSWERED_SECONDS = 60.0


@dataclass
class _OpenSession:
    """A session of this process."""

    session: "SparkSession"
    settings: EngineSettings
    server: Process | None  # the process behind it, if known
    # when opened, and as set by `set_confs` since; {}: never read
    confs: dict[str, str] = field(default_factory=dict)
    answered: float = -_ANSWERED_SECONDS  # when the server last answered that it knows the session
    is_elsewhere: bool = False  # a project's own, of machines that share no folder with this one

    def answers(self) -> bool:
        """Whether the server knows the session. It is asked once a minute at most, not for each
        step of a table; one that dies in between fails the next call."""
        if self.server is not None and time.monotonic() - self.answered < _ANSWERED_SECONDS:
            return True
        found = _session_settings(self.session)
        if found:
            self.answered = time.monotonic()
            self.confs = self.confs or found
        return bool(found)


_lock = threading.RLock()
_open: dict[Path, _OpenSession] = {}  # the sessions of this process, by lake
_opening: dict[Path, float] = defaultdict(float)  # the seconds that opening them has taken, by lake


def open_session(lake: Path, settings: EngineSettings) -> "SparkSession":
    """A session that answers: this process's own for the lake and these settings, else a new one.

    Embedded: starts the lake's server if need be (7 s) and holds it for the life of this process.
    Relative paths in queries mean the server's folder: pass absolute ones. Raises EngineLost where
    the engine cannot be reached, and SettingsError where this process or the lake's server already
    runs with other settings, and where no worker of a standalone cluster takes a task.
    """
    lake = lake.resolve()
    with _lock:
        known, began = _open.pop(lake, None), time.monotonic()
        try:
            opened = _answering_session(lake, settings, known)
            if opened is not known:
                _await_machines(lake, opened)
        except BackfillError:
            raise
        except Exception as error:
            if clear_error := explained_error(error):
                raise clear_error from None
            raise
        if opened is not known and settings.engine != PROJECT_SESSION:
            silence_raised_errors()
            _opening[lake] += time.monotonic() - began
        _open[lake] = opened
        return opened.session


def session_engine(session: "SparkSession") -> Engine:
    """The engine behind a session of this process; Spark where that is not known."""
    server = own_server(session)
    return server.engine if server else SPARK


@dataclass(frozen=True)
class OwnServer:
    """A server that sees this machine's folders: its engine and a folder for temporary files."""

    engine: Engine
    scratch: Path


def own_server(session: "SparkSession") -> OwnServer | None:
    """The server of a session of this process that sees its folders, the lake's own or a project's;
    else None."""
    with _lock:
        opened = _lakes_of_session(session)
        if any(known.is_elsewhere for _, known in opened):
            return None
        for lake, known in opened:
            if known.settings.engine == PROJECT_SESSION:
                return OwnServer(SPARK, lake / LINKS)
            if known.settings.computes_here:
                return OwnServer(server_engine(known.settings), ServerFolder.of(lake).scratch)
    return None


def is_of_this_machine(session: "SparkSession") -> bool:
    """Whether this machine alone is known to compute what a session does: on a lake's own server or
    a local master. A client of another server is not known to, nor is a server of ours that drives
    a cluster."""
    with _lock:
        if any(known.settings.computes_here for _, known in _lakes_of_session(session)):
            return True
    return not is_connect(session) and has_local_master(session)


def written_rows(frame: "DataFrame", write: "Callable[[DataFrame], None]") -> int | None:
    """Write a frame by `write`. Returns the rows that its tasks wrote if other machines may have
    run them; None if only this machine did, or if the engine reports no count."""
    if not is_of_this_machine(frame.sparkSession):
        return counted_write(frame, write)
    write(frame)
    return None


def _lakes_of_session(session: "SparkSession") -> list[tuple[Path, _OpenSession]]:
    """The lakes that a session was opened for; lakes whose engine it is come first: a project may
    give it to another lake."""
    found = [(lake, known) for lake, known in list(_open.items()) if known.session is session]
    return sorted(found, key=lambda one: one[1].settings.engine == PROJECT_SESSION)


def set_confs(session: "SparkSession", confs: Mapping[str, str]) -> None:
    """Set this configuration on a session, only where its values differ: each costs a call. Not on
    a project's own."""
    if is_project_session(session):
        return
    known = _known_confs(session)
    for key, value in confs.items():
        if known.get(key) != value:
            session.conf.set(key, value)
            # Else they were never read: with a few of them all others would seem to be changed.
            if known:
                known[key] = value


def is_project_session(session: "SparkSession") -> bool:
    """Whether a session of this process is a project's own: this package never stops it or sets
    anything on it."""
    return any(
        known.settings.engine == PROJECT_SESSION for _, known in _lakes_of_session(session)[:1]
    )


def conf_value(session: "SparkSession", key: str) -> str | None:
    """A configuration of a session: the value that `set_confs` has set, else the engine's
    answer."""
    return _known_confs(session).get(key) or session.conf.get(key)


def changed_settings(session: "SparkSession") -> dict[str, tuple[str | None, str | None]]:
    """The settings `spark.sql.*` of a session of this process that other code than `set_confs` has
    changed, each with its value before and now (None: not set). They are put back before this
    returns. One call of the engine."""
    with _lock:
        known = _known_confs(session)
        if not known or is_project_session(session):
            return {}
        now = _session_settings(session)
        if not now:
            return {}
        changed = dict[str, tuple[str | None, str | None]]()
        for name in sorted(known.keys() | now.keys()):
            decides_rows = name.startswith("spark.sql.") and name not in NOT_FOR_ROWS
            if decides_rows and known.get(name) != now.get(name):
                changed[name] = known.get(name), now.get(name)
        for name, (before, _) in changed.items():
            if before is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, before)
        return changed


def _known_confs(session: "SparkSession") -> dict[str, str]:
    """The settings of a session of this process, as opened and as `set_confs` set them since; {}
    for other sessions."""
    with _lock:
        return next((known.confs for _, known in _lakes_of_session(session)), {})


def opening_seconds(lake: Path) -> float:
    """Seconds that this process has waited so far for sessions on a lake's engine to be opened."""
    return _opening.get(lake.resolve(), 0.0)


def _answering_session(
    lake: Path, settings: EngineSettings, known: _OpenSession | None
) -> _OpenSession:
    if settings.engine == PROJECT_SESSION:
        return _project_session(lake, settings, known)
    server = None
    if settings.has_server:
        hold_server(lake)
        server = ensure_server(lake, settings)
    else:
        from backfill_assets.engines.channel import refuse_unreachable_server

        refuse_unreachable_server(settings.engine)
    process = server.process if server else None
    if known is not None:
        is_of_this_engine = known.settings == settings and known.server == process
        if is_of_this_engine and known.answers():
            return known
        _close_session(known)
    opened = _OpenSession(_new_session(server, settings), settings, process)
    if opened.answers() or process is None:
        return opened
    # The server was dying when we found it; its successor is asked once, so that a sick one cannot
    # hold us for ever.
    _close_session(opened)
    server = ensure_server(lake, settings)
    opened = _OpenSession(_new_session(server, settings), settings, server.process)
    opened.answers()  # asked for the wait alone: whatever it says, the session is used
    return opened


def _await_machines(lake: Path, opened: _OpenSession) -> None:
    """Wait for the machines of a cluster; a session that gets none is closed."""
    try:
        await_first_task(opened.session, opened.settings, ServerFolder.of(lake).log)
    except BaseException:
        _close_session(opened)
        raise


def _project_session(
    lake: Path, settings: EngineSettings, known: _OpenSession | None
) -> _OpenSession:
    """The project's own session, asked once whether it sees the lake's folder."""
    session = unwrapped_session(settings.project_session)
    if known is None or known.session is not session:
        known = _OpenSession(
            session,
            settings,
            None,
            is_elsewhere=needs_bucket(session, lake / LINKS, settings.bucket),
        )
    return replace(known, settings=settings)


def _new_session(server: Record | None, settings: EngineSettings) -> "SparkSession":
    """A new session on a server of ours, else on the settings' engine; never Spark's `getOrCreate`,
    which hands back the session of a dead server."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from backfill_assets.engines.channel import ServerChannel

    freeze_objects()
    # As pyspark's own builder does it, which takes no channel: its functions look here for whom
    # they work.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # Else it prints raised errors once Dagster's logging enables it.
    if "SPARK_CONNECT_LOG_LEVEL" not in os.environ:
        logging.getLogger("pyspark.sql.connect.logging").setLevel(logging.CRITICAL + 1)
    # The error that follows says the same; as a warning it would be the last line a person reads.
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)
    line = ServerChannel(server.url, server.path) if server else ServerChannel(settings.engine)
    session: SparkSession = ConnectSession.Builder().channelBuilder(line).create()  # type: ignore[assignment]
    # Before pyspark's own farewell, which waits for whatever it talks to.
    atexit.register(session.stop)
    client = session.client
    policy = type(client.get_retry_policies()[0])
    patience = policy(
        max_retries=_RETRIES,
        initial_backoff=_FIRST_BACKOFF_MS,
        max_backoff=_LONGEST_BACKOFF_MS,
    )
    client.set_retry_policies([patience])
    confs = server_engine(settings).session_confs(settings) if server else session_confs(settings)
    for key, value in confs.items():
        session.conf.set(key, value)
    return session


def _session_settings(session: "SparkSession") -> dict[str, str]:
    """All settings of a session; none where the server no longer knows it, as after an hour without
    a call."""
    try:
        return dict(session.conf.getAll)
    except Exception as error:
        if is_engine_loss(error):
            return {}
        raise


def _close_session(known: _OpenSession) -> None:
    """Close a session, unless it is a project's own. Calls a dead server once, not for 5 s again
    and again."""
    if known.settings.engine == PROJECT_SESSION:
        return
    if known.server is not None and not known.server.is_alive():
        known.session.client.set_retry_policies([])
    atexit.unregister(known.session.stop)
    known.session.stop()


def drop_session(lake: Path) -> None:
    """Close this process's session on the lake's engine and let the embedded server go idle. Stops
    no server."""
    with _lock:
        known = _open.pop(lake.resolve(), None)
        if known is not None:
            _close_session(known)
    release_server(lake)


def explained_error(error: Exception) -> BackfillError | None:
    """The one-line error for an `error` about the engine, a disk or a file; None for any other.

    An engine that answers and yet fails for ever is ended here, so that the next session gets a
    fresh one. A full disk leaves such an engine behind: it never loads the classes that it could
    not load then.
    """
    full = is_disk_full(error)
    lakes_of_ended = _end_open_servers() if full or is_poisoned(error) else []
    if full:
        return disk_full_error([*lakes_of_ended, Path(tempfile.gettempdir())])
    if is_short_of_memory(error):
        return memory_exceeded_error()
    # A file that is not there is no fault of the machine: a transform may name it wrongly, and is
    # told its own file and line (`steadiness.explaining_mistakes`).
    is_of_machine = not isinstance(error, FileNotFoundError)
    if is_of_machine and isinstance(error, OSError) and error.filename:
        return unusable_file_error(error)
    return engine_lost_error(error) if is_engine_loss(error) else write_failed_error(error)


def _end_open_servers() -> list[Path]:
    """End the servers of this process's sessions, for all who use them; returns the lakes that have
    a session here."""
    with _lock:
        ours = dict(_open)
    for lake, known in ours.items():
        if known.server is not None:
            end_server(lake, known.server)
    return [*ours]
