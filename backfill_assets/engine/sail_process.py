"""The process of a lake's Sail server, run in the lake's folder `.server`, and the unix socket that leads to it.

Sail has no token and listens on TCP only: every user of the machine could read and write files through it. It therefore
runs in a network namespace of its own; the socket, open to its owner only, is the way in.
"""

import asyncio
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from backfill_assets.engine.confs import LOOPBACK

SOCKET = "engine.sock"  # relative: the process runs in the folder
OPEN_PORT = "--open-port"  # the program runs in the machine's own network, whose loopback is up
_SET_FLAGS, _UP = 0x8914, 1  # SIOCSIFFLAGS and IFF_UP of linux/if.h
_BLOCK_BYTES = 1 << 18
_POLL_SECONDS = 1.0


def start_loopback() -> None:
    """Switch on the loopback of a new network namespace; raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


async def forward(target: tuple[str, int], is_running: Callable[[], bool]) -> None:
    """Connect each client of a socket in the current folder, which only this user can reach, with `target`, while
    `is_running` holds. Prints the line that the supervisor waits for."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_carry(reader, inner_writer), _carry(inner_reader, writer))

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


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy `reader` to `writer` until either side ends."""
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
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(LOOPBACK, 0)
    server.start(background=True)
    address = server.listening_address
    if address is None:
        sys.exit("error: Sail does not listen")
    asyncio.run(forward(address, lambda: bool(server.running)))


if __name__ == "__main__":
    main(sys.argv[1:])
