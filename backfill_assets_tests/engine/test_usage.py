"""Processor seconds of this process and of the lake's server, and waits for it; of engines elsewhere nothing is said.

Tested here: `engine.usage` on this process and a child. Not tested here: whose work it was (no counter can tell),
and the wait for a session (`test_session.py`).
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.processes import Process
from backfill_assets.engine.server_state import Record, ServerFolder
from backfill_assets.engine.usage import CpuMeter

BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"


def work(seconds: float) -> None:
    """Use the processor for so long."""
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("engine", ["embedded", "local[2]"])
def test_what_this_process_and_its_engine_use_is_counted(tmp_path: Path, engine: str) -> None:
    meter = CpuMeter(tmp_path, EngineSettings(engine=engine))
    child = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        server = Process.of(child.pid)
        assert server
        folder = ServerFolder.of(tmp_path)
        folder.make()
        folder.write_record(Record(server, server, 1, "token", {}))
        work(0.2)
        spent = meter.spent()
        assert spent is not None
        assert spent >= 0.4
        assert CpuMeter(tmp_path, EngineSettings(engine=engine)).spent() == pytest.approx(0, abs=0.2)
    finally:
        child.communicate(b"\n")


def test_of_an_engine_elsewhere_nothing_is_said(tmp_path: Path) -> None:
    assert CpuMeter(tmp_path, EngineSettings(engine="sc://host:15002")).spent() is None
