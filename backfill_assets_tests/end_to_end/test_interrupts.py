"""Interrupts at any moment: every process ends within seconds, and what it leaves is whole.

Tested here: TERM of the command line, and INT as a terminal sends it, to all its processes, at six
random moments. Not tested here: the insisting itself (`dagster.adapter.test_interrupts`), a run
cancelled in the UI (`browser.test_dev`), and what the UI shows then.
"""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from backfill_assets.engines.server import server_status, stop_server
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import delivery, make_lake, snapshot
from backfill_assets_tests.processes import PIPES, start

FIRST, LAST = "2024-03-01", "2024-03-03"
IGNORED = re.compile(r"Exception ignored in: .*?^KeyboardInterrupt:? *$", re.DOTALL | re.MULTILINE)
MOMENTS = 6
MOST_SECONDS = 15.0  # ten are ours; a machine that runs other things needs some for the rest
PATIENCE_SECONDS = 300.0


@pytest.fixture
def spark_server(tmp_path: Path) -> Iterator[Lake]:
    """A lake of three days with its server, which is stopped at the end."""
    rows = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}") for n in (1, 2, 3)]
    lake = make_lake(tmp_path / "lake", rows, FIRST, spark={"engine": "embedded", "memory": "1g"})
    yield lake
    stop_server(lake.root, force=True)


def started(lake: Lake) -> "subprocess.Popen[str]":
    """A forced backfill of all days of two tables."""
    command = [
        "-m",
        "backfill_assets",
        "--lake",
        str(lake.root),
        "backfill",
        "--from",
        FIRST,
        "--to",
        LAST,
    ]
    more = ["--tables", "raw,staging", "--force"]
    return start(
        *command,
        *more,
        env={"DAGSTER_HOME": str(lake.root.parent)},
        start_new_session=True,
        **PIPES,
    )


@pytest.mark.slow
def test_an_interrupted_backfill_ends_within_seconds_at_any_moment(spark_server: Lake) -> None:
    make_home(spark_server.root.parent)
    for _ in range(2):  # the second run tells how long one takes on a warm server
        began = time.monotonic()
        assert started(spark_server).communicate(timeout=PATIENCE_SECONDS)
        whole = time.monotonic() - began
    before = snapshot(spark_server)
    for number in range(MOMENTS):
        moment, kind = random.uniform(1, whole), (signal.SIGTERM, signal.SIGINT)[number % 2]
        with started(spark_server) as run:
            with suppress(subprocess.TimeoutExpired):
                run.wait(moment)
            with suppress(ProcessLookupError):
                os.killpg(run.pid, kind) if kind is signal.SIGINT else run.send_signal(kind)
            sent = time.monotonic()
            _, told = run.communicate(timeout=PATIENCE_SECONDS)
        about = f"{kind.name} after {moment:.2f} of {whole:.2f} s: {run.returncode}, {told}"
        assert time.monotonic() - sent < MOST_SECONDS, about
        assert run.returncode in (0, 128 + kind, -kind), about
        # Python itself reports what arrives inside a weak reference's callback, once in hundreds of
        # interrupts.
        assert "Traceback" not in IGNORED.sub("", told), about
        status = server_status(spark_server.root)
        assert status is not None, about
        assert not status.in_use, about
    last = started(spark_server)
    assert last.communicate(timeout=PATIENCE_SECONDS)
    assert last.returncode == 0
    assert snapshot(spark_server) == before
