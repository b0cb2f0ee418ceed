"""The line to a Spark Connect server: no call on it outlives the server's process, or this one.

Lives here: the gRPC channel whose calls are watched (the server's process, a deadline, our own end), and which address
it dials. Does not live here: sessions (`session`) and what counts as a loss (`loss`). Imports pyspark and gRPC:
import it when a session is opened, not before.

Why: a unary call of gRPC was seen waiting for minutes on a server that was killed, and one that is made while the
interpreter shuts down waits for ever, for a thread that can no longer start. An interrupt inside gRPC's Python code can
leave a channel without the thread that delivers answers, so that not even its deadlines are noticed.
"""

import contextlib
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder

from backfill_assets.core.errors import EngineLost
from backfill_assets.engine.confs import LOOPBACK, scrub
from backfill_assets.engine.processes import Process
from backfill_assets.engine.unix_sockets import UnixAddress

LOOK_SECONDS = 0.5
# Analysis of a plan over thousands of files takes seconds; nothing that is not a query takes minutes.
LONGEST_CALL_SECONDS = 600.0
# What a client sends when it leaves. Nobody waits long for an answer to that.
LONGEST_FAREWELL_SECONDS = 5.0
# After an interrupt, nobody waits for anything.
LONGEST_CALL_OF_THE_INTERRUPTED_SECONDS = 2.0
_FAREWELLS = frozenset({"ReleaseExecute", "ReleaseSession", "Interrupt"})
# A server on another machine can vanish without a word. Pings more often than every 5 minutes are refused by it.
_KEEPALIVE = [("grpc.keepalive_time_ms", 310_000), ("grpc.keepalive_timeout_ms", 20_000)]

_CONNECT_PORT = 15002  # Spark Connect's default
_REACH_TIMEOUT_SECONDS = 5.0
# Else gRPC sends the socket's path as the host's name, which a server that takes it at its word refuses.
_AT_A_SOCKET = [("grpc.default_authority", "localhost")]


def reach(url: str) -> None:
    """Raise EngineLost at once where nobody listens at a server's address: Spark would retry for ten minutes."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "localhost", parts.port or _CONNECT_PORT)
        with socket.create_connection(address, timeout=_REACH_TIMEOUT_SECONDS):
            return
    except (OSError, ValueError) as error:
        reason = scrub(str(error))
        raise EngineLost(
            f"the Spark engine sc://{parts.hostname}", f"it cannot be reached ({reason})", "Nothing was run",
            "Start it, or correct `engine` in the lake's settings",
        ) from None  # fmt: skip


class Line(DefaultChannelBuilder):
    """Builds a watched channel to `url`; `server` is the process behind it where we know it, `socket` the unix socket
    that is dialled in place of the address."""

    def __init__(self, url: str, server: Process | None, socket: Path | None = None) -> None:
        super().__init__(url, _AT_A_SOCKET if socket else None if server else _KEEPALIVE)
        self.watch, self.socket = Watch(server), socket

    def toChannel(self) -> grpc.Channel:
        """The channel. An address on our own loopback is dialled as it was bound, by number: `localhost` may mean ::1
        first, where another user of this machine can listen and be handed the token."""
        if self.socket is not None:
            address = UnixAddress(self.socket)
            channel = WatchedChannel(self._insecure_channel(f"unix:{address.text}"), self.watch)
            weakref.finalize(channel, address.close)
            return channel
        if self.host != LOOPBACK or self.use_ssl or self.token is None:
            return WatchedChannel(super().toChannel(), self.watch)
        secret = grpc.access_token_call_credentials(self.token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), secret)
        return WatchedChannel(self._secure_channel(f"ipv4:{self.endpoint}", credentials), self.watch)


class Watch:
    """The calls in flight of one channel. Ends all of them, and refuses new ones, once the server's process is gone."""

    def __init__(self, server: Process | None) -> None:
        self.server = server
        self._lock = threading.Lock()
        self._calls: weakref.WeakSet[Any] = weakref.WeakSet()
        self._over = threading.Event()
        self.is_shaken = False  # an interrupt came through gRPC
        if server is not None:
            threading.Thread(target=self._look, name="watch of the Spark server", daemon=True).start()

    def begin(self, call: Callable[[], Any]) -> Any:
        """Start a call; raises EngineLost where it could never end."""
        if sys.is_finalizing() or self._over.is_set():
            raise self._lost()
        with self.shaken_by_interrupts():
            begun = call()
        with self._lock:
            self._calls.add(begun)
        if self._over.is_set():  # between the look above and now
            begun.cancel()
        return begun

    @contextlib.contextmanager
    def shaken_by_interrupts(self) -> Iterator[None]:
        """Remember an interrupt that comes through the block."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self.is_shaken = True
            raise

    def told(self, error: Exception) -> Exception:
        """The error that a call ended with, as it is to be raised: EngineLost where the server is gone."""
        return self._lost() if self.is_over() else error

    def is_over(self) -> bool:
        """True once the channel was closed, or the server's process is gone."""
        return self._over.is_set() or (self.server is not None and not self.server.is_alive())

    def end(self) -> None:
        """End all calls and refuse new ones."""
        self._over.set()
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if self.is_over():
                self.end()

    def _lost(self) -> EngineLost:
        gone = self.server is not None and not self.server.is_alive()
        return EngineLost(
            "Spark", "the engine died: its process is gone" if gone else "this process is leaving its engine",
            "What was running on it did not finish; what it had committed stands",
            "Run again, a new engine is started; the log of the one that died is in the lake's folder .server"
            if gone else "Run again",
        )  # fmt: skip


