"""The identity of a process: its number and when it was created, because the system uses numbers
again; and where that number means something.

Not here: which processes work in a folder, and ending them (`engines.processes`); markers of runs
that name a process (`kernel.log.run_markers`).
"""

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

# Where a creation time is one of the epoch, it moves when the clock is adjusted.
CLOCK_SLACK_SECONDS = 2.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # Linux; elsewhere the host's name must do
# Which numbering of processes: that of a container is its own.
PROCESS_NAMES = Path("/proc/self/ns/pid")
# Of what follows the program's name in /proc/PID/stat: field 22 of proc(5), starttime.
_TICKS_FIELD = 19


@dataclass(frozen=True)
class Process:
    """A process of this machine."""

    pid: int
    created: float  # seconds since `boot`, to a tick of the kernel: no step of the clock changes it
    boot: str = ""  # id of the boot; "": `created` counts from the epoch, as in old records

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The living process with that number, None if there is none (or only a zombie)."""
        try:
            found = psutil.Process(pid)
            return None if found.status() == psutil.STATUS_ZOMBIE else _process_identity(found)
        except (psutil.Error, OSError):
            return None

    @classmethod
    def this(cls) -> "Process":
        """The process that calls this."""
        return _process_identity(psutil.Process())

    def is_alive(self) -> bool:
        """True while this very process runs."""
        found = Process.of(self.pid)
        if found is None or self.boot:
            return found == self
        with suppress(psutil.Error):
            return abs(psutil.Process(self.pid).create_time() - self.created) < CLOCK_SLACK_SECONDS
        return False

    def age_seconds(self) -> float:
        """Seconds since it was created."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME) if self.boot else time.time()
        return now - self.created

    def memory_bytes(self) -> int | None:
        """Its resident memory; None if it is gone."""
        with suppress(psutil.Error):
            return int(psutil.Process(self.pid).memory_info().rss)
        return None

    def cpu_seconds(self) -> float | None:
        """Processor seconds, of user and system, that it has used so far; None if it is gone."""
        with suppress(psutil.Error):
            if self.is_alive():
                used = psutil.Process(self.pid).cpu_times()
                return used.user + used.system
        return None


def _process_identity(found: psutil.Process) -> Process:
    """A process by what the kernel counts; by psutil's creation time on a system without
    `/proc`."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return Process(found.pid, found.create_time())
    stat = Path(f"/proc/{found.pid}/stat").read_bytes()
    ticks = int(stat.rpartition(b")")[2].split()[_TICKS_FIELD])
    return Process(found.pid, ticks / os.sysconf("SC_CLK_TCK"), boot)


@dataclass(frozen=True)
class PlacedProcess:
    """A process and where its number means something. The fields are those of markers on disk."""

    host: str  # "", as `boot` and `numbering`: the system names none
    boot: str
    numbering: str
    pid: int
    started: float  # see `Process.created`
    since_boot: bool = False  # whether `started` counts from the boot

    @classmethod
    def this(cls) -> "PlacedProcess":
        """The process that calls this."""
        return cls.of(Process.this())

    @classmethod
    def of(cls, process: Process) -> "PlacedProcess":
        """A process that this one sees."""
        numbering = ""
        with suppress(OSError):
            numbering = str(PROCESS_NAMES.readlink())
        return cls(
            socket.gethostname(),
            process.boot,
            numbering,
            process.pid,
            process.created,
            bool(process.boot),
        )

    def is_gone(self, here: "PlacedProcess") -> bool:
        """Whether it certainly ended, as seen from the process `here`: a reboot of its host has
        ended it, and a process elsewhere is never judged by a local number."""
        if self.is_seen_from(here):
            boot = self.boot if self.since_boot else ""
            return not Process(self.pid, self.started, boot).is_alive()
        return self.host == here.host and self.boot != here.boot

    def is_stopped(self) -> bool:
        """Whether it was stopped by a signal or a debugger, and does nothing until it is told to go
        on; of a process that is seen from here."""
        stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        with suppress(psutil.Error):
            return psutil.Process(self.pid).status() in stopped
        return False

    def is_seen_from(self, here: "PlacedProcess") -> bool:
        """Whether the process `here` can tell that it lives: not one of another host, or in another
        container."""
        same = (self.boot, self.numbering) == (here.boot, here.numbering)
        return same and bool(here.boot or self.host == here.host)
