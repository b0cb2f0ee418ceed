"""Past a power cut: files and folders brought to the disk, finished files put into their places.

Lives here: syncing, and publishing by rename. Does not live here: what the files hold. Standard library only.
"""

import os
from pathlib import Path


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
