"""Hashes of landed files whose time stamp proves nothing any more, remembered so that each is computed once.

Lives here: a derived file in the stock, path -> size, time and SHA-256. Does not live here: hashing (`landing`), and
what the ledger says of a file. It may be deleted at any time; it is trusted exactly as far as the ledger trusts a
file's size and time, and a file that changed just now is never remembered.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from backfill_assets.core.clock import utc_now
from backfill_assets.landing.files import LandedFile, StillChanging, is_complete, sha256_of

NAME = "landing.hashes"


class Hashes:
    """The hashes of one lake's landed files; `keep` writes down what was asked for since, and forgets the rest."""

    def __init__(self, stock: Path) -> None:
        self._path = stock / NAME
        self._known = _read(self._path)
        self._asked: dict[str, list[object]] = {}

    def sha256(self, file: LandedFile) -> str:
        """The SHA-256 of the file as 64 hexadecimal digits; the empty text while it is still changing."""
        size, moment, digest = self._known.get(file.name, (None, None, ""))
        if (size, moment) != (file.size, file.mtime_ns):
            try:
                digest = sha256_of(file)
            except StillChanging:
                return ""
        if is_complete(file, utc_now().timestamp()):
            self._asked[file.name] = [file.size, file.mtime_ns, digest]
        return str(digest)

    def keep(self) -> None:
        """Write the hashes down if they changed. A folder that cannot be written to costs time, nothing else."""
        if self._asked == self._known:
            return
        partial = self._path.with_suffix(f".{os.getpid()}.partial")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self._asked, sort_keys=True), encoding="utf-8")
            partial.replace(self._path)


def _read(path: Path) -> dict[str, list[object]]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): [int(size), int(moment), str(sha)] for name, (size, moment, sha) in said.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
