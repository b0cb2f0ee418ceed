"""A PostgreSQL server of a test's own, which listens on a socket in a temporary folder only.
Here: starting and stopping it, and statements for it. Not here: any assertion."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a server that knows a user and a password; skips the test where none is
    installed."""
    pytest.importorskip(
        "adbc_driver_postgresql", reason="the driver of PostgreSQL is not installed"
    )
    if (initdb := shutil.which("initdb")) is None:
        pytest.skip("no PostgreSQL server is installed (initdb)")
    user = "postgres" if os.geteuid() == 0 else None  # the server does not run as root
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # paths of sockets are short
        if user:
            shutil.chown(folder, user)
        data, control = f"{folder}/data", initdb.replace("initdb", "pg_ctl")

        def run(*command: str) -> None:
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

        run(initdb, "-D", data, "-U", "owner", "-A", "trust", "-N")
        run(control, "-D", data, "-w", "-o", f"-c listen_addresses='' -k {folder}", "start")
        try:
            yield f"postgresql://owner:secret@/postgres?host={folder}"
        finally:
            run(control, "-D", data, "-m", "immediate", "stop")


def execute(address: str, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last of these statements, each committed by itself."""
    dbapi = import_module("adbc_driver_postgresql.dbapi")
    found: list[tuple[Any, ...]] = []
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            found = cursor.fetchall() if cursor.description else []
    return found
