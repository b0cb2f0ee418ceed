"""What a process of this package needs first: its lake's folder, its memory settings, commands for
further Pythons.

Also names of a package that are imported when they are first asked for, so that importing the
package costs little. Not here: which processes are started, and what a lake is
(`kernel.tables.home`).
"""

import atexit
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.addresses import local_root

INSTALLED = ("site-packages", "dist-packages")  # Python looks there anyway
LAKE_OPTION = "--lake"
LAKE_VARIABLE = "BACKFILL_ASSETS_LAKE"
DEFAULT_FOLDER = ".lake"
# Imports are two thirds of a short command, and their objects all stay: with Python's own
# thresholds the collector takes a fifth of the CPU time of `backfill` for one day.
COLLECT_AFTER = (50_000, 10, 2)
# delta-rs, DuckDB and Arrow read these on import. By default they keep freed memory for ten seconds
# or for good: 70 MiB after a write of 3,650 days.
ALLOCATORS = {
    "_RJEM_MALLOC_CONF": "background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0",
    "DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def collect_seldom() -> None:
    """Set the collector's thresholds and, where the user set none, the allocators' variables of
    this process."""
    gc.set_threshold(*COLLECT_AFTER)
    atexit.register(freeze_objects)
    for name, value in ALLOCATORS.items():
        os.environ.setdefault(name, value)


def freeze_objects() -> None:
    """Leave all objects of this moment out of later garbage collections: the last one, as Python
    ends, takes 0.9 s with Dagster and Spark imported. Does nothing once DuckDB is imported: it
    reports types that Python does not take back.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


def python_command(module: str, *words: str) -> tuple[str, ...]:
    """The command that runs a module of this package. Without `-P`, Python would import modules
    that another user may have put into the working folder."""
    return sys.executable, "-P", "-m", module, *words


def environment_with_package(
    environ: Mapping[str, str], first: Sequence[str] = ()
) -> dict[str, str]:
    """The environment `environ` in which a `python_command` finds this package: its PYTHONPATH
    names the folders `first`, then the package's, then those that it named before."""
    package = Path(__file__).resolve().parents[3]
    folders = list(first)
    if package.name not in INSTALLED:
        folders.append(str(package))
    folders += [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {**environ, "PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in folders)}


def project_root() -> Path:
    """The checkout this package runs from, else the working folder (an installed package has no
    project of its own)."""
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "dagster.yaml").exists():
        return checkout
    return Path.cwd()


def lake_folder(named: str | None = None) -> Path:
    """The folder of the lake: `named`, else $BACKFILL_ASSETS_LAKE, else `.lake` in the project; for
    an address in a bucket this machine's own folder of it. Raises SettingsError for an address that
    no lake can have."""
    chosen = named or os.environ.get(LAKE_VARIABLE)
    if chosen:
        return local_root(chosen)
    return project_root() / DEFAULT_FOLDER


def imported_when_used(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package for the names that each of its modules (without the package's
    name) has."""
    modules = dict[str, str]()  # by the names that they have
    for module, found in names.items():
        modules |= dict.fromkeys(found, module)

    def find(name: str) -> Any:
        """Import the module that has the name. Raises AttributeError for any other name."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
