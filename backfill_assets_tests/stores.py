"""Object stores of the tests' own: a server on a free port of this machine, and a new bucket for
each test. Here: starting and stopping moto (everywhere it is installed), versitygw and Azurite
(where they are on PATH), and what a process has to know of them. Not here: any assertion. Fixtures
are taken by importing them."""

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import requests

from backfill_assets.buckets.objects import Objects
from backfill_assets_tests.faulty_store import ROLE, faulty
from backfill_assets_tests.processes import free_port, until

# moto looks whether an object is there, then writes it: of two requests at once both create it.
# Here they queue. Its server for all services looks for that of each request in a folder of 175;
# and each time of a listing is parsed once.
MOTO = """
import functools, json, sys, threading
from urllib.parse import parse_qs
import moto.core.serialize as answers
from moto.server import create_backend_app
from werkzeug.serving import run_simple
answers.parse_to_aware_datetime = functools.cache(answers.parse_to_aware_datetime)
one, inner, seen = threading.Lock(), create_backend_app("s3"), []
def app(environ, start_response):
    with one:
        if environ["PATH_INFO"] == "/seen":
            start_response("200 OK", [])
            told, seen[:] = json.dumps(seen).encode(), []
            return [told]
        query, method = parse_qs(environ["QUERY_STRING"]), environ["REQUEST_METHOD"]
        listed = query.get("prefix", [""])[0] if "list-type" in query else None
        seen.append(f"{method if listed is None else 'LIST'} {environ['PATH_INFO']}{listed or ''}")
        return [b"".join(inner(environ, start_response))]
run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
"""
# Versitygw or azurite: tests of lakes in a bucket run on it.
TESTS_STORE = "BACKFILL_ASSETS_TESTS_STORE"
KEY, SECRET, REGION = "test", "testtest", "us-east-1"


@dataclass(frozen=True)
class StoreServer:
    """A running server that speaks S3."""

    endpoint: str
    buckets: (
        Path | None
    )  # the folder whose folders are the buckets; None: they are made by a request

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def seen(self) -> list[str]:
        """The requests since the last call, as `METHOD /bucket/key`; a listing is LIST. Of moto
        only."""
        told: list[str] = requests.get(f"{self.endpoint}/seen", timeout=60).json()
        return told

    def new_bucket(self, name: str = "") -> str:
        """The address of a new bucket; "": of a name that no other has."""
        name = name or f"b{uuid.uuid4().hex[:12]}"
        if self.buckets is not None:
            (self.buckets / name).mkdir()
        else:
            requests.put(f"{self.endpoint}/{name}", timeout=60).raise_for_status()
        return f"s3://{name}"

    def keep_versions(self, bucket: str) -> None:
        """Let a bucket of moto's, by its address, keep the versions of its objects."""
        state = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        address = f"{self.endpoint}/{bucket.removeprefix('s3://')}?versioning"
        requests.put(address, data=state, timeout=60).raise_for_status()


ACCOUNT = "devstoreaccount1"  # of Azurite's, with the key that everybody knows
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclass(frozen=True)
class AzureServer(StoreServer):
    """A running server that speaks Azure's language for blobs."""

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
            "AZURE_ALLOW_HTTP": "true",
        }

    def new_bucket(self, name: str = "") -> str:
        name = name or f"b{uuid.uuid4().hex[:12]}"
        told = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        text = "PUT" + 12 * "\n" + "".join(f"{header}:{value}\n" for header, value in told.items())
        text += f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256)
        told["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        requests.put(
            f"{self.endpoint}/{name}?restype=container", headers=told, timeout=60
        ).raise_for_status()
        return f"az://{name}"


def _installed(name: str) -> str:
    """The path of a store's program; skips the test where it, or the client, is not installed."""
    pytest.importorskip("obstore", reason="the extra `stores` is not installed")
    if (program := shutil.which(name)) is None:
        pytest.skip(f"{name} is not on PATH")
    return program


@contextmanager
def azurite() -> Iterator[StoreServer]:
    """Azure's own emulator; skips the test where it, or the client, is not installed."""
    program, port = _installed("azurite-blob"), free_port()
    options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence"]
    running = _running([program, "--blobPort", str(port), *options], port)
    with running, faulty(f"http://127.0.0.1:{port}", share=0) as way:
        yield AzureServer(f"{way}/{ACCOUNT}", None)


@contextmanager
def moto() -> Iterator[StoreServer]:
    """A server of moto's; skips the test where it, or the client, is not installed."""
    for module in ("obstore", "moto.server", "flask_cors"):
        pytest.importorskip(module, reason="the extra `stores` and moto[server] are not installed")
    port = free_port()
    with _running([sys.executable, "-c", MOTO, str(port)], port):
        yield StoreServer(f"http://127.0.0.1:{port}", None)


@contextmanager
def versitygw() -> Iterator[StoreServer]:
    """A server that keeps objects as files; skips the test where it, or the client, is not
    installed."""
    program, port = _installed("versitygw"), free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--port", f"127.0.0.1:{port}", "posix", folder]
        with _running(command, port, ROOT_ACCESS_KEY=KEY, ROOT_SECRET_KEY=SECRET):
            yield StoreServer(f"http://127.0.0.1:{port}", Path(folder))


@contextmanager
def _running(command: list[str], port: int, **more: str) -> Iterator[None]:
    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return process.poll() is not None

    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(command, env={**os.environ, **more}, stdout=log, stderr=log)
        try:
            until(answers, Path(log.name), 60)
            assert process.poll() is None, Path(log.name).read_text()
            yield
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="session")
def moto_server(processes: None) -> Iterator[StoreServer]:
    """The server of this process: moto's, unless the environment names another one for a whole
    run."""
    with {"moto": moto, "versitygw": versitygw, "azurite": azurite}[
        os.environ.get(TESTS_STORE, "moto")
    ]() as server:
        yield server


@pytest.fixture
def bucket_address(moto_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a lake to be, in a new bucket that this process and its children reach."""
    for name, value in moto_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"{moto_server.new_bucket()}/lake"


@pytest.fixture
def role_proxy(
    moto_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A proxy to the server, by which this process reaches it as a role; `end_role` ends the role's
    credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    (token := tmp_path / "token").write_text("of the pod")
    with faulty(moto_server.endpoint, share=0) as way:
        environment = {
            "AWS_ENDPOINT_URL": way,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": way + ROLE,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield way


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects that this process fetches or sends whole or in parts."""
    passed = list[str]()
    for name in ("open", "part", "fetch", "send"):
        verb = getattr(Objects, name)

        def noted(objects: Objects, key: str, *rest: Any, verb: Any = verb) -> Any:
            passed.append(key)
            return verb(objects, key, *rest)

        monkeypatch.setattr(Objects, name, noted)
    return passed