class WatchedChannel(grpc.Channel):  # type: ignore[misc]  # gRPC ships no types
    """A channel all of whose calls are known to a watch."""

    def __init__(self, inner: grpc.Channel, watch: Watch) -> None:
        self._inner, self._watch = inner, watch

    def unary_unary(self, method: str, *how: Any, **more: Any) -> Any:
        """Calls of `method` with one answer."""
        return _one_answer(self._inner.unary_unary(method, *how, **more), self._watch, _deadline(method))

    def stream_unary(self, method: str, *how: Any, **more: Any) -> Any:
        """Calls of `method` with many requests and one answer."""
        return _one_answer(self._inner.stream_unary(method, *how, **more), self._watch, _deadline(method))

    def unary_stream(self, method: str, *how: Any, **more: Any) -> Any:
        """Calls of `method` with many answers: queries, which take as long as they take."""
        calls = self._inner.unary_stream(method, *how, **more)

        def answers(request: Any, **said: Any) -> "_Answers":
            """The answers to one query; after an interrupt there are no more queries."""
            if self._watch.is_shaken:
                self._watch.end()
            return _Answers(self._watch, self._watch.begin(lambda: calls(request, **said)))

        return answers

    def stream_stream(self, method: str, *how: Any, **more: Any) -> Any:
        """Not used by Spark's client, and so not watched."""
        return self._inner.stream_stream(method, *how, **more)

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        """As the channel inside."""
        self._inner.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        """As the channel inside."""
        self._inner.unsubscribe(callback)

    def close(self) -> None:
        """Close the channel and end its calls."""
        self._watch.end()
        self._inner.close()

    def __enter__(self) -> "WatchedChannel":
        """The channel."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()


def _deadline(method: str) -> float:
    return LONGEST_FAREWELL_SECONDS if method.rpartition("/")[2] in _FAREWELLS else LONGEST_CALL_SECONDS


def _one_answer(calls: Any, watch: Watch, deadline: float) -> Callable[..., Any]:
    def answer(request: Any, timeout: float | None = None, **said: Any) -> Any:
        """What the server answers to one call."""
        longest = LONGEST_CALL_OF_THE_INTERRUPTED_SECONDS if watch.is_shaken else timeout or deadline
        # As a future: a call that blocks inside gRPC cannot be ended by another thread.
        call = watch.begin(lambda: calls.future(request, longest, **said))
        try:
            with watch.shaken_by_interrupts():
                return call.result(longest + LOOK_SECONDS)
        except grpc.FutureTimeoutError:
            watch.end()  # not even the deadline was noticed: this channel delivers nothing any more
            raise watch.told(RuntimeError()) from None
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            raise watch.told(error) from None
        finally:
            call.cancel()

    return answer


class _Answers:
    """The answers to one query, one by one."""

    def __init__(self, watch: Watch, call: Any) -> None:
        self._watch, self._call = watch, call

    def __iter__(self) -> Iterator[Any]:
        """Itself."""
        return self

    def __next__(self) -> Any:
        """The next answer."""
        try:
            with self._watch.shaken_by_interrupts():
                return next(self._call)
        except grpc.RpcError as error:
            raise self._watch.told(error) from None

    def __getattr__(self, name: str) -> Any:
        """Whatever else is asked of gRPC's own call."""
        return getattr(self._call, name)
