"""Making Java's class-data archive, once per machine, beside a server that idles.

Lives here: one making, from the classes that the server noted: begun when nobody uses the server, at the lowest
priority (20 to 30 processor seconds, 700 MB), ended with the server, so that no stop waits for it. Does not live here:
which archive, and its use (`archive`). Imports little: its process stays resident.
"""

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.engine.server_state import take

CLASSES = "classes.list"  # where a server that has no archive notes its classes, in its folder of temporary files
FAILED = ".failed"  # of an archive that could not be made: it is not tried again
KEPT_SECONDS = 30 * 24 * 3600.0  # of other versions, since their last use: 130 MB each
_LOWEST_PRIORITY = 19
_PART = ".part"


@dataclass
class Archiving:
    """The making of the archive `file` by the command `making` from the classes listed in `noted`, at most once.

    Nothing that goes wrong here is told to anyone: without an archive a server starts slower, that is all.
    """

    file: Path
    making: list[str]
    noted: Path
    child: subprocess.Popen[bytes] | None = None
    is_over: bool = False

    def look(self, is_idle: bool) -> None:
        """Begin it if the server idles, finish it if it is made; for those who call again and again. Never waits."""
        try:
            if self.child is not None and self.child.poll() is not None:
                self._finish(self.child.returncode)
            elif self.child is None and is_idle and not self.is_over:
                self._begin()
        except OSError:
            self.end()

    def end(self) -> None:
        """Give it up, if it is under way."""
        child, self.child, self.is_over = self.child, None, True
        if child is not None:
            child.kill()
            child.wait()
            with suppress(OSError):
                self._part.unlink(missing_ok=True)

    @property
    def _part(self) -> Path:
        return self.file.with_suffix(_PART)

    def _begin(self) -> None:
        self.is_over = True
        lock = os.open(self.file.parent / "making.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if self.file.exists() or not take(lock):
                return  # somebody else did, or does
            for left in self.file.parent.glob(f"*{_PART}"):
                left.unlink()
            # The last line may be half written, as long as the server runs.
            whole, _, _ = self.noted.read_bytes().rpartition(b"\n")
            listed = self.noted.with_suffix(".whole")
            listed.write_bytes(whole + b"\n")
            told = [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={self._part}"]
            self.child = subprocess.Popen(
                # The lock goes along: it is held as long as anything writes, whatever becomes of this process.
                [self.making[0], *told, *self.making[1:]], cwd=self.noted.parent, pass_fds=[lock],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            os.setpriority(os.PRIO_PROCESS, self.child.pid, _LOWEST_PRIORITY)
        finally:
            os.close(lock)

    def _finish(self, code: int) -> None:
        self.child = None
        if code or not self._part.exists():
            self._part.unlink(missing_ok=True)
            if code > 0:  # not where it was killed
                self.file.with_suffix(FAILED).touch()
            return
        self._part.chmod(0o600)
        with self._part.open("rb") as made:
            os.fsync(made.fileno())
        self._part.replace(self.file)
        for old in self.file.parent.iterdir():
            if old.suffix in (self.file.suffix, FAILED) and time.time() - old.stat().st_mtime > KEPT_SECONDS:
                old.unlink(missing_ok=True)
