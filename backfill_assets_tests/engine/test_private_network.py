"""A network of one's own: what listens there is reached by nobody outside. Does not test here: what listens."""

from pathlib import Path

import pytest

from backfill_assets.engine import private_network
from backfill_assets_tests.processes import run_python

LISTEN = """
import socket, sys
from backfill_assets.engine import private_network
outside = socket.create_server(("127.0.0.1", 0))
private_network.enter()
inside = socket.create_server(("127.0.0.1", 0))
socket.create_connection(inside.getsockname()).close()
try:
    socket.create_connection(outside.getsockname(), timeout=2)
    print("the machine's network is still there")
except OSError:
    print("apart")
"""


@pytest.mark.usefixtures("processes")
def test_a_process_in_its_own_network_has_a_loopback_and_sees_no_other() -> None:
    if why := private_network.why_not():
        pytest.skip(why)
    assert run_python(LISTEN).strip() == "apart"


@pytest.mark.usefixtures("processes")
def test_a_machine_that_refuses_says_why(tmp_path: Path) -> None:
    refused = tmp_path / "refused.py"
    refused.write_text("raise PermissionError(1, 'Operation not permitted')")
    assert private_network.why_not(str(refused)) == "PermissionError: [Errno 1] Operation not permitted"
