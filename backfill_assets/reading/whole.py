"""Folders of files that count as a whole, as snapshots and candidates do: by what one file of each
says.

That file is there first and says `unfinished`; the content that makes the folder count replaces it
last, and only if nobody replaced it meanwhile. Who deletes a folder writes `unfinished` there
before the first other file goes. So a folder is seen whole or not at all, whenever a command stops,
and no folder is renamed. Not here: what the files mean.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.place.port import (
    LOCK_SECONDS,
    LOCKS,
    AlreadyThere,
    Changed,
    Gone,
    Place,
    Token,
)
from backfill_assets.kernel.tables.table_places import (
    CANDIDATE_FILE,
    SNAPSHOT_FILE,
    SNAPSHOTS,
    UNFINISHED,
)

FILES = {SNAPSHOTS: SNAPSHOT_FILE, CANDIDATES: CANDIDATE_FILE}
MAKING = "being made"
UNFINISHED_PREFIX = f'{{"{UNFINISHED}"'.encode()  # begins the file of a folder that does not count


@dataclass(frozen=True)
class WholeFolders:
    """The folders of one kind in a lake, e.g. `.snapshots/NAME`."""

    lake: Place
    folder: str  # a key of `FILES`

    @property
    def file(self) -> str:
        """The name of the file in each that says whether it counts."""
        return FILES[self.folder]

    @property
    def place(self) -> Place:
        """The place of the folders."""
        return self.lake.at(self.folder)

    def names(self) -> list[str]:
        """The names of the folders that count, ascending; also of one whose file is damaged."""
        return sorted(n for n in self.place.names() if n[0] != "." and self._is_whole(n))

    def leftovers(self) -> list[str]:
        """The names of all that does not count, ascending; beside the unfinished ones, folders
        without the file."""
        return sorted({*self.place.names()} - {*self.names()})

    def unfinished(self) -> list[str]:
        """The names of what a command makes or deletes, or was stopped at; `.NAME` is by an earlier
        version of this package."""
        return [n for n in self.leftovers() if n[0] == "." or self._place_of(n).exists(self.file)]

    def _place_of(self, name: str) -> Place:
        return self.place.at(name)

    def _is_whole(self, name: str) -> bool:
        place = self._place_of(name)
        try:
            with place.open(self.file) as opened:
                return opened.read(len(UNFINISHED_PREFIX)) != UNFINISHED_PREFIX
        except Gone:
            return False

    @contextmanager
    def alone(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Keep other commands from making and deleting such folders; what a killed one left is
        deleted first. Raises Held if another one has done so for that long."""
        kind = self.folder.strip(".")
        with self.lake.lock(f"{LOCKS}/{kind}.lock", f"the {kind}", seconds):
            self.sweep()
            yield

    @contextmanager
    def making(self, name: str) -> Iterator[Callable[[bytes], None]]:
        """Make a folder within the block, which calls what it is given with the file's content once
        all other files are written: the folder counts from then on. If the block raises, the folder
        is deleted.

        Raises AlreadyThere if a folder of that name has a file; the call raises Changed if the
        folder was swept.
        """
        place = self._place_of(name)
        if place.below():
            raise AlreadyThere(name)
        begun = place.write(self.file, _unfinished_mark(MAKING), if_absent=True)

        def finish(content: bytes) -> None:
            """Let the folder count."""
            place.write(self.file, content, if_unchanged=begun)
            self.place.sync("")

        try:
            yield finish
        except BaseException:
            self._give_up(name, begun)
            raise

    def _give_up(self, name: str, begun: Token) -> None:
        """Delete a folder that does not count, unless it does meanwhile."""
        with suppress(Changed):
            self._place_of(name).write(self.file, _unfinished_mark("swept"), if_unchanged=begun)
            self._delete_files(name)

    def delete(self, name: str) -> None:
        """Delete a folder. Killed meanwhile, it counts no more, and `sweep` deletes the rest."""
        self._place_of(name).write(self.file, _unfinished_mark("being deleted"))
        self._delete_files(name)

    def sweep(self) -> None:
        """Delete what is unfinished; a command that still makes such a folder gets Changed at its
        end. A folder without its file stays: no command leaves one."""
        for name in self.unfinished():
            begun = self._place_of(name).token(self.file)  # before the look that follows
            if name[0] == ".":
                self.place.delete_below(name)
            elif begun is not None and not self._is_whole(name):
                self._give_up(name, begun)

    def _delete_files(self, name: str) -> None:
        """Delete all files of a folder, the one that says whether it counts last."""
        place = self._place_of(name)
        for other in (n for n in place.names() if n != self.file):
            place.delete_below(other)
        for other in (n for n in place.below() if n != self.file):
            place.delete(other)
        place.delete(self.file)
        self.place.delete_below(name)


def _unfinished_mark(state: str) -> bytes:
    nonce = uuid.uuid4().hex  # stores tell contents apart by their digests
    return json.dumps({UNFINISHED: state, "id": nonce}).encode()


def snapshots_of(lake: Place) -> WholeFolders:
    """The snapshots of a lake."""
    return WholeFolders(lake, SNAPSHOTS)


def candidates_of(lake: Place) -> WholeFolders:
    """The candidates of a lake."""
    return WholeFolders(lake, CANDIDATES)
