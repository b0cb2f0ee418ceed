"""Who works on a plan: one runner at a time, one maker per chunk, and what the last runner said when it ended early.

Lives here: the locks, which the kernel frees whatever becomes of their holders, and the mark `stopped`. Does not live
here: what a runner does (`plan_run`).
"""

import contextlib
from collections.abc import Iterator

from filelock import FileLock, Timeout

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import Plan, PlanChunk
from backfill_assets.lake.home import Lake
from backfill_assets.operations.plan_files import mark

PATIENCE_SECONDS = 1.0  # longer than somebody takes to look whether there is a runner


@contextlib.contextmanager
def only_runner(lake: Lake, plan: Plan) -> Iterator[None]:
    """Nobody else runs the plan inside the block; raises BackfillError where somebody does."""
    try:
        lock = _runner(lake, plan).acquire(timeout=PATIENCE_SECONDS)
    except Timeout:
        raise BackfillError(
            f"the plan {plan.id}", "another process is running it", "Nothing was started",
            f"Watch it with `backfill-assets plan show {plan.id} --watch`",
        ) from None  # fmt: skip
    with lock:
        yield


def is_running(lake: Lake, plan: Plan) -> bool:
    """Whether some process runs the plan at this moment."""
    try:
        with _runner(lake, plan).acquire(timeout=0):
            return False
    except Timeout:
        return True


@contextlib.contextmanager
def only_maker(lake: Lake, plan: Plan, chunk: PlanChunk) -> Iterator[None]:
    """Nobody else makes the chunk inside the block: one that is still at it, because its runner was killed, is waited
    for."""
    with FileLock(_folder(lake, f"plan-{plan.id}-chunk-{chunk.number}.lock")):
        yield


@contextlib.contextmanager
def telling_stops(lake: Lake, plan: Plan) -> Iterator[None]:
    """Whatever ends the block early is kept as the mark `stopped`: a person's turn. A killed process keeps nothing."""
    try:
        yield
    except BaseException as error:
        mark(lake, plan.id, "stopped", str(error) if isinstance(error, Exception) else "it was interrupted")
        raise


def _runner(lake: Lake, plan: Plan) -> FileLock:
    return FileLock(_folder(lake, f"plan-{plan.id}.lock"))


def _folder(lake: Lake, name: str) -> str:
    lake.locks.mkdir(parents=True, exist_ok=True)
    return str(lake.locks / name)
