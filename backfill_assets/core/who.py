"""Who works at this machine, for receipts.

Lives here: the name of a user at a host, as the system knows it: no variable of the environment and no tag of a run can
say another. Does not live here: sensors and schedules, which say their own names.
"""

import os
import socket

from backfill_assets.core.ownership import user_name

BY = "by"  # tag of receipts: `USER@HOST`; runs that a sensor or schedule asked for name it beside


def whoami() -> str:
    """`USER@HOST` of this process; the user's number where the system knows no name."""
    return f"{user_name(os.geteuid())}@{socket.gethostname()}"


def through_dagster() -> str:
    """Who is named for a run that a browser, sensor or schedule asked for: Dagster knows no users."""
    return f"Dagster, run by {whoami()}"
