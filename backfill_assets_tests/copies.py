"""Folders that tests need again and again: made once in a process, kept in memory, and written anew
for each test. Here: keeping a folder and laying it out elsewhere, with the times of its files. Not
here: what is in it, and paths within files: a lake has none that name its own place."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Kept:
    """A folder's folders and files, by relative path; of files the bytes and the time of their last
    change (ns)."""

    folders: tuple[str, ...]
    files: tuple[tuple[str, bytes, int], ...]

    def lay_out(self, root: Path) -> None:
        """Write everything at `root`, which may exist."""
        root.mkdir(parents=True, exist_ok=True)
        for folder in self.folders:
            with suppress(FileExistsError):
                os.mkdir(f"{root}/{folder}")  # noqa: PTH102  # thousands of times: paths as objects take longer
        for name, content, changed in self.files:
            with open(f"{root}/{name}", "wb", buffering=0) as file:  # noqa: PTH123
                file.write(content)
                os.utime(file.fileno(), ns=(changed, changed))


@cache
def keep(make: Callable[[Path], object]) -> Kept:
    """What `make` leaves in a folder; it is called once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "made"
        make(root)
        found = sorted(root.rglob("*"))
        folders = tuple(str(p.relative_to(root)) for p in found if p.is_dir())
        files = [
            (str(p.relative_to(root)), p.read_bytes(), p.stat().st_mtime_ns)
            for p in found
            if p.is_file()
        ]
    return Kept(folders, tuple(files))
