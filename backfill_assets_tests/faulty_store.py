"""A way to an object store on which answers are lost, come as errors after the request was done or
instead of it, and on which listings are old.

Lives here: a proxy, which is a process of its own: calls of delta-rs hold the lock of their Python.
Does not live here: any assertion. A share of the requests meets a fault that chance draws. Listings
of Azure's language begin where they are asked to, which Azurite does not do by itself. It gives
credentials, too, as the agent of a role does, and takes none but the last once it was told to;
and it holds one request for as long as a test wants to be amid it.
"""

import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import unescape

import requests

from backfill_assets_tests.processes import PIPES, start

LOST, DONE_500, BUSY_503, BUSY_409, OLD_LIST = (
    "lost answer",
    "500 after success",
    "503",
    "409",
    "old listing",
)
SLOW, SLOW_SECONDS = "slow answer", (2.0, 20.0)
CODES = {
    DONE_500: (500, "InternalError"),
    BUSY_503: (503, "SlowDown"),
    BUSY_409: (409, "ConditionalRequestConflict"),
}
ENDED = 400, "ExpiredToken"
BLOB = re.compile(rb"<Blob>.*?</Blob>", re.DOTALL)
BLOB_NAME = re.compile(rb"<Name>(.*?)</Name>")
BY_CONNECTION = ("content-length", "transfer-encoding", "connection")
SHARE, MOST_IN_A_ROW, MET = 1 / 4, 2, "/met"  # the client tries seven times
ROLE, ENDS_AFTER = "/role", "/ends-after/"
HOLD, HELD, RELEASE = "/hold/", "/held", "/release"
PASSED = "/passed"
TOLD = (MET, ROLE, ENDS_AFTER, HOLD, HELD, RELEASE, PASSED)
HELD_SECONDS = 120.0
KEY_NUMBER = re.compile(r"Credential=KEY(\d+)/")


class Faults:
    """Draws a fault for a share of the requests: 409 only for writes, an old listing only for
    listings."""

    def __init__(self, seed: int, share: float, is_slow: bool) -> None:
        self.share, self.is_slow = share, is_slow
        self.chance, self.met, self.in_a_row = (
            random.Random(seed),
            Counter[str](),
            Counter[tuple[str, str]](),
        )

    def __call__(self, method: str, path: str) -> str:
        known = (
            [LOST, BUSY_503, DONE_500]
            + [BUSY_409] * (method == "PUT")
            + [OLD_LIST] * ("list-type" in path)
        )
        known += [SLOW] * self.is_slow
        in_a_row = self.in_a_row[method, path]
        fault = (
            self.chance.choice(known)
            if self.chance.random() < self.share and in_a_row < MOST_IN_A_ROW
            else ""
        )
        self.in_a_row[method, path] = in_a_row + 1 if fault else 0
        self.met[fault] += 1
        return fault


class Role:
    """The credentials of a role, KEY0 and so on, each said to last for ever; one ends after the
    request of which it was told."""

    def __init__(self) -> None:
        self.number, self.requests_left = 0, 0

    def ends_after(self, count: int) -> None:
        """The credentials of now end once so many requests were answered (0: never)."""
        self.requests_left = count + 1 if count else 0

    def credentials(self) -> bytes:
        """Those of now, as an agent answers."""
        return json.dumps(
            {
                "AccessKeyId": f"KEY{self.number}",
                "SecretAccessKey": "secret",
                "Token": f"token {self.number}",
                "Expiration": "2099-01-01T00:00:00Z",
            }
        ).encode()

    def has_ended(self, authorization: str) -> bool:
        """Whether a request is signed with credentials that ended, perhaps right before it."""
        found = KEY_NUMBER.search(authorization)
        if found is None:
            return False
        if self.requests_left:
            self.requests_left -= 1
            self.number += self.requests_left == 0
        return int(found[1]) != self.number


