"""`dagster dev` on a sample lake with a home of its own, for tests that look at it as a person does.

Lives here: starting and stopping it. Does not live here: the clicks (`ui`). The lake is made by the
command that the README names, so that what is looked at is what a newcomer sees.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.engine.server import stop_server
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets_tests.processes import CHECKOUT, until

SAMPLE_DAYS = 14  # the fewest that `demo` makes: windows, horizon and maturity all end inside it
STOPPED_SECONDS = 15.0
PATIENCE_SECONDS = 300.0  # a dozen run processes on two cores that may run other things


@dataclass(frozen=True)
class Site:
    """A running web server, its lake, and where it writes its log."""

    url: str
    lake: Lake
    log: Path


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A sample lake, loaded, and `dagster dev` over it; all is stopped at the end."""
    home, root = folder / "home", folder / "lake"
    home.mkdir(parents=True)
    shutil.copy(CHECKOUT / "dagster.yaml", home)
    env = {**os.environ, "DAGSTER_HOME": str(home), "BACKFILL_ASSETS_LAKE": str(root), "PYTHONPATH": str(CHECKOUT)}
    demo = [sys.executable, "-m", "backfill_assets", "demo", "--days", str(SAMPLE_DAYS)]
    subprocess.run(demo, cwd=home, env=env, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    port, log = _free_port(), folder / "dev.log"
    program = Path(sys.executable).with_name("dagster")
    command = [str(program), "dev", "-m", "backfill_assets.definitions", "--port", str(port)]
    with log.open("w") as written:
        dev = subprocess.Popen(command, cwd=home, env=env, stdout=written, stderr=written, start_new_session=True)
        try:
            made = Site(f"http://127.0.0.1:{port}", open_lake(root), log)
            until(lambda: _answers(made.url), log, PATIENCE_SECONDS)
            yield made
        finally:
            _stop(dev)
            stop_server(root, force=True)


def _stop(dev: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, then end it with its web server, daemon and runs, which share its process group."""
    os.killpg(dev.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        dev.wait(STOPPED_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(dev.pid, signal.SIGKILL)
    dev.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5) as answer:  # noqa: S310 - our own loopback server
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
