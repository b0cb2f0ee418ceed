"""A REST catalog of Iceberg's on this machine, with the answers that loading a table takes.

Lives here: a server that gives the tables of another catalog to whoever shows its token. Does not
live here: any write, and what real catalogs do beyond the published interface.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

SECRET = "secret-that-nobody-may-see"  # that this server gives its token for
TOKEN = "token-that-nobody-may-see"  # of this server alone


class _Answering(BaseHTTPRequestHandler):
    """Answers with JSON."""

    def refuse(self, code: int, kind: str, message: str) -> None:
        """Answer with an error, as a REST catalog tells it."""
        self.answer(code, {"error": {"message": message, "type": kind, "code": code}})

    def answer(self, code: int, document: object) -> None:
        """Answer with a document."""
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pytest shows what a test says."""

    def do_POST(self) -> None:
        """The token, for who shows the secret."""
        shown = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if parse_qs(shown)["client_secret"] == [SECRET]:
            self.answer(200, {"access_token": TOKEN, "token_type": "bearer", "expires_in": 60})
        else:
            self.answer(401, {"error": "invalid_client", "error_description": "not known"})


def _handler_of(behind: Catalog) -> type[BaseHTTPRequestHandler]:
    class Handler(_Answering):
        def do_GET(self) -> None:
            """The configuration, or a table by its namespace and name."""
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self.refuse(401, "NotAuthorizedException", "the token is not known here")
            elif self.path.startswith("/v1/config"):
                self.answer(200, {"defaults": {}, "overrides": {}})
            else:
                self._answer_table(unquote(self.path))

        def _answer_table(self, path: str) -> None:
            _, namespace, _, table = path.removeprefix("/v1/").split("/")
            try:
                found = behind.load_table((namespace, table))
            except NoSuchTableError as error:
                self.refuse(404, "NoSuchTableException", str(error))
                return
            metadata = json.loads(found.metadata.model_dump_json())
            self.answer(200, {"metadata-location": found.metadata_location, "metadata": metadata})

    return Handler


@contextmanager
def rest_catalog(behind: Catalog) -> Iterator[str]:
    """The address of a server of the tables of a catalog, while it runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(behind))
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
