"""A sink of alerts on loopback that keeps what it gets: a webhook.
Here: the sink. Not here: any assertion."""

import contextlib
import http.server
import json
import threading
from typing import Any

SECRET = "hook-s3cret"


class Hook:
    """A webhook that keeps what is posted and answers with `status`: at `to` the sender finds more,
    and where there is a `piece` the answer goes on with it for ever."""

    def __init__(self, status: int = 200, to: str = "", piece: bytes = b"") -> None:
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
                    while piece and not over.wait(0.02):
                        self.wfile.write(piece)
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
