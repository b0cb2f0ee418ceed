"""What a plan waits for between chunks: a person (`--stop-after`), and the hours and the rate of `[plan]` in lake.toml.

Elsewhere: marks in general (`files`), the order of chunks and the gates (`backfill.run`). Nothing sleeps here.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import ONE_DAY, DayRange, parse_day
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import CHUNK_TAG, PLAN_REASON, PLAN_TAG
from backfill_assets.engine.confs import OWN_SERVERS
from backfill_assets.lake.home import Lake
from backfill_assets.lake.sections import PlanSettings
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.plans.files import mark, resumed
from backfill_assets.plans.model import ChunkKind, Plan, PlanChunk, Policy

AFTER_CANARY, AFTER_EACH = "canary", "chunk"
HOUR = timedelta(hours=1)
CORES_OF_A_CHUNK = 2  # its Python process plans and commits while the engine computes for another
MEGABYTES_OF_A_CHUNK = 1024  # of the engine's memory: half of what one chunk alone has by default


def refuse_stop(days: DayRange, policy: Policy) -> None:
    """Raise BackfillError if `stop_after` names no point of a plan of these days."""
    text = policy.stop_after
    if text in ("", AFTER_EACH) or (text == AFTER_CANARY and policy.canary):
        return
    why = "the plan has no canary (--canary 0)" if text == AFTER_CANARY else ""
    if not why:
        try:
            why = "" if parse_day(text) in days else f"{text} is none of the days {days}"
        except BackfillError:
            why = f"{text[:20]!r} is no point of a plan"
    if why:
        raise BackfillError("--stop-after", why, "Nothing was planned", f"Say canary, chunk, or a day of {days}")


def stops_after(plan: Plan, wave: Sequence[PlanChunk]) -> bool:
    """Whether the plan is to wait for a person after these chunks; never after the last ones."""
    text = plan.policy.stop_after
    if not text or tuple(wave) == plan.waves()[-1]:
        return False
    if text in (AFTER_CANARY, AFTER_EACH):
        return text == AFTER_EACH or wave[0].kind is ChunkKind.CANARY
    return any(parse_day(text) in c.days for c in wave if c.kind is not ChunkKind.BOUNDARY)


def stop_if_requested(lake: Lake, plan: Plan, wave: Sequence[PlanChunk]) -> None:
    """Set the mark `waiting` if the plan stops after these chunks, and nobody has resumed it since."""
    last = wave[-1]
    if stops_after(plan, wave) and last.number not in {r.chunk for r in resumed(lake, plan)}:
        text = f"chunk {last.number} ({last.days}) is made and its gate passed, --stop-after {plan.policy.stop_after}"
        mark(lake, plan.id, "waiting", text, chunk=last.number)


@dataclass(frozen=True)
class Wait:
    """Why no chunk may start now, and how long that lasts."""

    message: str
    seconds: float


def wait_of(lake: Lake, plan: Plan) -> Wait | None:
    """What keeps the plan's next chunks from starting now, by `[plan]` of lake.toml; None: they may."""
    settings, now = lake.settings.plan, utc_now()
    if (opens := _opens(settings, now)) is not None:
        reason = f"it is {now:%H:%M} UTC, chunks start {settings.window} UTC (`[plan] window`)"
        return Wait(f"waits until {opens:%Y-%m-%d %H:%M} UTC: {reason}", (opens - now).total_seconds())
    if (limit := settings.runs_per_hour) is None:
        return None
    begun, wanted = _ran_since(lake, now - HOUR), min(plan.policy.max_parallel, limit)
    if len(begun) + wanted <= limit:
        return None
    free = begun[len(begun) + wanted - limit - 1] + HOUR
    reason = f"{len(begun)} chunk(s) ran within the hour, {limit} may (`[plan] runs_per_hour`)"
    return Wait(f"waits until {free:%Y-%m-%d %H:%M} UTC: {reason}", max((free - now).total_seconds(), 1.0))


def _opens(settings: PlanSettings, now: datetime) -> datetime | None:
    """When the window opens next; None if it is open, or if there is none."""
    if settings.window is None:
        return None
    start, stop = map(time.fromisoformat, settings.window.split("-"))
    at = now.time()
    if start <= at < stop if start < stop else at >= start or at < stop:
        return None
    today = datetime.combine(now.date(), start, now.tzinfo)
    return today if today > now else today + ONE_DAY


def _ran_since(lake: Lake, since: datetime) -> list[datetime]:
    """When chunks of any plan first wrote after that moment, ascending, by receipts."""
    first_write: dict[tuple[str, str], datetime] = {}
    for path in lake.tables.glob("*"):
        for commit in lake.store.commits(path.name):
            receipt = commit.receipt
            if receipt is not None and receipt.reason == PLAN_REASON and commit.at > since:
                chunk = receipt.tags.get(PLAN_TAG, ""), receipt.tags.get(CHUNK_TAG, "")
                first_write[chunk] = min(commit.at, first_write.get(chunk, commit.at))
    return sorted(first_write.values())


def hours_text(settings: PlanSettings) -> str:
    """The hours and the rate in words; empty without any."""
    window = [f"chunks start {settings.window} UTC only"] if settings.window else []
    rate = [f"at most {settings.runs_per_hour} chunk(s) run within an hour"] if settings.runs_per_hour else []
    return ", ".join([*window, *rate])


def usual_parallel(settings: LakeSettings) -> tuple[int, str]:
    """How many chunks may run at once if nobody says, by cores and memory of the lake's engine; and why."""
    spark, rate = settings.spark, settings.plan.runs_per_hour
    if spark.engine not in OWN_SERVERS:
        return 1, f"1: cores and memory of {spark.engine.partition(':')[0]} are not known here"
    cores = spark.cores or os.cpu_count() or 1
    memory = int(spark.memory[:-1]) * (1024 if spark.memory[-1] in "gG" else 1)
    limits = [max(1, cores // CORES_OF_A_CHUNK), max(1, memory // MEGABYTES_OF_A_CHUNK), *([rate] if rate else [])]
    why = f"{cores} core(s) allow {limits[0]}, {spark.memory} of the engine's memory {limits[1]}"
    return min(limits), f"{min(limits)}: {why}{f', runs_per_hour {rate}' if rate else ''}"
