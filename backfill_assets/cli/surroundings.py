"""What a fork cannot take over from who asks for it, and so must have from its birth: else the command begins as ever.

Lives here: telling it, for both sides alike, of the process that calls. Does not live here: what a fork does take over
(`waiting`): words, folder, streams, the rest of the environment. Imports next to nothing.

What is not known to be read late is taken to be read at import, or by a library that is: the rule errs on the side of
the ordinary way.
"""

import os
import sys
from pathlib import Path
from typing import Any

from backfill_assets.core.garbage import ALLOCATORS

# Read when a command works, and by nothing that is imported: a test holds it. The rest of the environment is equal.
READ_LATE = frozenset(
    (
        "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "WINDOWID", "TMUX",
        "TMUX_PANE", "STY", "WINDOW", "PWD", "OLDPWD", "SHLVL", "_", "DAGSTER_HOME", "SSH_AUTH_SOCK",
        "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "GPG_TTY", "XDG_SESSION_ID", "XDG_VTNR", "XDG_SEAT",
        "DBUS_SESSION_BUS_ADDRESS", "SPARK_CONNECT_MODE_ENABLED",
    )
)  # fmt: skip
OWN_PREFIX = "BACKFILL_ASSETS_"
STATUS = frozenset(
    (
        "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "SigBlk",
        "Cpus_allowed", "Mems_allowed",
    )
)  # fmt: skip
OF_THE_PROCESS = ("cgroup", "limits", "oom_score_adj", "attr/current")
PROC = Path("/proc/self")


def may_differ(name: str) -> bool:
    """Whether a variable of the environment may be another one: it is read late, or processes of ours set it."""
    return name in READ_LATE or name in ALLOCATORS or name.startswith(OWN_PREFIX)


def surroundings(without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Those of this process, as JSON values: environment (but the variables `without`), rights, limits, namespaces and
    priorities of the process, and its Python. Raises OSError where the system does not tell."""
    flags = [list(sys.flags), sys.warnoptions, sorted(map(str, sys._xoptions.items()))]
    return {
        "env": {n: v for n, v in os.environ.items() if not may_differ(n) and n not in without},
        "python": [sys.executable, sys.version, sys.path[1:], str(Path(__file__)), str(flags)],
        "status": [line for line in _text("status").splitlines() if line.partition(":")[0] in STATUS],
        "process": [_text(name) for name in OF_THE_PROCESS],
        "spaces": [str((PROC / "root").readlink()), *sorted(str(s.readlink()) for s in (PROC / "ns").iterdir())],
        "turn": [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)],
    }


def _text(name: str) -> str:
    try:
        return (PROC / name).read_text(errors="replace")
    except OSError:  # of a module of the kernel that is not there
        return ""
