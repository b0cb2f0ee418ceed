"""Who works at this machine, for receipts.

Lives here: the name of a person at a host. Does not live here: sensors and schedules, which say their own names.
"""

import getpass
import os
import socket

BY = "by"  # tag of receipts: `USER@HOST`; runs that a sensor or schedule asked for name it beside


def whoami() -> str:
    """`USER@HOST` of this process; the user's number where the system knows no name."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without /etc/passwd (KeyError before Python 3.13)
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
