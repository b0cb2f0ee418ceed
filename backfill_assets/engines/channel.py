"""The gRPC channel to a Spark Connect server: its address, deadlines and keepalive.

The kernel closes the connections of a killed server, which fails its calls at once. A server that
hangs is noticed by the deadline of a call with one answer, and by keepalive (five and a half
minutes) in a query. Imports pyspark and gRPC.
"""

import json
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder

from backfill_assets.engines.confs import LOOPBACK
from backfill_assets.kernel.core.errors import EngineLost
from backfill_assets.kernel.core.texts import scrub_secrets

# Analysis of a plan over thousands of files takes seconds; nothing that is not a query takes
# minutes.
LONGEST_CALL_SECONDS = 600.0
# Calls by which a client leaves; their answer changes nothing.
LONGEST_FAREWELL_SECONDS = 5.0
_FAREWELLS = ("ReleaseExecute", "ReleaseSession", "Interrupt")
_QUERIES = ("ExecutePlan", "ReattachExecute", "AddArtifacts")
_SERVICE = "spark.connect.SparkConnectService"
# Spark's server refuses pings more often than every 5 minutes.
_KEEPALIVE = [("grpc.keepalive_time_ms", 310_000), ("grpc.keepalive_timeout_ms", 20_000)]

_CONNECT_PORT = 15002  # Spark Connect's default
_REACH_TIMEOUT_SECONDS = 5.0
# Else gRPC sends the socket's path as the host's name, which a server that takes it at its word
# refuses.
_AT_A_SOCKET = [("grpc.default_authority", "localhost")]


def refuse_unreachable_server(url: str) -> None:
    """Raise EngineLost at once if no server listens at the address: Spark would retry for ten
    minutes."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "localhost", parts.port or _CONNECT_PORT)
        with socket.create_connection(address, timeout=_REACH_TIMEOUT_SECONDS):
            return
    except (OSError, ValueError) as error:
        reason = scrub_secrets(str(error))
        raise EngineLost(
            f"the Spark engine sc://{parts.hostname}",
            f"it cannot be reached ({reason})",
            "Nothing was run",
            "Start it, or correct `engine` in the lake's settings",
        ) from None


class ServerChannel(DefaultChannelBuilder):
    """Builds the channel to `url`; `path`: a unix socket to dial instead of the address."""

    def __init__(self, url: str, path: str = "") -> None:
        super().__init__(
            url,
            [
                *_KEEPALIVE,
                ("grpc.service_config", _deadline_config()),
                *(_AT_A_SOCKET if path else []),
            ],
        )
        self.add_interceptor(RefusesAtExit())
        self.path = path

    def toChannel(self) -> grpc.Channel:
        """The channel. An address on our own loopback is dialled as it was bound, by number:
        `localhost` may mean ::1 first, where another user of this machine can listen and read the
        token."""
        if self.path:
            return self._insecure_channel(f"unix:{self.path}")
        if self.host != LOOPBACK or self.use_ssl or self.token is None:
            return super().toChannel()
        secret = grpc.access_token_call_credentials(self.token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), secret)
        return self._secure_channel(f"ipv4:{self.endpoint}", credentials)


class RefusesAtExit(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Refuses calls while the interpreter shuts down: gRPC would wait for a thread that can no
    longer start."""

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Begin a call."""
        if sys.is_finalizing():
            raise EngineLost(
                "Spark",
                "this process is leaving its engine",
                "What was running on it did not finish; what it had committed stands",
                "Run again",
            )
        return continuation(details, request)

    intercept_unary_stream = intercept_unary_unary


def _deadline_config() -> str:
    """gRPC's service configuration: deadlines for calls with one answer; a query takes as long as
    it takes."""
    longest = (
        {"": LONGEST_CALL_SECONDS}
        | dict.fromkeys(_FAREWELLS, LONGEST_FAREWELL_SECONDS)
        | dict.fromkeys(_QUERIES)
    )
    limits = [
        {"name": [{"service": _SERVICE, **({"method": method} if method else {})}]}
        | ({"timeout": f"{seconds}s"} if seconds else {})
        for method, seconds in longest.items()
    ]
    return json.dumps({"methodConfig": limits})
