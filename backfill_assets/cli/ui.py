"""`backfill-assets ui`: Dagster's pages for this user alone, also on a machine that others use, too.

Lives here: the command, and the guard before Dagster's web server, which itself knows no users. Does not live here:
starting Dagster's processes (`orchestration.dagster_private_ui`). The loopback is everybody's on a machine: what keeps
others out is a secret in the address, new at every start and in no file, cookie, environment or list of processes.
"""

import hmac
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import lake_option
from backfill_assets.core.errors import BackfillError

HOME = "DAGSTER_HOME"
LOOPBACK = "127.0.0.1"
OWN_NAMES = (LOOPBACK, "localhost")  # a name of another's own that leads here is one of a hostile page
LONGEST_FOLDER_BYTES = 80  # of the working files: a socket's path may have 107
REFUSED = b"Open the address that `backfill-assets ui` printed: it holds a secret that this one lacks.\n"
App = Callable[[Any, Any, Any], Awaitable[None]]


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=3000, show_default=True, help="0: any that is free.")
@lake_option
def ui(port: int) -> None:
    """Show the lake in Dagster's pages, as `dagster dev` does, to this user only.

    The address holds a secret; without it nobody gets an answer, though every user of the machine can connect. From
    another machine: ssh -L 3000:127.0.0.1:3000 HOST, then open the same address there. Links in alerts lack the secret.
    Temporary files, sockets among them, lie in Dagster's home, closed to others. Ctrl-C ends it.
    """
    from backfill_assets.cli.common import opened
    from backfill_assets.cli.dagster_home import UI_MODULE, instance_of, ui_place
    from backfill_assets.lake.home import DAGSTER_FOLDER
    from backfill_assets.orchestration.dagster_private_ui import serve

    lake, _ = opened()
    with instance_of(lake):
        pass  # its folder is there then, and closed to others
    folder, variables, is_project = ui_place(lake)
    own = own_folder(Path(variables.get(HOME) or os.environ.get(HOME) or folder / DAGSTER_FOLDER))
    prefix = f"/{secrets.token_urlsafe(32)}"

    def guarded(app: App) -> App:
        click.echo(f"Dagster is at http://{LOOPBACK}:{bound.getsockname()[1]}{prefix}")
        return guard(app, prefix)

    names_definitions = is_project and any((folder / name).exists() for name in ("pyproject.toml", "workspace.yaml"))
    with _listening(port) as bound:
        os.environ.update(variables, TMPDIR=str(own))
        tempfile.tempdir = None  # else Python goes on with the folder that it knows
        os.chdir(folder)
        serve(None if names_definitions else UI_MODULE, prefix, guarded, bound)


def own_folder(home: Path) -> Path:
    """The folder for temporary files, sockets among them, closed to others. It stays: a server of the lake outlives us.

    In a folder of all users, another one can put a socket or a file where a process of ours will look for its own.
    """
    own = home / "tmp"
    if len(os.fsencode(own)) > LONGEST_FOLDER_BYTES:
        return Path(tempfile.mkdtemp(prefix="backfill-assets-"))
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    own.chmod(0o700)
    return own


def _listening(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen()  # at once: until somebody listens, another user may still take the port
    except OSError as error:
        bound.close()
        raise BackfillError(
            f"the port {port}", f"it cannot be had: {error.strerror}", "Nothing was started",
            "Choose another one with --port, or 0 for any that is free",
        ) from None  # fmt: skip
    return bound


def guard(app: App, prefix: str) -> App:
    """`app` (ASGI) for whoever knows `prefix`, by a name of this machine's own, and for pages of the same origin."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or _may_pass(scope, prefix):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            plain = [(b"content-type", b"text/plain"), (b"content-length", str(len(REFUSED)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": plain})
            await send({"type": "http.response.body", "body": REFUSED})

    return guarded


def _may_pass(scope: Any, prefix: str) -> bool:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host, origin = headers.get(b"host", ""), headers.get(b"origin")
    knows = hmac.compare_digest("/".join(scope["path"].split("/")[:2]).encode(), prefix.encode())
    return knows and host.partition(":")[0] in OWN_NAMES and origin in (None, f"http://{host}")
