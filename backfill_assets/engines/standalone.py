"""The machines of a standalone cluster (`spark://…`): Spark waits for its first worker without an
end and without a word.

Here: that wait, and what the cluster's master says of its workers meanwhile. Not here: machines
that do not see the lake (`workers`), and other managers of clusters, which are not asked.
"""

import json
import logging
import re
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.texts import scrub_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "spark://"
# Spark writes that nobody takes its tasks to its own log after 15 s; a worker that starts, or joins
# a cluster that grows, takes longer.
PATIENCE_SECONDS = 60.0
# Spark's own name for how long to wait for workers; of a cluster that grows slowly.
PATIENCE_CONF = "spark.scheduler.maxRegisteredResourcesWaitingTime"
POLL_SECONDS = 2.0
PAGE_SECONDS = 5.0  # for an answer of the master's page
STARVED = b"has not accepted any resources"  # in the driver's log, every 15 s until a task began
PAGE_PORT_CONF, PAGE_PORT = "spark.master.ui.port", "8080"  # Spark's own name and default
MEMORY_CONF, CORES_CONF = "spark.executor.memory", "spark.executor.cores"
ASKED_BY_DEFAULT = "1g"  # of Spark
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # of Spark's times
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Application:
    """What one driver asks of a cluster: MiB and cores of each executor, and the cores that it
    has."""

    memory: int
    cores: int
    granted: int


@dataclass(frozen=True)
class ClusterWorker:
    """A worker that lives: its cores and MiB, and those that nobody uses."""

    name: str
    cores: int
    memory: int
    free_cores: int
    free_memory: int

    def __str__(self) -> str:
        """E.g. `10.0.0.7:41337 (4 cores and 2,048 MiB, of which 4 and 1,024 are free)`."""
        free = f"of which {self.free_cores} and {self.free_memory:,} are free"
        return f"{self.name} ({self.cores} cores and {self.memory:,} MiB, {free})"

    def could_take(self, application: Application) -> bool:
        """Whether an executor fits once nobody else has one."""
        return self.memory >= application.memory and self.cores >= application.cores


@dataclass(frozen=True)
class Offer:
    """What the page of a master says."""

    workers: tuple[ClusterWorker, ...]
    application: Application | None  # of this driver; None: the master has none of its name

    @property
    def is_busy(self) -> bool:
        """Whether a worker could take an executor, and others have its cores or memory now."""
        application = self.application
        return (
            application is not None
            and not application.granted
            and any(w.could_take(application) for w in self.workers)
        )


def await_first_task(session: "SparkSession", settings: EngineSettings, driver_log: Path) -> None:
    """Return once a worker of a standalone cluster has done a task of a session, at once for any
    other engine. `driver_log`: of the server that drives the cluster.

    Where none does within `patience_seconds`: waits on, with one warning, while workers that could
    are used by others; else raises SettingsError with what was asked and what the workers have.
    """
    if not settings.engine.startswith(SCHEME):
        return
    wait = _Wait(session, settings, driver_log)
    watcher = threading.Thread(target=wait.watch, name="wait for a cluster", daemon=True)
    watcher.start()
    try:
        session.range(1).collect()
    except Exception as error:
        if wait.refusal is not None:
            raise wait.refusal from error
        raise
    finally:
        wait.is_over.set()


def patience_seconds(settings: EngineSettings) -> float:
    """How long workers may take to begin a task, as `PATIENCE_CONF` says it, in seconds without a
    unit."""
    found = re.fullmatch(r"(\d+) ?(ms|s|m|min|h)?", settings.confs.get(PATIENCE_CONF, ""))
    return float(found[1]) * UNIT_SECONDS[found[2] or "s"] if found else PATIENCE_SECONDS


