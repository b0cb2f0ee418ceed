"""The wait for a standalone cluster: who is refused, who waits, and with which words. Not here: a
real cluster (`end_to_end/test_machines`)."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engines import standalone
from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.standalone import (
    CORES_CONF,
    MEMORY_CONF,
    PAGE_PORT_CONF,
    PATIENCE_CONF,
    PATIENCE_SECONDS,
    STARVED,
    await_first_task,
    patience_seconds,
    read_offer,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.processes import free_port

SOON = {PATIENCE_CONF: "30ms"}
APPLICATION = "app-20240301000000-0003"


def worker(memory: int, cores: int, state: str = "ALIVE", used: int = 0) -> dict[str, Any]:
    return {
        "host": "10.0.0.7",
        "port": 41337,
        "cores": cores,
        "coresfree": cores - used,
        "memory": memory,
        "memoryfree": memory - 256 * used,
        "state": state,
    }


@dataclass
class Master:
    """The page of a master: what it shows may be changed meanwhile."""

    page: int
    shown: dict[str, Any]
    asked: Callable[[], object] = lambda: None  # called for each request

    def show(self, *workers: dict[str, Any], granted: int = 0, status: str = "ALIVE") -> None:
        """Show these workers, and an application that asks for 1 GiB and has cores."""
        asked = {"id": APPLICATION, "memoryperexecutor": 1024, "cores": granted}
        self.shown.update(
            url="spark://10.0.0.1:7077",
            workers=[*workers],
            activeapps=[{"id": "app-of-others"}, asked],
            status=status,
        )

    def settings(self, **confs: str) -> EngineSettings:
        """A lake's, whose cluster this is."""
        asked = {MEMORY_CONF: "1g", CORES_CONF: "2", PAGE_PORT_CONF: str(self.page), **SOON}
        return EngineSettings("spark://127.0.0.1:7077", confs={**asked, **confs})


@pytest.fixture
def master() -> Iterator[Master]:
    made = Master(0, {})

    class Page(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            made.asked()
            content = json.dumps(made.shown).encode()
            self.send_response(200 if self.path == "/json/" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.page = server.server_address[1]
        made.show(worker(512, 1))
        yield made
        server.shutdown()


class Session:
    """A session whose task ends once it is interrupted, or `over`; `begun` is called before."""

    def __init__(self, begun: Callable[[], object] = lambda: None) -> None:
        self.over, self.is_interrupted, self.conf = threading.Event(), False, self
        self.begun = begun

    def get(self, *_: str) -> str:
        return APPLICATION

    def range(self, _: int) -> "Session":
        return self

    def collect(self) -> list[int]:
        self.begun()
        assert self.over.wait(30)
        if self.is_interrupted:
            raise RuntimeError("OPERATION_CANCELED")
        return [0]

    def interruptAll(self) -> None:
        self.is_interrupted = True
        self.over.set()


def refusal(settings: EngineSettings, folder: Path, *lines: bytes) -> str:
    """What is said of a cluster while the driver's log gets these lines."""
    log = folder / "server.log"
    log.write_bytes(b"of an earlier wait: " + STARVED)
    session = Session(lambda: log.write_bytes(log.read_bytes() + b"".join(lines)))
    with pytest.raises(SettingsError) as told:
        await_first_task(session, settings, log)  # type: ignore[arg-type]
    assert session.is_interrupted
    return str(told.value)


def test_workers_too_small_for_an_executor_are_named_with_what_is_asked(
    master: Master, tmp_path: Path
) -> None:
    master.show(worker(512, 1), worker(9999, 9, "DEAD"))
    said = refusal(master.settings(), tmp_path)
    assert "the cluster spark://127.0.0.1:7077: no worker began a task" in said
    assert "an executor asks for 1g of memory and 2 cores" in said
    assert "workers are 10.0.0.7:41337 (1 cores and 512 MiB, of which 1 and 512 are free)." in said
    assert 'Set "spark.executor.memory"' in said


def test_a_worker_with_the_memory_and_too_few_cores_is_too_small(
    master: Master, tmp_path: Path
) -> None:
    master.show(worker(4096, 1))
    assert "(1 cores and 4,096 MiB" in refusal(master.settings(), tmp_path)


def test_a_cluster_without_a_worker_is_refused(master: Master, tmp_path: Path) -> None:
    master.show()
    assert "it has no worker" in refusal(master.settings(), tmp_path)


def test_executors_that_do_not_reach_the_driver_are_told_from_workers_too_small(
    master: Master, tmp_path: Path
) -> None:
    master.show(worker(4096, 4), granted=4)
    assert "none of which reached the driver" in refusal(master.settings(), tmp_path, STARVED)


def test_without_the_masters_page_the_drivers_log_decides(tmp_path: Path) -> None:
    confs = {PAGE_PORT_CONF: str(free_port()), **SOON}
    settings = EngineSettings("spark://127.0.0.1:7077", confs=confs)
    said = refusal(settings, tmp_path, STARVED)
    assert "an executor asks for 1g of memory; what its workers have is not known" in said
    assert f'If the page has another port than {settings.confs[PAGE_PORT_CONF]}, set "' in said


@pytest.mark.parametrize("why", ["another master's", "a master that waits", "no master's"])
def test_the_page_of_any_other_program_says_nothing(master: Master, why: str) -> None:
    if why == "another master's":
        master.shown["url"] = "spark://10.0.0.1:7078"
    elif why == "a master that waits":
        master.show(status="STANDBY")
    else:
        master.shown["workers"] = ["a", 1]
    assert read_offer(master.settings(), APPLICATION) is None


def test_a_cluster_that_others_use_is_waited_for_with_one_warning(
    master: Master, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master.show(worker(4096, 4, used=4))
    session, asked = Session(), list[int]()

    def count() -> None:
        asked.append(1)
        if len(asked) == 4:
            session.over.set()

    master.asked = count
    with caplog.at_level(logging.WARNING):
        await_first_task(session, master.settings(), tmp_path / "none.log")  # type: ignore[arg-type]
    assert not session.is_interrupted
    (said,) = [r.getMessage() for r in caplog.records if r.name == standalone.__name__]
    assert "others use the cluster" in said
    assert "of which 0 and 3,072 are free" in said


@pytest.mark.parametrize("engine", ["embedded", "local[1]", "yarn", "sc://127.0.0.1:1"])
def test_of_other_engines_nothing_is_asked(engine: str, tmp_path: Path) -> None:
    none: Callable[..., Any] = pytest.fail
    await_first_task(none, EngineSettings(engine), tmp_path / "none.log")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", PATIENCE_SECONDS), ("30s", 30), ("5min", 300), ("2", 2), ("soon", PATIENCE_SECONDS)],
)
def test_the_time_to_wait_is_as_spark_writes_it(text: str, seconds: float) -> None:
    found = patience_seconds(EngineSettings("spark://a:1", confs={PATIENCE_CONF: text}))
    assert found == seconds