class Holds:
    """Holds the first request whose method, path and client match a pattern."""

    def __init__(self) -> None:
        self.pattern, self.is_met, self.released = "", False, threading.Event()

    def hold(self, pattern: str) -> None:
        """Hold the next request that matches."""
        self.released.clear()
        self.pattern, self.is_met = pattern, False

    def __call__(self, request: str) -> None:
        """Wait if this is the request."""
        if self.pattern and re.search(self.pattern, request):
            self.pattern, self.is_met = "", True
            self.released.wait(HELD_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: str
    faults: Faults
    role: Role
    holds: Holds
    listings: dict[str, tuple[int, list[tuple[str, str]], bytes]]
    passed: list[tuple[str, str, str, int]]

    def log_message(self, *_: object) -> None:
        pass

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith(TOLD):
            self._tell()
            return
        self.holds(f"{self.command} {self.path} {self.headers.get('User-Agent', '')}")
        if self.role.has_ended(self.headers.get("Authorization", "")):
            self._refuse(*ENDED)
            return
        fault = self.faults(self.command, self.path)
        if fault in (BUSY_503, BUSY_409):
            self._refuse(*CODES[fault])
            return
        answer = self.listings.get(self.path) if fault == OLD_LIST else None
        answer = answer or self._asked(body)
        asked = self.headers.get("Range", "")
        self.passed.append((self.command, self.path, asked, len(body) + len(answer[2])))
        if fault == SLOW:
            time.sleep(self.faults.chance.uniform(*SLOW_SECONDS))
        if fault == LOST:
            self.close_connection = True
            return
        if fault == DONE_500:
            self._refuse(*CODES[fault])
            return
        if "list-type" in self.path:
            self.listings.setdefault(self.path, answer)
        self._answer(*answer)

    def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        store = http.client.HTTPConnection(self.upstream, timeout=60)
        try:
            store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                store.putheader(name, value)
            store.endheaders(body or None)
            answer = store.getresponse()
            headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in BY_CONNECTION]
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            content = answer.read()
            if first := parse_qs(urlsplit(self.path).query).get("startFrom"):
                content = BLOB.sub(
                    lambda blob: blob[0] if _name(blob[0]) >= first[0] else b"", content
                )
            return (
                answer.status,
                [*headers, ("Content-Length", length or str(len(content)))],
                content,
            )
        finally:
            store.close()

    def _tell(self) -> None:
        """Answer a request of a test, or of a client that asks for its role's credentials."""
        if self.path.startswith(ENDS_AFTER):
            self.role.ends_after(int(self.path.removeprefix(ENDS_AFTER)))
        if self.path.startswith(HOLD):
            self.holds.hold(unquote(self.path.removeprefix(HOLD)))
        if self.path == RELEASE:
            self.holds.released.set()
        answers = {ROLE: self.role.credentials(), HELD: json.dumps(self.holds.is_met).encode()}
        if self.path == PASSED:
            answers[PASSED] = json.dumps(self.passed).encode()
            self.passed.clear()
        told = answers.get(self.path, json.dumps(self.faults.met).encode())
        self._answer(200, [("Content-Length", str(len(told)))], told)

    def _refuse(self, status: int, code: str) -> None:
        body = b"" if self.command == "HEAD" else f"<Error><Code>{code}</Code></Error>".encode()
        self._answer(status, [("Content-Length", str(len(body)))], body)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward  # names of the standard library's


def _name(blob: bytes) -> str:
    found = BLOB_NAME.search(blob)
    assert found is not None
    return unescape(found[1].decode())


@contextmanager
def faulty(
    endpoint: str, seed: int = 7, share: float = SHARE, *, is_slow: bool = False
) -> Iterator[str]:
    """The address of a proxy to a store on which a request may meet a fault."""
    words = (
        "-m",
        "backfill_assets_tests.faulty_store",
        endpoint,
        str(seed),
        str(share),
        "slow" * is_slow,
    )
    with start(*words, fresh=True, **(PIPES | {"stderr": subprocess.DEVNULL})) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def end_role(address: str, count: int) -> None:
    """Let the credentials of now end once a proxy answered so many more requests; 0: never."""
    requests.get(f"{address}{ENDS_AFTER}{count}", timeout=60).raise_for_status()


def hold_request(address: str, pattern: str) -> None:
    """Let a proxy hold the next request whose method, path and client match."""
    requests.get(f"{address}{HOLD}{quote(pattern, safe='')}", timeout=60).raise_for_status()


def is_request_held(address: str) -> bool:
    """Whether a proxy has met the request that it was to hold."""
    return bool(requests.get(address + HELD, timeout=60).json())


def release_request(address: str) -> None:
    """Let the request go on."""
    requests.get(address + RELEASE, timeout=60).raise_for_status()


def bytes_passed(address: str) -> "list[tuple[str, str, str, int]]":
    """The requests that a proxy passed on since it was asked last: method, path, the range that was
    asked for ("": all), and the bytes of body and answer."""
    return [*map(tuple, requests.get(address + PASSED, timeout=60).json())]


def faults_met(address: str) -> "Counter[str]":
    """How often a proxy drew each fault."""
    return Counter(requests.get(address + MET, timeout=60).json())


def main(endpoint: str, seed: str, share: str, slow: str) -> None:
    """Serve until killed; prints the port."""
    known: dict[str, object] = {
        "upstream": urlsplit(endpoint).netloc,
        "faults": Faults(int(seed), float(share), bool(slow)),
        "role": Role(),
        "holds": Holds(),
        "listings": {},
        "passed": [],
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), known))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
