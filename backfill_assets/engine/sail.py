"""The command that starts a lake's Sail server, an engine of Spark's protocol that needs no Java.

Lives here: its environment with memory and cores, its identity (what must be equal for a server to be shared), and the
refusals where it is not installed or could not be kept from other users. Does not live here: the process itself
(`sail_process`), starting it (`supervisor`), what it computes otherwise than Spark.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.interpreter import python_command
from backfill_assets.engine.cache import package_version
from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.private_network import why_not
from backfill_assets.engine.sail_process import OPEN_PORT, SOCKET
from backfill_assets.engine.server_state import ServerFolder, ServerRequest

PACKAGE = "pysail"
_UNITS = {"m": 1 << 20, "g": 1 << 30}
# What it holds beside queries: 50 MB when it starts, buffers of files that are read and written.
_BESIDE_QUERIES = 0.8
# A file that is being written holds so much for each of its columns (37 KiB were measured); so much of the pool is
# theirs.
_COLUMN_BYTES, _OF_FILES = 40 << 10, 0.25
_SESSION_SECONDS = 24 * 3600  # a server of ours stops when it is idle; until then it forgets nobody


def refuse_absent(package: str = PACKAGE) -> None:
    """Raise SettingsError where Sail is not installed."""
    if find_spec(package) is None:
        raise SettingsError(
            'engine = "sail"', f"the package {package} is not installed", "Nothing was started",
            "Install it with `pip install 'backfill-assets[sail]'`, or set engine = \"embedded\"",
        )  # fmt: skip


def sail_identity(settings: EngineSettings) -> dict[str, str]:
    """What two processes must agree on to share a server, by name."""
    refuse_absent()
    return {
        PACKAGE: package_version(PACKAGE),
        "memory": settings.memory.lower(),
        "cores": str(settings.cores or "all"),
        "open_port": str(settings.open_port).lower(),
        "the permissions of files": f"{settings.umask:03o}",
    }


def refuse_open_to_all(settings: EngineSettings, refusal: Callable[[], str] = why_not) -> None:
    """Raise SettingsError where this machine has no private network for Sail (`refusal`), unless that is wanted."""
    why = "" if settings.open_port else refusal()
    if why:
        raise SettingsError(
            'engine = "sail"',
            f"Sail asks nobody for a password, and this machine gives it no network of its own ({why}), so that every "
            "user of the machine could read and write files through it",
            "Nothing was started",
            'Set engine = "embedded"; or, where nobody else can log in, open_port = true below [spark]',
        )


def prepare_sail(state: ServerFolder, settings: EngineSettings, refusal: Callable[[], str] = why_not) -> ServerRequest:
    """What the supervisor needs. Raises SettingsError where this machine has no private network for it (`refusal`)."""
    refuse_open_to_all(settings, refusal)
    command = [*python_command("backfill_assets.engine.sail_process", *([OPEN_PORT] * settings.open_port))]
    socket = str(state.folder / SOCKET)
    return ServerRequest(command, "", "", sail_identity(settings), settings.idle_minutes * 60, socket=socket)


def sail_environ(state: ServerFolder, settings: EngineSettings) -> dict[str, str]:
    """This process's environment without what would redirect Sail, with its size."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SAIL_", "SPARK_", "PYSPARK_", "OTEL_"))}
    return kept | {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(state.scratch),
        "RUST_LOG": "warn",
        "SAIL_MODE": "local",
        "SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair",
        "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(pool_bytes(settings.memory)),
        "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": f'["{state.scratch}"]',
        # Else it opens writers for every column of every day at once, and two cores gain nothing by it.
        "SAIL_PARQUET__ALLOW_SINGLE_FILE_PARALLELISM": "false",
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": str(cores(settings)),
        "TOKIO_WORKER_THREADS": str(cores(settings)),
        "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(_SESSION_SECONDS),
    }


def pool_bytes(memory: str) -> int:
    """What queries may use together of the setting `memory`."""
    return int(int(memory[:-1]) * _UNITS[memory[-1].lower()] * _BESIDE_QUERIES)


def files_at_once(memory: str, columns: int) -> int:
    """How many files of so many columns may be open for writing at once, beside what computes their rows."""
    return max(1, int(pool_bytes(memory) * _OF_FILES) // (columns * _COLUMN_BYTES))


def cores(settings: EngineSettings) -> int:
    """The processors that it uses at once."""
    return settings.cores or os.cpu_count() or 1
