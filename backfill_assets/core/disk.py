"""Past a power cut: files and folders brought to the disk, finished files put into their places.

Lives here: syncing, and publishing by rename. Does not live here: what the files hold. Standard library only.
"""

import os
from collections.abc import Collection
from pathlib import Path

SYNC_ALL_FROM = 50  # files: one sync of the whole file system is quicker than so many single ones


def publish(finished: Path, target: Path) -> None:
    """Put a finished file into its place, atomically and past a power cut."""
    sync(finished)
    finished.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(files: Collection[Path], root: Path) -> None:
    """Bring files, and the folders from `root` on that list them, to the disk; raises OSError."""
    if len(files) >= SYNC_ALL_FROM:
        os.sync()
        return
    for file in files:
        sync(file)
    for folder in {parent for file in files for parent in file.parents if parent.is_relative_to(root)}:
        sync(folder)
