"""Sail, an engine of Spark's protocol that needs no Java: how a lake's server of it is started.

Lives here: its command, environment and identity, and the refusals where it is absent or other users could reach it.
Does not live here: the server's process (`sail_process`) and life (`supervisor`), and what it computes otherwise than
Spark (`landing.sail_differences`).
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.process import python_command
from backfill_assets.engine.cache import package_version
from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.sail_process import OPEN_PORT, SOCKET
from backfill_assets.engine.server_state import ServerFolder, ServerRequest

PACKAGE = "pysail"
# Commands of util-linux that run a program in a network namespace: root may as it is, others need a user namespace.
ISOLATIONS: Sequence[Sequence[str]] = (("unshare", "--net"), ("unshare", "--map-root-user", "--net"))
_UNITS = {"m": 1 << 20, "g": 1 << 30}
_FOR_QUERIES = 0.8  # of `memory`; the rest is 50 MB at the start, and buffers of files that are read and written
# 37 KiB were measured per column of a file being written; files may take this share of the queries' memory.
_COLUMN_BYTES, _FOR_FILES = 40 << 10, 0.25
_SESSION_SECONDS = 24 * 3600  # the supervisor stops an idle server; until then no session expires


def refuse_absent(package: str = PACKAGE) -> None:
    """Raise SettingsError if Sail is not installed."""
    if find_spec(package) is None:
        raise SettingsError(
            'engine = "sail"', f"the package {package} is not installed", "Nothing was started",
            "Install it with `pip install 'backfill-assets[sail]'`, or set engine = \"embedded\"",
        )  # fmt: skip


def sail_identity(settings: EngineSettings) -> dict[str, str]:
    """Return the properties that must be equal for two processes to share a server."""
    refuse_absent()
    return {
        PACKAGE: package_version(PACKAGE),
        "memory": settings.memory.lower(),
        "cores": str(settings.cores or "all"),
        "open_port": str(settings.open_port).lower(),
        "the permissions of files": f"{settings.umask:03o}",
    }


def isolation(commands: Sequence[Sequence[str]] = ISOLATIONS) -> tuple[Sequence[str], str]:
    """Return the first of `commands` that works on this machine, or an empty one and the reason why none does."""
    reason = ""
    for command in commands:
        if shutil.which(command[0]) is None:
            return (), f"the program {command[0]} is not installed"
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return command, ""
        reason = (tried.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1]
    return (), reason


def why_not_private() -> str:
    """Return why this machine cannot keep Sail to one user; empty if it can."""
    return isolation()[1]


def refuse_open_to_all(settings: EngineSettings, refusal: Callable[[], str] = why_not_private) -> None:
    """Raise SettingsError if other users could reach the server (`refusal` returns the reason), unless `open_port`."""
    why = "" if settings.open_port else refusal()
    if why:
        raise SettingsError(
            'engine = "sail"',
            f"Sail asks nobody for a password, and this machine gives it no network of its own ({why}), so that every "
            "user of the machine could read and write files through it",
            "Nothing was started",
            'Set engine = "embedded"; or, where nobody else can log in, open_port = true below [spark]',
        )


def prepare_sail(
    state: ServerFolder, settings: EngineSettings, refusal: Callable[[], str] = why_not_private
) -> ServerRequest:
    """Return the request for the supervisor. Raises SettingsError as `refuse_open_to_all` does."""
    refuse_open_to_all(settings, refusal)
    program = python_command("backfill_assets.engine.sail_process", *([OPEN_PORT] * settings.open_port))
    command = [*(() if settings.open_port else isolation()[0]), *program]
    socket = str(state.folder / SOCKET)
    return ServerRequest(command, "", "", sail_identity(settings), settings.idle_minutes * 60, socket=socket)


def sail_environ(state: ServerFolder, settings: EngineSettings) -> dict[str, str]:
    """Return this process's environment with Sail's settings, and without variables that would change them."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SAIL_", "SPARK_", "PYSPARK_", "OTEL_"))}
    cores = str(settings.cores or os.cpu_count() or 1)
    return kept | {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(state.scratch),
        "RUST_LOG": "warn",
        "SAIL_MODE": "local",
        "SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair",
        "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(pool_bytes(settings.memory)),
        "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": f'["{state.scratch}"]',
        # Otherwise it opens writers for every column of every day at once, which saves no time on two cores.
        "SAIL_PARQUET__ALLOW_SINGLE_FILE_PARALLELISM": "false",
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": cores,
        "TOKIO_WORKER_THREADS": cores,
        "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(_SESSION_SECONDS),
    }


def pool_bytes(memory: str) -> int:
    """Return how many bytes all queries may use together, given the setting `memory`."""
    return int(int(memory[:-1]) * _UNITS[memory[-1].lower()] * _FOR_QUERIES)


def files_at_once(memory: str, columns: int) -> int:
    """Return how many files of `columns` columns may be open for writing at once, given the setting `memory`."""
    return max(1, int(pool_bytes(memory) * _FOR_FILES) // (columns * _COLUMN_BYTES))
