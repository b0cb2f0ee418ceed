"""How this package starts Python programs of its own: never from modules that lie in the folder where they start.

Lives here: the command and its environment. Does not live here: what is started, and by whom.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")  # Python looks there anyway


def python_command(module: str, *words: str) -> tuple[str, ...]:
    """What runs a module of this package. Without `-P`, Python looks for modules in the working folder first, where
    another user may have put some."""
    return sys.executable, "-P", "-m", module, *words


def with_package(environ: Mapping[str, str], first: Sequence[str] = ()) -> dict[str, str]:
    """The environment with which such a command finds this very package from any working folder, and what PYTHONPATH
    names here; before these the folders `first`."""
    package = Path(__file__).resolve().parents[2]
    named = [p for p in environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    folders = [*first, *([] if package.name in INSTALLED else [str(package)]), *named]
    return {**environ, "PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in folders)}
