"""Sinks of alerts on loopback that keep what they get: a webhook and a mail server.

Lives here: the sinks. Does not live here: any assertion.
"""

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message as Letter
from typing import Any

from aiosmtpd.controller import Controller

SECRET = "hook-s3cret"


class Hook:
    """A webhook that keeps what is posted and answers with `status`: at `to` the sender finds more, and where it is
    `endless` the answer never ends."""

    def __init__(self, status: int = 200, to: str = "", endless: bool = False) -> None:
        kept: list[dict[str, Any]] = []
        over = self.over = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                if to:
                    self.send_header("Location", to)
                self.flush_headers()
                with contextlib.suppress(OSError):
                    while endless and not over.wait(0.02):
                        self.wfile.write(b"X-More: x\r\n")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.kept = kept
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/{SECRET}"

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextlib.contextmanager
def mail_server() -> Iterator[tuple[str, list[Letter]]]:
    """A mail server's address and the letters it took."""
    kept: list[Letter] = []

    class Handler:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
            kept.append(message_from_bytes(envelope.content))
            return "250 kept"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(Handler(), hostname="127.0.0.1", port=port)
    controller.start()
    yield f"smtp://127.0.0.1:{port}", kept
    controller.stop()
