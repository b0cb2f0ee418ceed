"""The package's examples as lakes: settings, steps and tables copied, landed files generated.

Not here: their content (`examples`) and loading them (their steps say how).
"""

import os
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.settings import FILE_NAME

HOME = "backfill_assets.examples"
STEPS = "STEPS.md"
COPIED = (".toml", ".md", ".sql")
# A scan waits for files that were just written; these were delivered long ago.
DELIVERED = datetime.fromisoformat("2024-01-01T00:00:00Z").timestamp()


def examples() -> dict[str, str]:
    """Return the title of every example's steps, by the example's name."""
    found = {
        folder.name.replace("_", "-"): _title(folder)
        for folder in files(HOME).iterdir()
        if folder.is_dir() and (folder / FILE_NAME).is_file()
    }
    return dict(sorted(found.items()))


def make_example(name: str, root: Path) -> None:
    """Make the lake of an example; raises SettingsError for an unknown name and for a folder that is not empty."""
    known = examples()
    if name not in known:
        raise SettingsError(
            f"the example {name!r}", "there is none of that name", "Nothing was made", f"Take one of {', '.join(known)}"
        )
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise SettingsError(
            f"the lake {root}", "the folder is not empty", "It was left as it is", "Name another --lake"
        )
    module = name.replace("-", "_")
    generated: Callable[[], dict[str, str]] = import_module(f"{HOME}.{module}.generator").files
    for place, text in (_copied(files(HOME) / module) | generated()).items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (DELIVERED, DELIVERED))


def _title(folder: Traversable) -> str:
    return (folder / STEPS).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def _copied(folder: Traversable, below: str = "") -> dict[str, str]:
    """Return the files that a person may read and change (path: text), without the code that generates the others."""
    found: dict[str, str] = {}
    for part in folder.iterdir():
        if part.is_dir():
            found |= _copied(part, f"{below}{part.name}/")
        elif part.name.endswith(COPIED):
            found[below + part.name] = part.read_text(encoding="utf-8")
    return found
