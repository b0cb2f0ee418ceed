"""Names in `dagster.yaml` files written by versions up to 0.2: Dagster's own launcher and queue.

Lives here: the two classes, so that such a file still opens. Does not live here: anything of ours; new files name
Dagster's classes, and these lines of an old file can be deleted.
"""

import dagster as dg

WarmRunLauncher = dg.DefaultRunLauncher
WarmQueue = dg.QueuedRunCoordinator
