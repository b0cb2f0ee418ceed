"""Dagster's web server, daemon and code server, as `dagster dev` of 1.13 starts them, the first in this process.

Lives here: what Dagster does not call public of that. Does not live here: who may speak to the web server (`cli.ui`),
and the other private names of Dagster (`dagster_private`, `event_storage`).
"""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import uvicorn
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._cli.utils import get_possibly_temporary_instance_for_cli
from dagster._cli.workspace.cli_target import WorkspaceOpts, workspace_opts_to_load_target  # type: ignore[attr-defined]
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._serdes import serialize_value
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster_webserver.app import create_app_from_workspace_process_context

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.interpreter import python_command

END_SECONDS = 60.0  # as `dagster dev` waits for its daemon
OPEN_SECONDS = 3  # how long the end waits for pages that hold a connection
POLL_MILLISECONDS = 2000  # of the pages, as under `dagster dev`


def serve(module: str | None, prefix: str, guarded: Callable[[Any], Any], listening: socket.socket) -> None:
    """Serve the pages below `prefix` on a bound socket until an interrupt, with the daemon beside it. Raises
    BackfillError where the daemon ends before.

    `module`: the definitions; None: as the working folder's files say. `guarded` gets the web server (an ASGI
    application) and returns what stands before it.
    """
    setup_interrupt_handlers()
    os.environ["DAGSTER_IS_DEV_CLI"] = "1"
    asked = WorkspaceOpts(module_name=(module,)) if module else WorkspaceOpts()
    level = "warning"
    with (
        tempfile.TemporaryDirectory() as scratch,
        get_possibly_temporary_instance_for_cli("backfill-assets ui") as instance,
        ProxyServerManager(instance, workspace_opts_to_load_target(asked), level) as servers,
    ):
        file = Path(scratch, "workspace.yaml")
        file.write_text(json.dumps({"load_from": list(servers.get_code_server_specs())}), encoding="utf-8")
        words = ["--instance-ref", serialize_value(instance.get_ref()), "--workspace", str(file)]
        with (
            _beside(python_command("dagster._daemon", "run", *words)) as daemon,
            WorkspaceProcessContext(instance, WorkspaceFileTarget([str(file)]), dg.__version__) as context,
        ):
            app = guarded(create_app_from_workspace_process_context(context, prefix, POLL_MILLISECONDS))
            config = uvicorn.Config(app, log_level=level, timeout_graceful_shutdown=OPEN_SECONDS)
            server = uvicorn.Server(config)
            threading.Thread(target=_end_with, args=(daemon, server), daemon=True).start()
            try:
                server.run(sockets=[listening])
            except KeyboardInterrupt:  # how a person ends it
                return
            raise BackfillError(
                "Dagster's daemon", f"it ended with code {daemon.wait()}", "The pages are closed, too",
                "Its last lines say why; then start the command again",
            )  # fmt: skip


@contextlib.contextmanager
def _beside(command: Sequence[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A program that ends with the block, by force if it takes too long."""
    program = subprocess.Popen(command)
    try:
        yield program
    finally:
        program.terminate()
        try:
            program.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()


def _end_with(daemon: "subprocess.Popen[bytes]", server: uvicorn.Server) -> None:
    daemon.wait()
    server.should_exit = True
