"""The line to the server: what waits on it ends with the server's process, and which address it dials.

Tested here: a server that never answers, and a process that stands for it and dies. Not tested here: sessions on the
real one (`test_session`).
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from backfill_assets.core.errors import EngineLost
from backfill_assets.engine import channel as room
from backfill_assets.engine.channel import Line
from backfill_assets.engine.processes import Process
from backfill_assets_tests.processes import run_python

SERVICE = "/spark.connect.SparkConnectService/"
MOST_SECONDS = 5.0


class Silence(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC ships no types
    """Takes every call and answers none until `over`."""

    def __init__(self) -> None:
        self.asked, self.over = threading.Semaphore(0), threading.Event()

    def service(self, details: Any) -> Any:
        def wait(request: bytes, context: Any) -> bytes:
            self.asked.release()
            self.over.wait(60)
            return b""

        def waits(request: bytes, context: Any) -> Iterator[bytes]:
            yield wait(request, context)

        many = details.method.endswith("ExecutePlan")
        return grpc.unary_stream_rpc_method_handler(waits) if many else grpc.unary_unary_rpc_method_handler(wait)


@contextmanager
def a_silent_server() -> Iterator[tuple[int, Silence]]:
    """Its port, and what it was asked."""
    silence, workers = Silence(), ThreadPoolExecutor(4)
    server = grpc.server(workers, handlers=(silence,))
    port = server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
    server.start()
    try:
        yield port, silence
    finally:
        silence.over.set()
        server.stop(None).wait()
        workers.shutdown()


@contextmanager
def a_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for the server's."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            yield process
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
def test_a_call_that_waits_ends_with_the_servers_process_though_the_line_still_stands(method: str) -> None:
    with a_silent_server() as (port, silence), a_process() as process:
        channel = Line(f"sc://127.0.0.1:{port}/;token=x", Process.of(process.pid)).toChannel()
        kind = channel.unary_stream if method == "ExecutePlan" else channel.unary_unary
        call = kind(SERVICE + method)
        thread, errors = in_the_background(lambda: list(call(b"")) if method == "ExecutePlan" else call(b""))
        assert silence.asked.acquire(timeout=MOST_SECONDS)
        process.kill()
        process.wait()
        thread.join(MOST_SECONDS)
        assert [type(e) for e in errors] == [EngineLost]
        assert "its process is gone" in str(errors[0])
        with pytest.raises(EngineLost):
            call(b"")
        channel.close()


def test_a_farewell_that_nobody_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LONGEST_FAREWELL_SECONDS", 0.3)
    with a_silent_server() as (port, _):
        channel = Line(f"sc://127.0.0.1:{port}/;token=x", None).toChannel()
        began = time.monotonic()
        with pytest.raises(grpc.RpcError, match="Deadline"):
            channel.unary_unary(SERVICE + "ReleaseSession")(b"")
        assert time.monotonic() - began < MOST_SECONDS
        channel.close()


def test_after_an_interrupt_no_call_waits_even_if_its_channel_has_lost_its_voice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "LONGEST_CALL_OF_THE_INTERRUPTED_SECONDS", 0.2)
    line = Line("sc://127.0.0.1:9/;token=x", None)

    class Mute:
        """A call of which nothing is ever heard, not even its deadline."""

        def result(self, timeout: float | None = None) -> None:
            assert timeout is not None
            raise grpc.FutureTimeoutError

        def cancel(self) -> bool:
            return True

    class Calls:
        """Calls of a method; the first is interrupted while it begins."""

        begun = 0

        def future(self, request: bytes, timeout: float) -> Mute:
            self.begun += 1
            if self.begun == 1:
                raise KeyboardInterrupt
            assert timeout == 0.2
            return Mute()

    calls = Calls()
    call = room._one_answer(calls, line.watch, 600)
    with pytest.raises(KeyboardInterrupt):
        call(b"")
    for _ in range(2):
        with pytest.raises(EngineLost):
            call(b"")
    assert calls.begun == 2  # the third was not even begun


@pytest.mark.usefixtures("processes")
def test_a_call_made_while_the_interpreter_shuts_down_is_refused_instead_of_waiting_for_ever() -> None:
    code = """
    import os, sys
    from backfill_assets.engine.channel import Line

    def steps(call, tell=os.write):
        try:
            yield
        finally:
            try:
                call(b"")
            except Exception as error:
                tell(1, type(error).__name__.encode())

    suspended = steps(Line(sys.argv[1], None).toChannel().unary_unary("/a/b"))
    next(suspended)
    """
    with a_silent_server() as (port, _):
        assert run_python(code, f"sc://127.0.0.1:{port}/;token=x", timeout=60, fresh=True) == "EngineLost"


def test_the_servers_address_is_dialled_by_number_and_who_listens_elsewhere_hears_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        line = Line(f"sc://127.0.0.1:{bound.getsockname()[1]}/;token=secret", None)
        channel = line.toChannel()
        thread, _ = in_the_background(lambda: channel.unary_unary(SERVICE + "Config")(b"", timeout=MOST_SECONDS))
        bound.settimeout(MOST_SECONDS)
        connection, _ = bound.accept()
        connection.settimeout(MOST_SECONDS)
        assert connection.recv(24).startswith(b"PRI * HTTP/2")  # in clear, as the server on the loopback speaks
        connection.close()
        channel.close()
        thread.join(MOST_SECONDS)
