"""Sail, an engine of Spark's protocol that needs no Java: how a lake's server of it is started, and
what it cannot do.

Run as a program, this is the server's process. Sail has no token and listens on TCP only: every
user of the machine could read and write files through it. The process therefore runs in a network
namespace of its own, in the lake's folder `.server`; a unix socket there, open to its owner only,
is the way in. Not here: SQL and plans that it computes otherwise (`sail_differences`,
`sail_plans`).
"""

import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.abilities import Engine
from backfill_assets.engines.cache import package_version
from backfill_assets.engines.confs import LOOPBACK, EngineSettings, memory_bytes
from backfill_assets.engines.supervisor import ServerFolder, ServerRequest
from backfill_assets.kernel.core.column_types import ARRAY, DECIMAL, ColumnType
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.process import python_command

if TYPE_CHECKING:
    import asyncio

PACKAGE = "pysail"
# Commands of util-linux that run a program in a network namespace: root may as it is, others need a
# user namespace.
ISOLATIONS: Sequence[Sequence[str]] = (
    ("unshare", "--net"),
    ("unshare", "--map-root-user", "--net"),
)
# Of `memory`; the rest is 50 MB at the start, and buffers of files that are read and written.
_FOR_QUERIES = 0.8
# 37 KiB were measured per column of a file being written; files may take this share of the queries'
# memory.
_COLUMN_BYTES, _FOR_FILES = 40 << 10, 0.25
_SESSION_SECONDS = 24 * 3600  # the supervisor stops an idle server; until then no session expires
END_OF_TIME = "9999-12-31 23:59:59.999999"  # it has no date for moments that lie far behind it
_LONG_YEAR = r"^\s*[+-]?[0-9]{5,}-"
# Kind of column -> landed texts that it reads differently, or may.
DOUBTFUL = {
    "DOUBLE": r"(?i)[0-9.][df]\s*$",  # 1d is a number to Spark
    DECIMAL: r"(?i)[0-9.]\s*e|[^\x00-\x7f]",  # so are 1e3 and digits of other scripts
    "DATE": rf"(?i)^\s|\s$|t|{_LONG_YEAR}",
    "TIMESTAMP": _LONG_YEAR,
    # Words and beginnings to Sail.
    "BOOLEAN": r"(?i)^[\x00-\x20]*(on|off|tr|tru|fa|fal|fals|ye|of)[\x00-\x20]*$",
}


def refuse_absent(package: str = PACKAGE) -> None:
    """Raise SettingsError if Sail is not installed."""
    if find_spec(package) is None:
        raise SettingsError(
            'engine = "sail"',
            f"the package {package} is not installed",
            "Nothing was started",
            "Install it with `pip install 'backfill-assets[sail]'`, or set engine = \"embedded\"",
        )


def isolation_command(commands: Sequence[Sequence[str]] = ISOLATIONS) -> tuple[Sequence[str], str]:
    """Return the first of `commands` that works on this machine, or an empty one and the reason why
    none does."""
    reason = ""
    for command in commands:
        if shutil.which(command[0]) is None:
            return (), f"the program {command[0]} is not installed"
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return command, ""
        reason = (tried.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1]
    return (), reason


def no_isolation_reason() -> str:
    """Return why this machine cannot keep Sail to one user; empty if it can."""
    return isolation_command()[1]


def _pool_bytes(memory: str) -> int:
    """Return how many bytes all queries may use together, given the setting `memory`."""
    return int(memory_bytes(memory) * _FOR_QUERIES)


