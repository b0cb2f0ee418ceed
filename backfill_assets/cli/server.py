"""`backfill-assets server` and `ui`: the server of the lake's engine, and Dagster's pages for this
user alone.

The pages are on the loopback, to which every user can connect: a secret in the address keeps others
out, new at every start and in no file, cookie, environment or list of processes. Not here: the
engine's server (`engines.server`), which commands start by themselves, Dagster's home of a lake
(`dagster_home`), its settings for servers (`production`) and workspace
(`dagster.adapter.dagster_private`).
"""

import contextlib
import hmac
import os
import secrets
import signal
import socket
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import click

from backfill_assets.cli.common import (
    json_and_lake,
    lake_option,
    lake_root,
    named_lake,
    opened_lake,
)
from backfill_assets.cli.dagster_names import DEFINITIONS_MODULE, HOME_VARIABLE, LOOPBACK
from backfill_assets.cli.output import write_answer
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import ensure_server, server_status, stop_server
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.interrupts import hold_interrupts
from backfill_assets.kernel.core.ownership import remove_rights
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER
from backfill_assets.kernel.tables.home import Lake

if TYPE_CHECKING:
    import dagster as dg


class ServerAnswer(TypedDict):
    """Whether the lake's server runs, and how."""

    running: bool
    pid: NotRequired[int]
    version: NotRequired[str]  # what it runs
    uptime_seconds: NotRequired[float]
    rss_bytes: NotRequired[int]
    in_use: NotRequired[bool]


class StopAnswer(TypedDict):
    """Whether a server was stopped."""

    stopped: bool


@click.group()
def server() -> None:
    """The server of the lake's engine. It starts by itself at the first use, and ends when idle."""


@server.command(short_help="Start it now.")
@json_and_lake
def start() -> None:
    """Start it now, so that the next command need not wait."""
    lake = _lake_with_server()
    ensure_server(lake.root, LakeSession(lake).engine)
    _answer_status(lake.root)


@server.command(short_help="Stop it; the next use starts one.")
@click.option("--force", is_flag=True, help="Even while others use it: their queries fail.")
@json_and_lake
def stop(force: bool) -> None:
    """Stop it; the next use starts a fresh one."""
    stopped = stop_server(lake_root(), force=force)
    if not stopped:
        # Refused where there can be none; one that runs is stopped whatever lake.toml says by now.
        _lake_with_server()
    write_answer({"stopped": stopped}, ["stopped" if stopped else "it was not running"])


@server.command(short_help="Whether it runs, since when.")
@json_and_lake
def status() -> None:
    """Whether it runs, since when, and how much memory it takes. Starts nothing."""
    if server_status(lake_root()) is None:
        _lake_with_server()
    _answer_status(lake_root())


def _lake_with_server() -> Lake:
    """Open the chosen lake; raises click's error where its engine is no server of its own."""
    lake = named_lake()
    if not LakeSession(lake).engine.has_server:
        raise click.UsageError(
            f"[spark] engine is {scrub_secrets(lake.settings.spark.engine)!r}, no server of the "
            "lake's own."
        )
    return lake


def _answer_status(lake: Path) -> None:
    if (running := server_status(lake)) is None:
        write_answer({"running": False}, ["not running; it starts at the first use"])
    else:
        write_answer({"running": True, **vars(running)}, [f"{running}, {running.version}"])


OWN_NAMES = (
    LOOPBACK,
    "localhost",
)  # a name of another's own that leads here is one of a hostile page
LONGEST_FOLDER_BYTES = 80  # of the working files: a socket's path may have 107
REFUSAL_TEXT = (
    b"Open the address that `backfill-assets ui` printed: it holds a secret that this one lacks.\n"
)
DAEMON_END_SECONDS = 60.0  # as `dg dev` waits for its daemon
CLOSING_SECONDS = 3  # how long the end waits for pages that hold a connection
POLL_MILLISECONDS = 2000  # of the pages, as under `dg dev`
App = Callable[[Any, Any, Any], Awaitable[None]]


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="any that is free")
@lake_option
def ui(port: int) -> None:
    """Show the lake in Dagster's pages, as `dg dev` does, to this user only.

    The address holds a secret; without it nobody gets an answer, though every user of the machine
    can connect. From another machine: ssh -L PORT:127.0.0.1:PORT HOST, then open the same address
    there. Links in alerts lack the secret. Open the address by hand: the arguments of a command
    such as `xdg-open ADDRESS` can be read by every user. A port of your own choice (--port) may be
    another user's page after this command ended: close the tab first. Temporary files, sockets
    among them, lie in Dagster's home, closed to others. Ctrl-C ends it.
    """
    from backfill_assets.cli.dagster_home import instance_of, ui_place

    lake, _ = opened_lake()
    with instance_of(lake):
        pass  # its folder is there then, and closed to others
    folder, variables, is_project = ui_place(lake)
    home = variables.get(HOME_VARIABLE) or os.environ.get(HOME_VARIABLE)
    own = private_folder(Path(home or folder / DAGSTER_FOLDER))
    prefix = f"/{secrets.token_urlsafe(32)}"

    def guarded(app: App) -> App:
        click.echo(f"Dagster is at http://{LOOPBACK}:{bound.getsockname()[1]}{prefix}")
        return guard_pages(app, prefix)

    names_definitions = is_project and any(
        (folder / name).exists() for name in ("pyproject.toml", "workspace.yaml")
    )
    # A folder of the lake holds no modules: Python imports none from the working folder, an empty
    # one.
    if not is_project:
        variables["PYTHONSAFEPATH"] = "1"
    with (
        _listening_socket(port) as bound,
        tempfile.TemporaryDirectory(prefix="empty-", dir=own) as empty,
    ):
        os.environ.update(
            {HOME_VARIABLE: str(folder), **os.environ, **variables, "TMPDIR": str(own)}
        )
        tempfile.tempdir = None  # else Python goes on with the folder that it knows
        with contextlib.chdir(folder if is_project else empty), instance_of(lake) as instance:
            _serve_pages(
                instance, None if names_definitions else DEFINITIONS_MODULE, prefix, guarded, bound
            )


