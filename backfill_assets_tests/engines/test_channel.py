"""The channel to a server: calls end soon after the server's process, deadlines, and which address
it dials. Not here: sessions on the real one (`test_session`)."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from backfill_assets.engines import channel as room
from backfill_assets.engines.channel import ServerChannel
from backfill_assets.engines.loss import is_engine_loss

SERVICE = "/spark.connect.SparkConnectService/"
MOST_SECONDS = 20.0
SILENT_SERVER = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc

class Silence(grpc.GenericRpcHandler):
    def service(self, details):
        def wait(request, context):
            print("asked", flush=True)
            time.sleep(600)
            return b""
        def waits(request, context):
            yield wait(request, context)
        many = details.method.endswith("ExecutePlan")
        return grpc.unary_stream_rpc_method_handler(waits) if many else grpc.unary_unary_rpc_method_handler(wait)

server = grpc.server(ThreadPoolExecutor(4), handlers=(Silence(),))
print(server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials()), flush=True)
server.start()
time.sleep(600)
"""


@contextmanager
def a_silent_server() -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """The port and process of a server that takes every call, says so, and answers none."""
    with subprocess.Popen(
        [sys.executable, "-c", SILENT_SERVER], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def in_the_background(call: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    """The call in a thread, and the error it ends with."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("method", ["AnalyzePlan", "Config", "ExecutePlan"])
def test_a_call_that_waits_ends_with_the_servers_process_and_so_does_the_next(method: str) -> None:
    with a_silent_server() as (port, process):
        channel = ServerChannel(f"sc://127.0.0.1:{port}/;token=x").toChannel()
        kind = channel.unary_stream if method == "ExecutePlan" else channel.unary_unary
        multi = kind(SERVICE + method)

        def call() -> Any:
            return list(multi(b"")) if method == "ExecutePlan" else multi(b"")

        thread, errors = in_the_background(call)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.kill()
        thread.join(MOST_SECONDS)
        assert not thread.is_alive()
        with pytest.raises(grpc.RpcError) as next_error:
            call()
        assert all(e.code() is grpc.StatusCode.UNAVAILABLE for e in (*errors, next_error.value))
        channel.close()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("method", "limit"),
    [("ReleaseSession", "LONGEST_FAREWELL_SECONDS"), ("AnalyzePlan", "LONGEST_CALL_SECONDS")],
)
def test_an_answer_that_does_not_come_is_waited_for_until_a_deadline_and_counts_as_a_lost_engine(
    monkeypatch: pytest.MonkeyPatch, method: str, limit: str
) -> None:
    monkeypatch.setattr(room, limit, 0.3)
    with a_silent_server() as (port, _):
        channel = ServerChannel(f"sc://127.0.0.1:{port}/;token=x").toChannel()
        began = time.monotonic()
        with pytest.raises(grpc.RpcError, match="Deadline") as told:
            channel.unary_unary(SERVICE + method)(b"")
        assert time.monotonic() - began < MOST_SECONDS
        assert is_engine_loss(told.value)
        channel.close()


def test_the_servers_address_is_dialled_by_number_and_who_listens_elsewhere_hears_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        line = ServerChannel(f"sc://127.0.0.1:{bound.getsockname()[1]}/;token=secret")
        channel = line.toChannel()
        thread, _ = in_the_background(
            lambda: channel.unary_unary(SERVICE + "Config")(b"", timeout=MOST_SECONDS)
        )
        bound.settimeout(MOST_SECONDS)
        connection, _ = bound.accept()
        connection.settimeout(MOST_SECONDS)
        assert connection.recv(24).startswith(
            b"PRI * HTTP/2"
        )  # in clear, as the server on the loopback speaks
        connection.close()
        channel.close()
        thread.join(MOST_SECONDS)