class Sail(Engine):
    """The engine `sail`: a server without a token, which therefore gets a network of its own.
    `refusal` returns why this machine cannot give it one, empty if it can."""

    name = "Sail"
    packages = (PACKAGE,)
    program = "backfill_assets.engines.sail"
    needs_java = has_row_metadata = reads_all_landed = reads_delta = casts_files = (
        catches_errors
    ) = False
    bounds_files = True

    def __init__(self, refusal: Callable[[], str] = no_isolation_reason) -> None:
        self.refusal = refusal

    def identity(self, settings: EngineSettings) -> dict[str, str]:
        """Return what must be equal for a server to be shared. Raises SettingsError if Sail is not
        installed, for Spark's configuration, and if other users could reach the server (unless
        `open_port`)."""
        refuse_absent()
        if settings.confs:
            raise SettingsError(
                f"spark.confs: {', '.join(sorted(settings.confs))}",
                "Sail does not heed Spark's configuration",
                "Sail was not started",
                'Remove it, or set engine = "embedded"',
            )
        return {
            PACKAGE: package_version(PACKAGE),
            "memory": settings.memory.lower(),
            "cores": str(settings.cores or "all"),
            "open_port": str(settings.open_port).lower(),
            "the permissions of files": f"{settings.umask:03o}",
        }

    def request(self, state: ServerFolder, settings: EngineSettings) -> ServerRequest:
        """Return the request for the supervisor. Raises SettingsError as `refuse` does."""
        self.refuse(settings)
        program = python_command(self.program, *([OPEN_PORT] * settings.open_port))
        command = [*(() if settings.open_port else isolation_command()[0]), *program]
        return ServerRequest(
            command, self.identity(settings), settings.idle_minutes * 60, socket=SOCKET
        )

    def environ(self, state: ServerFolder, settings: EngineSettings) -> dict[str, str]:
        """Return this process's environment with Sail's settings, and without variables that would
        change them."""
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("SAIL_", "SPARK_", "PYSPARK_", "OTEL_"))
        }
        cores = str(settings.cores or os.cpu_count() or 1)
        return kept | {
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": str(state.scratch),
            "RUST_LOG": "warn",
            "SAIL_MODE": "local",
            "SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair",
            "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(_pool_bytes(settings.memory)),
            "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": json.dumps(
                [str(state.scratch)], ensure_ascii=False
            ),
            # Otherwise it opens writers for every column of every day at once, which saves no time
            # on two cores.
            "SAIL_PARQUET__ALLOW_SINGLE_FILE_PARALLELISM": "false",
            "SAIL_EXECUTION__DEFAULT_PARALLELISM": cores,
            "TOKIO_WORKER_THREADS": cores,
            "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(_SESSION_SECONDS),
        }

    def session_confs(self, settings: EngineSettings) -> dict[str, str]:
        """Return what is set on each new session."""
        return {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": "true",
            # The place in the code of each column, which only Spark's errors name: an eighth of the
            # work on plans.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
        }

    def refuse(self, settings: EngineSettings) -> None:
        """Raise SettingsError if other users of this machine could reach the server, unless
        `open_port`."""
        if not settings.open_port and (why := self.refusal()):
            raise SettingsError(
                'engine = "sail"',
                "Sail asks nobody for a password, and this machine gives it no network of its "
                f"own ({why}), so that "
                "every user of the machine could read and write files through it",
                "Nothing was started",
                'Set engine = "embedded"; or, where nobody else can log in, open_port = true '
                "below [spark]",
            )

    def files_at_once(self, memory: str, columns: int) -> int:
        """Return how many files it may have open: it keeps one for each value until the last row,
        and spills none."""
        return max(1, int(_pool_bytes(memory) * _FOR_FILES) // (columns * _COLUMN_BYTES))

    def differences(
        self,
        text: str,
        types: Mapping[str, str],
        keys: Collection[frozenset[str]] = (),
        landed: bool = False,
        agg: str = "",
    ) -> Mapping[str, str]:
        """Return what SQL holds that differs."""
        from backfill_assets.engines.sail_differences import (
            aggregation_differences,
            sql_differences,
        )

        if agg:
            return aggregation_differences(agg, text, types)
        return sql_differences(text, types, keys, landed)

    def plan_differences(
        self, frame: Any, inputs: Mapping[str, Any], contracts: Sequence[Contract]
    ) -> Mapping[str, str]:
        """Return what differs in the plan of a frame. Raises the engine's error for a plan that
        cannot be analysed."""
        from backfill_assets.engines.sail_plans import plan_differences

        return plan_differences(frame, inputs, contracts)

    def converts(self, found: str, kind: ColumnType) -> bool:
        """Return whether landed values of the type `found` become `kind` as on Spark."""
        from backfill_assets.engines.sail_differences import converts_alike

        return kind.kind != ARRAY and converts_alike(found, str(kind))

    def doubtful(self, value: Any, found: str, kind: ColumnType) -> Any:
        """Return the condition that the engines read a landed value differently; None if no value
        of its type is."""
        from pyspark.sql import functions as F

        if found in ("timestamp", "timestamp_ntz"):
            return F.coalesce(
                value.cast("timestamp") > F.lit(END_OF_TIME).cast("timestamp"), F.lit(False)
            )
        form = DOUBTFUL.get(kind.kind)
        return (
            None
            if found != "string" or form is None
            else F.coalesce(value.rlike(form), F.lit(False))
        )


SOCKET = "engine.sock"  # relative: the process runs in the folder
OPEN_PORT = "--open-port"  # the program runs in the machine's own network, whose loopback is up
_SET_FLAGS, _UP = 0x8914, 1  # SIOCSIFFLAGS and IFF_UP of linux/if.h
_BLOCK_BYTES = 1 << 18
_POLL_SECONDS = 1.0


def start_loopback() -> None:
    """Switch on the loopback of a new network namespace; raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


async def forward_socket(target: tuple[str, int], is_running: Callable[[], bool]) -> None:
    """Connect each client of a socket in the current folder, which only this user can reach, with
    `target`, while `is_running` holds. Prints the line that the supervisor waits for."""
    import asyncio

    async def connected(reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        """Serve one connection."""
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy_stream(reader, inner_writer), _copy_stream(inner_reader, writer))

    Path(SOCKET).unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(connected, SOCKET)
    finally:
        os.umask(before)
    print(f"Spark Connect server started at: {target[0]}:{target[1]}", flush=True)
    async with server:
        while is_running():
            await asyncio.sleep(_POLL_SECONDS)


async def _copy_stream(reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
    """Copy `reader` to `writer` until either side ends, and close `writer`. Raises nothing for a
    side that is lost."""
    with suppress(OSError):
        while block := await reader.read(_BLOCK_BYTES):
            writer.write(block)
            await writer.drain()
    with suppress(OSError):
        writer.close()


def main(arguments: list[str]) -> None:
    """Serve until the process ends."""
    if OPEN_PORT not in arguments:
        start_loopback()
    import asyncio

    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(LOOPBACK, 0)
    server.start(background=True)
    address = server.listening_address
    if address is None:
        sys.exit("error: Sail does not listen")
    asyncio.run(forward_socket(address, lambda: bool(server.running)))


if __name__ == "__main__":
    main(sys.argv[1:])
