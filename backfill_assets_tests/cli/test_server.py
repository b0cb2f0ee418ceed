"""`server` and `ui`: other users' lakes, forged records, the guard before Dagster's web server, its
processes. No JVM. Not here: the pages in a browser (`browser.test_private`)."""

import asyncio
import json
import signal
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from backfill_assets.cli.server import guard_pages, private_folder
from backfill_assets.engines.processes import processes_in
from backfill_assets.engines.server import SERVER_PROGRAMS
from backfill_assets.engines.supervisor import RECORD_FILE, Record, ServerFolder
from backfill_assets.kernel.place.processes import Process
from backfill_assets_tests.browser.site import Served, served
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.processes import start, until
from backfill_assets_tests.readable_lake import readable_lake
from backfill_assets_tests.strangers import give_away
from backfill_assets_tests.synthetic import synthetic_lake

# What stands for a server has one of its words in the command line.
A_SERVER = ("-c", "import time; time.sleep(30)", "backfill_assets.engines.sail")

PATIENCE_SECONDS = 20.0


def test_the_server_of_another_engine_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_lake(tmp_path, 1)
    assert read(run("server", "status", "--json", "--lake", tmp_path)) == {"running": False}
    assert "not running" in run("server", "stop", "--lake", tmp_path).stdout
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", "sc://host")
    assert run("server", "start", "--lake", tmp_path).exit_code == 2


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("settings", ["nonsense = ", '[spark]\nengine = "sc://host"'])
def test_one_that_runs_is_found_and_stopped_whatever_the_settings_say_by_now(
    tmp_path: Path, settings: str
) -> None:
    (tmp_path / "lake.toml").write_text(settings)
    folder = ServerFolder.of(tmp_path)
    folder.make()
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        start(*A_SERVER, cwd=folder.folder, fresh=True) as running,
    ):
        process = Process.of(running.pid)
        assert process is not None
        folder.write_record(Record(process, process, door.getsockname()[1], "", {"spark": "4.2"}))
        # The kernel shows the words of a program a moment after `Popen` returns.
        until(
            lambda: bool(processes_in(folder.folder, SERVER_PROGRAMS)),
            tmp_path / "lake.toml",
            PATIENCE_SECONDS,
        )
        assert f"process {running.pid}" in run("server", "status", "--lake", tmp_path).stdout
        stopped = run("server", "stop", "--lake", tmp_path)
        assert (stopped.stdout, stopped.stderr) == ("stopped\n", "")
        assert running.wait(10)
    assert run("server", "stop", "--lake", tmp_path).exit_code == 2


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "forged", ["of another user", "of a process that is no server", "of another lake"]
)
def test_a_record_that_names_a_process_of_this_user_ends_it_only_if_it_is_a_server_of_this_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    synthetic_lake(tmp_path, 1)
    folder = ServerFolder.of(tmp_path)
    folder.make()
    command = A_SERVER[:2] if forged == "of a process that is no server" else A_SERVER
    where = folder.folder if forged == "of a process that is no server" else tmp_path
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        start(*command, cwd=where, fresh=True) as running,
    ):
        process = Process.of(running.pid)
        assert process is not None
        folder.write_record(Record(process, process, door.getsockname()[1], "", {"spark": "4.2"}))
        with monkeypatch.context() as patch:
            if forged == "of another user":
                give_away(folder.folder / RECORD_FILE, patch)
            run("server", "stop", "--force", "--lake", tmp_path)
        assert process.is_alive()
        running.kill()


@pytest.mark.parametrize(
    "words",
    [
        ("server", "stop"),
        ("server", "status"),
        ("server", "start"),
        pytest.param(("init",), marks=pytest.mark.whole_house),
        pytest.param(("demo", "--new"), marks=pytest.mark.whole_house),
        ("sql", "SELECT 1"),
    ],
)
def test_commands_refuse_the_lake_of_another_user_and_change_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    synthetic_lake(tmp_path / "lake", 1)
    if words == ("init",):
        (tmp_path / "lake" / "lake.toml").unlink()
    before = sorted(tmp_path.rglob("*"))
    give_away(tmp_path / "lake", monkeypatch)
    refused = run(*words, "--lake", tmp_path / "lake")
    assert (refused.exit_code, "belongs to" in refused.stderr) == (2, True)
    assert sorted(tmp_path.rglob("*")) == before


SECRET = "/s3cret"

HERE = "127.0.0.1:3000"

PROTOCOL = Subprotocol("graphql-ws")

SUBSCRIPTION = "subscription { locationStateChangeEvents { event { message } } }"


