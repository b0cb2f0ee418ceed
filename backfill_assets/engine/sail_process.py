"""The process of a lake's Sail server: Sail in a network of its own, and the unix socket that leads to it.

Lives here: what runs in that process. Does not live here: its command and environment (`sail`), its life
(`supervisor`). Run as `python -m backfill_assets.engine.sail_process [--open-port]` in the lake's folder `.server`.

Sail knows no token and listens on TCP only, where every user of the machine could have it read and write files as this
one. So its port exists in a private network alone, and the way in is a socket in a folder that is closed to others.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from backfill_assets.engine import private_network

LOOPBACK = "127.0.0.1"
SOCKET = "engine.sock"  # relative: the process runs in the folder
OPEN_PORT = "--open-port"
_BLOCK_BYTES = 1 << 18
_LOOK_SECONDS = 1.0
_WAITING = 64  # connections that may wait to be accepted


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes until one side ends."""
    with suppress(OSError):
        while block := await reader.read(_BLOCK_BYTES):
            writer.write(block)
            await writer.drain()
    with suppress(OSError):
        writer.close()


async def forward(listener: socket.socket, target: tuple[str, int], is_running: Callable[[], bool]) -> None:
    """Carry every connection of the listener to `target` and back, until that no longer runs."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(reader, inner_writer), carry(inner_reader, writer))

    async with await asyncio.start_unix_server(connected, sock=listener):
        while is_running():
            await asyncio.sleep(_LOOK_SECONDS)


def listening() -> socket.socket:
    """The socket in the current folder, reachable by this user only."""
    Path(SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(SOCKET)
    finally:
        os.umask(before)
    listener.listen(_WAITING)
    return listener


def main(arguments: list[str]) -> None:
    """Serve until the process is ended; tells the supervisor's words once clients may come."""
    if OPEN_PORT not in arguments:
        private_network.enter()  # before anything that starts a thread
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(LOOPBACK, 0)
    server.start(background=True)
    address = server.listening_address
    if address is None:
        sys.exit("error: Sail does not listen")
    listener = listening()
    print(f"Spark Connect server started at: {address[0]}:{address[1]}", flush=True)
    asyncio.run(forward(listener, address, lambda: bool(server.running)))


if __name__ == "__main__":
    main(sys.argv[1:])