class _Wait:
    """The wait of a session for its first task, which another thread watches."""

    def __init__(self, session: "SparkSession", settings: EngineSettings, driver_log: Path) -> None:
        self.session, self.settings, self.driver_log = session, settings, driver_log
        self.is_over = threading.Event()
        self.refusal: SettingsError | None = None
        self._seen = driver_log.stat().st_size if driver_log.exists() else 0
        self._application = str(session.conf.get("spark.app.id", "") or "")
        self._is_told = False

    def watch(self) -> None:
        """Interrupt the task once it is clear that nobody will do it; return once it is done."""
        pause = patience = patience_seconds(self.settings)
        while not self.is_over.wait(pause):
            pause = min(POLL_SECONDS, patience)
            offer = read_offer(self.settings, self._application)
            if not self._is_starved(offer):
                continue
            if offer is None or not offer.is_busy:
                self.refusal = no_worker_error(self.settings, offer)
                with suppress(Exception):  # of a server that died, which ends the task as well
                    self.session.interruptAll()
                return
            self._tell(offer)

    def _is_starved(self, offer: Offer | None) -> bool:
        """Whether no task of the driver began, by the master or else by the driver's log."""
        if offer is not None and offer.application is not None and not offer.application.granted:
            return True
        with suppress(FileNotFoundError), self.driver_log.open("rb") as opened:
            opened.seek(self._seen)
            return STARVED in opened.read()
        return False

    def _tell(self, offer: Offer) -> None:
        """Say once that others use the workers."""
        if not self._is_told:
            cluster = scrub_secrets(self.settings.engine)
            log.warning("others use the cluster %s (%s): waiting for it", cluster, _named(offer))
        self._is_told = True


def no_worker_error(settings: EngineSettings, offer: Offer | None) -> SettingsError:
    """The error about a cluster of which no worker takes a task; `offer` is what its master says,
    None if its page was not found."""
    asked = f"{settings.confs.get(MEMORY_CONF, ASKED_BY_DEFAULT)} of memory"
    if cores := settings.confs.get(CORES_CONF):
        asked += f" and {cores} cores"
    fix = (
        f'Set "{MEMORY_CONF}" and "{CORES_CONF}" below [spark.confs] to what a worker has, or '
        "start workers that have more; then run again"
    )
    if offer is None:
        found = "what its workers have is not known, as its master's page does not answer"
        port = settings.confs.get(PAGE_PORT_CONF, PAGE_PORT)
        fix = f'{fix}. If the page has another port than {port}, set "{PAGE_PORT_CONF}" there'
    elif offer.application is not None and offer.application.granted:
        found = "its workers started executors, none of which reached the driver on this machine"
        fix = (
            "Let the workers' machines reach this one (SPARK_LOCAL_IP is the address that they are "
            "given); the executors' logs on the workers say more"
        )
    else:
        found = _named(offer)
    return SettingsError(
        f"the cluster {settings.engine}",
        f"no worker began a task within {patience_seconds(settings):.0f} s: an executor asks for "
        f"{asked}; {found}",
        "Nothing was run",
        fix,
    )


def _named(offer: Offer) -> str:
    """The workers of a cluster in words."""
    listed = ", ".join(map(str, offer.workers))
    return f"its workers are {listed}" if listed else "it has no worker"


def read_offer(settings: EngineSettings, application: str) -> Offer | None:
    """What the page of the cluster's master says of its workers, and of the application with this
    id; None where no page of that master answers."""
    for document in _pages(settings):
        try:
            workers = [w for w in document["workers"] if w["state"] == "ALIVE"]
            apps = [a for a in document["activeapps"] if a["id"] == application]
            return Offer(
                tuple(map(_read_worker, workers)),
                _read_application(settings, apps[0]) if apps else None,
            )
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _pages(settings: EngineSettings) -> Iterator[Mapping[str, Any]]:
    """The documents of the masters that an address names (a cluster may have several) of which one
    is at work."""
    page = settings.confs.get(PAGE_PORT_CONF, PAGE_PORT)
    for place in settings.engine.removeprefix(SCHEME).split(","):
        host, _, port = place.rpartition(":")
        try:
            address = f"http://{host}:{page}/json/"
            with urllib.request.urlopen(address, timeout=PAGE_SECONDS) as answer:
                document = json.load(answer)
        except (OSError, ValueError):
            continue
        # Another program may have the port.
        is_masters = isinstance(document, dict) and str(document.get("url")).endswith(f":{port}")
        if is_masters and document.get("status") == "ALIVE":
            yield document


def _read_worker(found: Mapping[str, Any]) -> ClusterWorker:
    return ClusterWorker(
        f"{found['host']}:{found['port']}",
        int(found["cores"]),
        int(found["memory"]),
        int(found["coresfree"]),
        int(found["memoryfree"]),
    )


def _read_application(settings: EngineSettings, found: Mapping[str, Any]) -> Application:
    cores = int(settings.confs.get(CORES_CONF, "1"))
    return Application(int(found["memoryperexecutor"]), cores, int(found["cores"]))