def answered(path: str, kind: str = "http", **headers: str) -> Any:
    """What the guard sends, or "passed" where it lets through."""
    sent: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send("passed")

    async def send(message: Any) -> None:
        sent.append(message)

    said = {"host": HERE, **headers}
    scope = {
        "type": kind,
        "path": path,
        "headers": [(k.encode(), v.encode()) for k, v in said.items()],
    }

    async def ask() -> None:
        await guard_pages(app, SECRET)(scope, None, send)

    asyncio.run(ask())
    return sent[0] if sent[0] == "passed" else sent[0].get("status", sent[0].get("code"))


HOSTS = (HERE, "localhost:4000", "localhost")
OF_OURS = [{"host": host, **more} for host in HOSTS for more in ({}, {"origin": f"http://{host}"})]
OF_OTHERS = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:8000"},
    {"host": "evil.example:3000", "origin": "http://evil.example:3000"},
    {"host": "evil.example"},
    {"host": ""},
]
STRANGE = ("", "/", "/graphql", "/s3cre", "/s3crets", "/x/s3cret", "//s3cret", "/server_info", "/é")


@pytest.mark.parametrize("path", ["/s3cret", "/s3cret/", "/s3cret/graphql", "/s3cret/runs/1"])
def test_who_knows_the_secret_passes_and_pages_of_another_origin_or_by_a_foreign_name_do_not(
    path: str,
) -> None:
    for headers in OF_OURS:
        assert answered(path, **headers) == answered(path, "websocket", **headers) == "passed"
    for headers in OF_OTHERS:
        assert (answered(path, **headers), answered(path, "websocket", **headers)) == (403, 1008)


@pytest.mark.parametrize("path", STRANGE)
def test_who_does_not_gets_no_answer_and_no_hint(path: str) -> None:
    assert (answered(path), answered(path, "websocket")) == (403, 1008)


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_line_and_nothing_is_started(tmp_path: Path) -> None:
    bare_lake(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("ui", "--port", taken.getsockname()[1], "--lake", tmp_path)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "--port" in done.stderr


def test_temporary_files_lie_where_no_other_user_can_put_any(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir(mode=0o777)
    for home in (tmp_path, tmp_path / ("long" * 30)):
        own = private_folder(home)
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        assert len(bytes(own / "tmp12345678")) < 100, "a socket's path"
    own.rmdir()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("ui")
    readable_lake(folder / "lake")
    with served(folder) as running:
        yield running
        ends_well(running, signal.SIGTERM)


def ends_well(running: Served, number: signal.Signals) -> None:
    everyone = [running.process, *running.process.children(recursive=True)]
    running.process.send_signal(number)
    assert running.process.wait(60) == 0
    _, alive = psutil.wait_procs(everyone, 60)
    assert not alive


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own loopback server
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def first_word(url: str) -> str:
    async with connect(url.replace("http:", "ws:") + "/graphql", subprotocols=[PROTOCOL]) as socket:
        await socket.send(json.dumps({"type": "connection_init"}))
        await socket.send(
            json.dumps({"id": "1", "type": "start", "payload": {"query": SUBSCRIPTION}})
        )
        return str(json.loads(await asyncio.wait_for(socket.recv(), 60))["type"])


@pytest.mark.slow
def test_pages_and_subscriptions_are_for_who_knows_the_address(shown: Served) -> None:
    bare, _, secret = shown.url.rpartition("/")
    assert status(f"{shown.url}/server_info") == 200
    assert asyncio.run(first_word(shown.url)) == "connection_ack"
    assert [
        status(bare + path) for path in ("/", "/server_info", "/graphql", f"/{secret[:-1]}/graphql")
    ] == [403] * 4
    with pytest.raises(InvalidStatus, match="403"):
        asyncio.run(first_word(bare))


@pytest.mark.slow
def test_no_other_user_can_see_the_secret_or_reach_another_socket(shown: Served) -> None:
    secret, everyone = (
        shown.url.rpartition("/")[2],
        [shown.process, *shown.process.children(recursive=True)],
    )
    assert not [p for p in everyone if secret in " ".join(p.cmdline()) + str(p.environ())]
    listening = {
        c.laddr
        for p in everyone
        for c in p.net_connections("inet")
        if c.status == psutil.CONN_LISTEN
    }
    assert [f"{a.ip}:{a.port}" for a in listening] == [shown.url.split("/")[2]]
    named = [str(c.laddr) for p in everyone for c in p.net_connections("unix")]
    sockets = {Path(name) for name in named if name.startswith("/")}
    assert sockets
    for path in sockets:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path


@pytest.mark.slow
def test_at_an_interrupt_it_ends_well_with_all_its_processes(
    tmp_path: Path, processes: None
) -> None:
    """Asked to end otherwise: at the end of `shown`."""
    readable_lake(tmp_path / "lake")
    with served(tmp_path) as running:
        ends_well(running, signal.SIGINT)
