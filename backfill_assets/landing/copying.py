"""A landed file's bytes, kept apart from the landed file: cloned where the file system can, else copied.

Lives here: the copy, its hash and its publishing. Does not live here: links, on purpose (a file that is rewritten in
place changes under every hard link to it), and judging what was copied (`intake`).
"""

import fcntl
import hashlib
import os
from pathlib import Path

from backfill_assets.landing.files import READ_BYTES, LandedFile, opened

FICLONE = 0x40049409  # Linux: both files share their blocks until one of them is written to


def copied(file: LandedFile, target: Path) -> str:
    """Copy the file's bytes to `target`, which must not exist; the SHA-256 of what lies there now.

    Raises StillChanging if the file changes meanwhile, LandingError where it may not be read.
    """
    with opened(file) as source, target.open("xb") as sink:
        if _cloned(source, sink.fileno()):
            with target.open("rb") as copy:
                return hashlib.file_digest(copy, "sha256").hexdigest()
        digest = hashlib.sha256()
        while block := os.read(source, READ_BYTES):
            digest.update(block)
            if block.strip(b"\0"):
                sink.write(block)
            else:
                sink.seek(len(block), os.SEEK_CUR)  # a hole stays one: a huge sparse file takes no disk
        sink.truncate()
    return digest.hexdigest()


def _cloned(source: int, sink: int) -> bool:
    try:
        fcntl.ioctl(sink, FICLONE, source)
    except OSError:
        return False  # another file system, or one that cannot
    return True
