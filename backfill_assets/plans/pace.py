"""When the next chunks of a plan may begin, by the rate of `[plan]` in `lake.toml` and by runs that
go before plans.

Not here: the order of chunks (`run`), how many of them run at once (`preflight`), which runs
Dagster has (`plan_job`, `run_command`), and the hours of a day, which cron keeps (guide: plans).
Nothing sleeps here but `sleep_briefly`.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.plans.model import PLAN_REASON, Plan
from backfill_assets.plans.settings import plan_settings

HOUR = timedelta(hours=1)
LOOK_SECONDS = 5.0  # after so long a plan that waits sees that somebody paused it

# Waits at most so many seconds; False: the runner ends, and the sensor `plans` comes back.
Rest = Callable[[float], bool]


def rest_elsewhere(_seconds: float) -> bool:
    """Do not wait: the rest of a runner in Dagster, whose place others take meanwhile."""
    return False


def sleep_briefly(seconds: float) -> bool:
    """Sleep, for `LOOK_SECONDS` at most, and go on: the rest of a runner in a terminal."""
    time.sleep(min(seconds, LOOK_SECONDS))
    return True


def find_none() -> str:
    """Find no run that goes first."""
    return ""


@dataclass(frozen=True)
class Pace:
    """How the runner of a plan waits between chunks."""

    rest: Rest = rest_elsewhere
    find_ahead: Callable[[], str] = find_none  # names a run that goes first; "" without one

    def for_first_chunk(self) -> "Pace":
        """The same before a runner's first chunk: it began because it was its turn, and a plan that
        always let others go first would never end."""
        return replace(self, find_ahead=find_none)

    def wait_for(self, lake: Lake, plan: Plan) -> "Wait | None":
        """What keeps the plan's next chunks from beginning now; None where they may."""
        wait = wait_for_turn(lake, plan)
        if wait is not None or not (ahead := self.find_ahead()):
            return wait
        return Wait(f"waits for {ahead}, which goes first (`[plan] priority`)", LOOK_SECONDS)


@dataclass(frozen=True)
class Wait:
    """Why no chunk may begin now, and for how long (seconds)."""

    message: str
    seconds: float


def wait_for_turn(lake: Lake, plan: Plan) -> Wait | None:
    """Return what keeps the plan's next chunks from beginning now; None where they may.

    Chunks of all plans of the lake count that wrote within the last hour, each from its first
    write in it on. Chunks that run at once begin together, so that more of them than the rate
    allows begin once none counts.
    """
    rate = plan_settings(lake.settings).runs_per_hour
    if rate is None:
        return None
    now = utc_now()
    begun = _begun_since(lake, plan, now - HOUR)
    surplus = len(begun) + min(plan.policy.max_parallel, rate) - rate
    if surplus <= 0:
        return None
    free = begun[surplus - 1] + HOUR
    return Wait(
        f"waits until {free:%Y-%m-%d %H:%M} UTC: {len(begun)} chunk(s) ran within the hour, "
        f"{rate} may (`[plan] runs_per_hour`)",
        max((free - now).total_seconds(), 1.0),
    )


def _begun_since(lake: Lake, plan: Plan, since: datetime) -> list[datetime]:
    """When chunks of any plan first wrote after that moment, ascending, by the newest receipts of
    the tables that the lake had as this plan was made."""
    first_writes = dict[tuple[str, str], datetime]()
    for table in plan.pins.versions:
        for commit in _commits_since(lake, table, since):
            receipt = commit.receipt
            if receipt is not None and receipt.reason == PLAN_REASON:
                chunk = receipt.tags.get(PLAN_TAG, ""), receipt.tags.get(CHUNK_TAG, "")
                first_writes[chunk] = min(commit.at, first_writes.get(chunk, commit.at))
    return sorted(first_writes.values())


def _commits_since(lake: Lake, table: str, since: datetime) -> Iterator[Commit]:
    """The commits of a table after that moment, newest first; no older one but one is read."""
    if lake.store.exists(table):
        yield from takewhile(lambda commit: commit.at > since, lake.store.newest_commits(table))
