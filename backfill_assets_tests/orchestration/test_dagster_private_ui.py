"""`backfill-assets ui` with Dagster's processes: nobody is answered without the secret, subscriptions work, all ends.

Tested here: `orchestration.dagster_private_ui` under the command. Not tested here: the guard's rules (`cli.test_ui`),
and the pages in a browser (`browser.test_private`).
"""

import asyncio
import json
import signal
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from backfill_assets_tests.browser.site import Served, served
from backfill_assets_tests.operations.readable_lake import readable_lake

PROTOCOL = Subprotocol("graphql-ws")
SUBSCRIPTION = "subscription { locationStateChangeEvents { event { message } } }"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("ui")
    readable_lake(folder / "lake")
    with served(folder) as running:
        yield running


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own loopback server
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def first_word(url: str) -> str:
    async with connect(url.replace("http:", "ws:") + "/graphql", subprotocols=[PROTOCOL]) as socket:
        await socket.send(json.dumps({"type": "connection_init"}))
        await socket.send(json.dumps({"id": "1", "type": "start", "payload": {"query": SUBSCRIPTION}}))
        return str(json.loads(await asyncio.wait_for(socket.recv(), 60))["type"])


@pytest.mark.slow
def test_pages_and_subscriptions_are_for_who_knows_the_address(shown: Served) -> None:
    bare, _, secret = shown.url.rpartition("/")
    assert status(f"{shown.url}/server_info") == 200
    assert asyncio.run(first_word(shown.url)) == "connection_ack"
    assert [status(bare + path) for path in ("/", "/server_info", "/graphql", f"/{secret[:-1]}/graphql")] == [403] * 4
    with pytest.raises(InvalidStatus, match="403"):
        asyncio.run(first_word(bare))


@pytest.mark.slow
def test_no_other_user_can_see_the_secret_or_reach_another_socket(shown: Served) -> None:
    secret, everyone = shown.url.rpartition("/")[2], [shown.process, *shown.process.children(recursive=True)]
    assert not [p for p in everyone if secret in " ".join(p.cmdline()) + str(p.environ())]
    listening = {c.laddr for p in everyone for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    assert [f"{a.ip}:{a.port}" for a in listening] == [shown.url.split("/")[2]]
    named = [str(c.laddr) for p in everyone for c in p.net_connections("unix")]
    sockets = {Path(name) for name in named if name.startswith("/")}
    assert sockets
    for path in sockets:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_well_with_all_its_processes(tmp_path: Path, processes: None, number: signal.Signals) -> None:
    readable_lake(tmp_path / "lake")
    with served(tmp_path) as running:
        everyone = [running.process, *running.process.children(recursive=True)]
        running.process.send_signal(number)
        assert running.process.wait(60) == 0
        _, alive = psutil.wait_procs(everyone, 60)
        assert not alive