def _serve_pages(
    instance: "dg.DagsterInstance",
    module: str | None,
    prefix: str,
    guarded: Callable[[App], App],
    bound: socket.socket,
) -> None:
    """Serve the pages below `prefix` on a bound socket until INT or TERM, with the daemon as a
    process of its own.

    `module` holds the definitions; None: as the files in the working folder say. Raises
    BackfillError where the daemon ends first.
    """
    import uvicorn
    from dagster_webserver.app import create_app_from_workspace_process_context

    from backfill_assets.dagster.adapter.dagster_private import served_workspace

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["DAGSTER_IS_DEV_CLI"] = "1"
    with _running_daemon(module) as daemon, served_workspace(instance, module) as context:
        app = guarded(create_app_from_workspace_process_context(context, prefix, POLL_MILLISECONDS))
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=CLOSING_SECONDS)
        )

        def end_with_daemon() -> None:
            daemon.wait()
            server.should_exit = True

        threading.Thread(target=end_with_daemon, daemon=True).start()
        try:
            server.run(sockets=[bound])
        except KeyboardInterrupt:  # how a person ends it
            return
        raise BackfillError(
            "Dagster's daemon",
            f"it ended with code {daemon.wait()}",
            "The pages are closed, too",
            "Its last lines say why; then start the command again",
        )


@contextlib.contextmanager
def _running_daemon(module: str | None) -> "Iterator[subprocess.Popen[bytes]]":
    """Run `dagster-daemon run` until the block ends; kill it where it does not end in time."""
    from backfill_assets.cli.dagster_names import KEEPS_BACKFILLS

    definitions = ("-m", module) if module else ()
    environ = {KEEPS_BACKFILLS: "1", **os.environ}
    command = (str(Path(sysconfig.get_path("scripts"), "dagster-daemon")), "run", *definitions)
    with contextlib.ExitStack() as at_the_end:
        with hold_interrupts():  # one that comes meanwhile would lose the program
            program = subprocess.Popen(command, env=environ)
            at_the_end.callback(_end_program, program)
        yield program


def _end_program(program: "subprocess.Popen[bytes]") -> None:
    program.terminate()
    try:
        program.wait(DAEMON_END_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def private_folder(home: Path) -> Path:
    """Make the folder for temporary files and sockets, closed to others, who could put their own
    into a folder of all users; elsewhere where a link or another user's folder stands there. It
    stays, since a server of the lake outlives this process."""
    own = home / "tmp"
    with contextlib.suppress(OSError):
        if len(os.fsencode(own)) <= LONGEST_FOLDER_BYTES:
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_rights(own, 0o077)
            if own.lstat().st_uid == os.geteuid():
                return own
    return Path(tempfile.mkdtemp(prefix="backfill-assets-"))


def _listening_socket(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback (0: any that is free). Raises
    BackfillError where it cannot be had."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen()  # at once: until somebody listens, another user may still take the port
    except OSError as error:
        bound.close()
        raise BackfillError(
            f"the port {port}",
            f"it cannot be had: {error.strerror}",
            "Nothing was started",
            "Choose another one with --port, or 0 for any that is free",
        ) from None
    return bound


def guard_pages(app: App, prefix: str) -> App:
    """Return `app` (ASGI) for requests that know `prefix`, by a name of this machine, from pages of
    the same origin."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or _may_pass(scope, prefix):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            plain = [
                (b"content-type", b"text/plain"),
                (b"content-length", str(len(REFUSAL_TEXT)).encode()),
            ]
            await send({"type": "http.response.start", "status": 403, "headers": plain})
            await send({"type": "http.response.body", "body": REFUSAL_TEXT})

    return guarded


def _may_pass(scope: Any, prefix: str) -> bool:
    """Whether a request knows the secret `prefix`, names this machine, and comes from a page of
    the same origin, or from none, as a typed address does."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host, origin = headers.get(b"host", ""), headers.get(b"origin")
    first_segment = "/".join(scope["path"].split("/")[:2])  # `/secret` of `/secret/runs`
    knows_secret = hmac.compare_digest(first_segment.encode(), prefix.encode())
    is_own_name = host.partition(":")[0] in OWN_NAMES
    is_same_origin = origin in (None, f"http://{host}")
    return knows_secret and is_own_name and is_same_origin
