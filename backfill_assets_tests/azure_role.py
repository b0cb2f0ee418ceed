"""A store that speaks Azure's language for blobs to whoever has the token of a role, and gives that
token as a machine's metadata service does.

Lives here: one container in memory, of which blobs are written, read and listed. Does not live
here: Azurite, which knows keys only (`stores`), and conditions of writes.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROLE, CONTAINER = "/role", "lake"
MADE = "Fri, 01 Mar 2024 00:00:00 GMT"
DENIED = b"<?xml version='1.0'?><Error><Code>InvalidAuthenticationInfo</Code></Error>"
LISTED = (
    "<Blob><Name>{}</Name><Properties><Last-Modified>{}</Last-Modified><Etag>1</Etag>"
    "<Content-Type>a/b</Content-Type><Content-Length>{}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
)


@dataclass
class AzureRole:
    """The store: its blobs by name, the number of the token that it takes now, and how it answers
    any other."""

    port: int = 0
    token: int = 0
    denies_by: int = 401
    is_closed: bool = False  # whether it takes no token at all
    blobs: dict[str, bytes] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it as a machine with the role."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_MSI_ENDPOINT": f"http://127.0.0.1:{self.port}{ROLE}",
        }

    def takes(self, authorization: str) -> bool:
        """Whether a request signed so is let in."""
        return not self.is_closed and authorization == f"Bearer T{self.token}"

    def token_text(self) -> bytes:
        """The token, said to last for a day, as the metadata service answers."""
        of_day = {"expires_on": str(int(time.time()) + 86_400), "token_type": "Bearer"}
        return json.dumps({"access_token": f"T{self.token}", **of_day}).encode()

    def listing(self) -> bytes:
        """All blobs."""
        blobs = (LISTED.format(n, MADE, len(b)) for n, b in sorted(self.blobs.items()))
        text = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/>"
        return f"{text}</EnumerationResults>".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    role: AzureRole

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path == ROLE:
            self._answer(200, self.role.token_text())
        elif not self.role.takes(self.headers.get("Authorization", "")):
            self._answer(self.role.denies_by, DENIED)
        elif self.command == "PUT":
            self.role.blobs[path.removeprefix(f"/{CONTAINER}/")] = body
            self._answer(201, b"")
        elif path == f"/{CONTAINER}":
            self._answer(200, self.role.listing())
        else:
            self._give(self.role.blobs[path.removeprefix(f"/{CONTAINER}/")])

    def _give(self, blob: bytes) -> None:
        """A blob, or the range of it that is asked for."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if found is None:
            self._answer(200, blob)
            return
        first, last = int(found[1]), int(found[2])
        shown = f"bytes {first}-{last}/{len(blob)}"
        self._answer(206, blob[first : last + 1], ("Content-Range", shown))

    def _answer(self, state: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(state)
        for name, value in (("ETag", "1"), ("Last-Modified", MADE), *headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = _serve  # names of the standard library's


@contextmanager
def azure_role() -> Iterator[AzureRole]:
    """A store with no blob, until the block ends."""
    role = AzureRole()
    handler = type("Handler", (_Handler,), {"role": role})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        role.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield role
        server.shutdown()
